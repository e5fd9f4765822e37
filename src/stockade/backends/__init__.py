"""Backends: one file each, looked up by name in ``registry``."""
