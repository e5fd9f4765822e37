"""Attacks on stockade's own sandboxes: a corpus of programs, and the code that runs them."""
