"""The caller's side of the warden: one conversation without I/O, and two thin faces of it."""
