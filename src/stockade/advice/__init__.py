"""Advice on source text before a run. It informs, and is not a wall: only a sandbox holds."""
