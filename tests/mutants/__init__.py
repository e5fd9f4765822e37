"""Mutation of ourselves: each protection switched off in a copy of the source, and which attacks notice."""
