"""Instances for cold runs: the pool, the spawner that forks them, and their PID 1."""
