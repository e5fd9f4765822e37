"""The public functions and classes that run code."""
