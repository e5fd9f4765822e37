"""The weave: check the source of a script, and rewrite its tree so that each operation is metered or guarded."""
