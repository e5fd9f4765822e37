"""Cold runs: the pool, the spawner that forks their instances, and PID 1 of an instance."""
