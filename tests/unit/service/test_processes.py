"""The parent of a service, when a process breaks the protocol."""

import asyncio
import sys

import pytest

from stockade.service.processes import Supervisor
from stockade.service.settings import Settings

BROKEN = """
import json, os, socket, sys, time
fields = json.loads(sys.argv[1])
with open("starts", "a") as file:
    file.write("x")
socket.socket(fileno=fields[3]).sendall({line!r})
time.sleep(60)
"""


def supervisor(tmp_path, monkeypatch, line):
    (tmp_path / "broken_front.py").write_text(BROKEN.format(line=line))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(filter(None, sys.path))}")
    settings = Settings(data=tmp_path)

    async def ended(_holder):
        pass

    return Supervisor("broken_front", settings, (), on_line=lambda _word, _rest: None, on_end=ended)


@pytest.mark.parametrize("line", [b"ready\nrefused [\n", b"ready\n" + b"x" * (1 << 21)])
def test_process_that_breaks_the_protocol_is_replaced(tmp_path, monkeypatch, line):
    async def watch():
        made = supervisor(tmp_path, monkeypatch, line)
        await made.start()
        for _ in range(300):
            if len((tmp_path / "starts").read_text()) > 1:
                break
            await asyncio.sleep(0.1)
        await made.stop()
        assert len((tmp_path / "starts").read_text()) > 1

    asyncio.run(watch())
