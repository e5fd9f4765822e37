"""A test and an answer, each in a sandbox of its own: neither sees anything of the other but calls and plain data."""
