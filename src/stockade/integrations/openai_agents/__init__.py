"""Sandboxes for the OpenAI Agents SDK: its agents work in one that lives. ``pip install 'stockade[openai-agents]'``."""

from __future__ import annotations

try:
    from stockade.integrations.openai_agents.client import (
        DEFAULT_POLICY,
        StockadeSandboxClient,
        StockadeSandboxClientOptions,
    )
    from stockade.integrations.openai_agents.session import StockadeSandboxSession, StockadeSandboxSessionState
except ModuleNotFoundError as error:
    hint = "install it with: pip install 'stockade[openai-agents]'"
    raise ModuleNotFoundError(f"{error}; {hint}", name=error.name) from error

__all__ = [
    "DEFAULT_POLICY",
    "StockadeSandboxClient",
    "StockadeSandboxClientOptions",
    "StockadeSandboxSession",
    "StockadeSandboxSessionState",
]
