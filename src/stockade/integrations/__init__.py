"""Adapters for the tools that people already use. Each is a module of its own, imported only on request."""
