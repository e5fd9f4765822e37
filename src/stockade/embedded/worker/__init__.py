"""The jailed worker: a living sandbox in which an agent runs the engine of ``stockade.embedded``.

``engine`` and ``process`` are the caller's side. ``agent`` runs inside, and ``codec`` on both sides.
"""
