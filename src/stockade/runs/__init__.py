"""One run as data: its job, its events, its limit states and its verdict."""
