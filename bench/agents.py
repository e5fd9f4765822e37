"""Measures a task of a smolagents agent, as a whole run: with its local executor, its docker executor and ours.

python -m bench.agents [--runs 5] [--docker VENV] [--json FILE]        needs pip install 'smolagents[docker]'

The model is a script and takes no time. What remains is what a user waits for besides the model: the executor's start,
four steps and its end. The task sums a table of sales, a small one and a large one. The local executor interprets
Python in Python and isolates nothing. --docker needs root and a virtual environment of /usr/bin/python3 with numpy,
pillow, ipykernel and jupyter_kernel_gateway: it starts a daemon of its own, whose image has that environment.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import smolagents

from stockade.integrations.smolagents import StockadeExecutor

SIZES = {"small": 48, "large": 20_000}
"""Rows of the table."""
_STEPS = """\
rows = []
for i in range({rows}):
    rows.append((['north', 'south', 'east', 'west'][i % 4], i % 12, (i * 7919) % 1000))
len(rows)
---
totals = {{}}
for region, month, amount in rows:
    totals[(region, month)] = totals.get((region, month), 0) + amount
print(len(totals))
---
best = max(totals, key=lambda key: totals[key])
share = round(totals[best] / sum(totals.values()), 4)
print(best, share)
---
final_answer(f'{{best[0]}} {{best[1]}} {{share}}')
"""
_IMAGE = ("stockade-bench", "1")


class Script(smolagents.Model):
    """A model that answers with one step after another."""

    def __init__(self, rows: int) -> None:
        super().__init__(model_id="script")
        self._steps = _STEPS.format(rows=rows).split("---\n")

    def generate(self, _messages: Any, **_options: Any) -> smolagents.ChatMessage:
        text = f"Thought: next.\n<code>\n{self._steps.pop(0)}\n</code>"
        return smolagents.ChatMessage(role=smolagents.MessageRole.ASSISTANT, content=text)


def one(rows: int, kind: str, how: dict[str, Any]) -> tuple[float, str]:
    """Return the seconds of a run, and its answer. Everything that it started has ended then."""
    begun = time.perf_counter()
    executor = StockadeExecutor() if kind == "stockade" else None
    agent = smolagents.CodeAgent([], Script(rows), executor=executor, verbosity_level=-1, max_steps=9, **how)
    try:
        answer = str(agent.run("Which region and month sold most, and which share is that?"))
    finally:
        agent.cleanup()
    return time.perf_counter() - begun, answer


@contextlib.contextmanager
def docker(environment: Path) -> Iterator[dict[str, Any]]:
    """Yield the arguments of an agent in docker, over a daemon of our own whose image has a virtual environment."""
    from docker import from_env
    from tests.support import docker_engine

    with docker_engine.running() as daemon:
        os.environ["DOCKER_HOST"] = f"unix://{daemon.socket}"
        client = from_env()
        name, tag = _IMAGE
        client.api.import_image_from_data(_image(docker_engine, environment), repository=name, tag=tag)
        network = client.networks.create(name, driver="bridge")  # the gateway is published on the loopback alone
        gateway = [f"{environment}/bin/python", "-m", "kernel_gateway", "--KernelGatewayApp.ip=0.0.0.0"]
        run = {"network": name, "command": gateway, "environment": {"HOME": "/run"}, "tmpfs": {"/run": ""}}
        how = {"image_name": ":".join(_IMAGE), "build_new_image": False, "container_run_kwargs": run}
        try:
            yield {"executor_type": "docker", "executor_kwargs": how}
        finally:
            network.remove()


def _image(engine: Any, environment: Path) -> bytes:
    """Return the image of the tests, with a virtual environment and the libraries that it needs."""
    content = io.BytesIO(engine.image())
    with tarfile.open(fileobj=content, mode="a") as archive:
        paths = [str(environment), *map(str, environment.rglob("*"))]
        needed = [each for path in paths if path.endswith(".so") for each in engine._with_libraries(path)]
        names = set(archive.getnames())
        for path in engine._with_folders([*paths, *map(os.path.normpath, needed)]):
            name = path.lstrip("/")
            if name not in names:
                names.add(name)
                archive.add(path, name, recursive=False)
    return content.getvalue()


def measured(runs: int, kinds: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the median seconds of each kind of executor for each size, measured in turn after a first run of each."""
    found: dict[str, dict[str, float]] = {}
    for size, rows in SIZES.items():
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        answers = set()
        for number in range(runs + 1):
            for kind, how in kinds.items():
                took, answer = one(rows, kind, how)
                answers.add(answer)
                if number:
                    seconds[kind].append(took)
        assert len(answers) == 1, answers
        found[size] = {kind: round(statistics.median(each), 3) for kind, each in seconds.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--docker", type=Path, metavar="VENV")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        kinds: dict[str, dict[str, Any]] = {"local": {}, "stockade": {}}
        if options.docker is not None:
            kinds["docker"] = stack.enter_context(docker(options.docker.resolve()))
        found = measured(options.runs, kinds)
    for size, seconds in found.items():
        line = "   ".join(f"{kind} {each:7.3f} s" for kind, each in seconds.items())
        print(f"{size:6} {line}   stockade / local {seconds['stockade'] / seconds['local']:.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
