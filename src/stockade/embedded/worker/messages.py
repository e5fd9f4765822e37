"""The kinds of messages between a caller and its worker, as the first byte of a frame."""

from __future__ import annotations

# from the caller
MODULES, START = b"M", b"S"
RUN, CALL, GET, SET = b"R", b"C", b"G", b"P"
RETURNED, RAISED, REFUSED = b"V", b"E", b"U"

# from the worker
HELLO, LOADED, READY, BROKEN = b"h", b"l", b"r", b"!"
HOST_CALL = b"c"
VALUE, EXHAUSTED, FAILED, UNCROSSABLE = b"v", b"x", b"f", b"n"
