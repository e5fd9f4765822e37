"""A run as data: its job, events, limit states and verdict."""
