"""The bubblewrap backend: the system's ``bwrap`` makes the namespaces."""
