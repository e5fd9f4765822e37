"""The HTTP service: a queue of runs in a database, a worker process that runs them, and the API in front."""
