"""Mutants of stockade: copies of the source with one protection switched off, and the attacks that notice."""
