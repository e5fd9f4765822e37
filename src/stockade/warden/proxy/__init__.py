"""The proxy of one run: the only way out of its sandbox, as a process with rights of its own."""
