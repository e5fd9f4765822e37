"""Sandboxes that live, for asyncio: a thin layer over the blocking classes, whose arguments it takes over."""
