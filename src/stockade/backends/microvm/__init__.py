"""The microvm backend: a machine with a kernel of its own, and a native sandbox inside and around it."""
