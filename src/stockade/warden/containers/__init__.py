"""Containers of an engine that runs by itself, such as a docker daemon."""
