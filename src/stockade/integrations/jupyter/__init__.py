"""Kernels of Jupyter in sandboxes that live. ``pip install 'stockade[jupyter]'``."""

from __future__ import annotations

try:
    from stockade.integrations.jupyter.provisioner import DEFAULT_POLICY, StockadeProvisioner
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install it with: pip install 'stockade[jupyter]'", name=error.name) from error

__all__ = ["DEFAULT_POLICY", "StockadeProvisioner"]
