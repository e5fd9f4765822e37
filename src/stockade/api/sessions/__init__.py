"""Sessions live over many calls in a sandbox: interpreters, shells, and access to its files."""
