"""The firejail backend: the system's set-user-id ``firejail`` makes the namespaces."""
