"""The published price list: how many units of fuel each kind of work costs. ``docs/embedded.md`` prints this list.

A change of any price changes what scripts pay, so it changes ``VERSION``.
"""

from __future__ import annotations

VERSION = 2

BYTES = 1024
"""Bytes that are copied, compared or searched for one unit."""
APPENDED = 8192
"""Bytes of a text that `+=` extends for one unit."""
NODES = 4
"""Elements that are copied, hashed or compared in one container for one unit."""
DIGITS = 256
"""Products of two 30-bit digits in arithmetic with large integers for one unit."""
NESTED = 10
"""Units for one container inside another that is compared, hashed or printed, beyond its elements."""
STEPS = 16
"""Steps of a regular expression for one unit, by the bound for its pattern and text."""
STATEMENT = 8
"""Operations in one statement for each unit beyond the first."""
CLASS = 100
"""Units for one class that a script makes, by a statement or as a named tuple."""
PATTERN = 10
"""Units for one character of a regular expression that is compiled."""
FRACTION = 8
"""Units for one operation with a fraction or a decimal number."""
HOST_CALL = 20
"""Units for one call of a host function, beyond its arguments and result."""

SMALL_BITS = 4096
"""Integers up to this size are unpriced. A larger one sends all integer arithmetic of the runtime to priced guards."""

LIST = (
    ("one turn of a loop, one element that a builtin consumes, one call of a function of the script", "1"),
    ("one test of `while`", "1"),
    ("a statement of more than eight operations; each element of a display above eight is one", "1 for each eight"),
    ("text and bytes that are copied, compared or searched", f"1 for {BYTES:,} bytes"),
    ("text that `+=` of a function's own name extends", f"1 for {APPENDED:,} bytes of the result"),
    ("elements of one container that are copied, compared or hashed", f"1 for {NODES}"),
    ("one container inside another that is compared, hashed or printed", f"{NESTED}, and its elements"),
    ("products of digits in large integers", f"1 for {DIGITS}; multiplication counts fewer, as its method does"),
    ("steps of a regular expression, by its bound", f"1 for {STEPS}"),
    ("a class or named tuple that is made", f"{CLASS}"),
    ("one character of a regular expression that is compiled", f"{PATTERN}"),
    ("an operation with a fraction or a decimal number", f"{FRACTION}"),
    ("a call of a host function", f"{HOST_CALL}, and its arguments and result"),
)
