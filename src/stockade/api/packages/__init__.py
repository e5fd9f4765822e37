"""Packages by name: from requirements to a read-only folder that an interpreter imports from.

``provide`` is the way in. ``wanted`` reads requirements, ``pip`` downloads wheels, ``unpack`` unpacks each wheel in a
sandbox, and ``store`` keeps the result.
"""
