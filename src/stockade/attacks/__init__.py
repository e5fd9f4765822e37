"""Attacks on stockade's own sandboxes: a corpus of programs, and what tries them."""
