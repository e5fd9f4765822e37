"""x"""

from __future__ import annotations

from typing import Any


def write(*a: Any, **k: Any) -> None:
    """X."""
