"""Batches: run many programs, judge each one, and record one verdict for each."""
