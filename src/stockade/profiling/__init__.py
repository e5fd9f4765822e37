"""Measure runs on this machine: ``speed`` compares ways to run, ``steps`` traces one, ``chart`` draws the trace."""
