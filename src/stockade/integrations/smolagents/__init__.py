"""A sandbox for smolagents: a ``CodeAgent`` runs its code in one that lives. ``pip install 'stockade[smolagents]'``."""

from __future__ import annotations

try:
    from stockade.integrations.smolagents.executor import DEFAULT_POLICY, StockadeExecutor
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}; install it with: pip install 'stockade[smolagents]'", name=error.name
    ) from error

__all__ = ["DEFAULT_POLICY", "StockadeExecutor"]
