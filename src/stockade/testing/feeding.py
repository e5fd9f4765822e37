"""Standard input that the caller writes during a run."""

from __future__ import annotations

import os
import threading
import time

import pytest

import stockade
from stockade import Output
from stockade.testing.following import SLEEP, Following


class FeedingContract(Following):
    """All bytes that are written arrive, or the write is refused."""

    def test_input_written_during_run_arrives(self) -> None:
        code = "while True:\n    try: print(input().upper(), flush=True)\n    except EOFError: break\nprint('end')"
        with self.stream(code, interactive=True) as run:
            run.write("one\n")
            printed = ""
            for event in run:
                if isinstance(event, Output):
                    printed += event.data.decode()
                    if printed == "ONE\n":
                        run.write(b"two\n")
                    elif printed == "ONE\nTWO\n":
                        run.close_stdin()
        assert printed == "ONE\nTWO\nend\n"

    def test_input_beyond_buffers_is_refused_not_lost(self) -> None:
        piece, code = os.urandom(100_000), "import sys; print('ready', flush=True); sys.stdin.readline()"
        with (
            self.stream(code, interactive=True) as run,
            pytest.raises(BlockingIOError, match="bytes of standard input"),
        ):
            for _ in range(100):
                run.write(piece.replace(b"\n", b" "))
        read = "import sys; print('ready', flush=True); print(len(sys.stdin.buffer.read()))"

        def feed(run: stockade.Stream) -> None:
            left = 40
            while left:
                try:
                    run.write(piece)
                    left -= 1
                except BlockingIOError:
                    time.sleep(0.01)
            run.close_stdin()

        printed, _ = self.steered(
            read, lambda run: threading.Thread(target=feed, args=(run,)).start(), interactive=True
        )
        assert printed == "ready\n4000000\n"

    def test_stdin_and_interactive_together_are_refused(self) -> None:
        with pytest.raises(stockade.JobError, match="interactive"):
            self.stream("1", stdin=b"x", interactive=True)
        with self.stream(SLEEP) as run, pytest.raises(stockade.JobError, match="interactive=True"):
            run.write(b"x")
        with self.stream(SLEEP, interactive=True) as run:
            run.close_stdin()
            with pytest.raises(stockade.JobError, match="closed"):
                run.write(b"x")
