"""A sandbox shows itself in one line."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

import stockade
from stockade import AsyncSandbox, Sandbox

pytestmark = pytest.mark.needs("native")
LINE = r"<Sandbox ([0-9a-f]{16}): (\w+); native; policy ([0-9a-f]{12})>"


def test_sandbox_shows_itself_in_one_line():
    with Sandbox.create(timeout=20) as sandbox, Sandbox.create(timeout=21) as other:
        name, state, digest = re.fullmatch(LINE, repr(sandbox)).groups()
        assert (name, state) == (sandbox.id, "open")
        assert digest not in repr(other)
        sandbox.pause()
        assert ": paused; " in repr(sandbox)
        sandbox.resume()
    assert re.fullmatch(LINE, repr(sandbox))[2] == "closed"


def test_digest_is_that_of_the_audit_log(tmp_path):
    stockade.configure(audit=tmp_path / "audit.jsonl")
    try:
        with Sandbox.create(timeout=20) as sandbox:
            sandbox.run_command(["true"]).check()
    finally:
        stockade.configure()
    records = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    names = {record["policy"][:12] for record in records if record["event"] == "start"}
    assert re.fullmatch(LINE, repr(sandbox))[3] in names


def test_asynchronous_sandbox_shows_the_same():
    async def main():
        async with await AsyncSandbox.create(timeout=20) as sandbox:
            assert repr(sandbox) == f"<AsyncSandbox {sandbox.id}: {repr(sandbox._inner).partition(': ')[2]}"

    asyncio.run(main())
