"""Errors, units, records and the launch: plain modules that every other room uses."""
