"""The caller in the small internet: builds the networks, and runs what the tests ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from stockade.attacks.internet.network import build
from tests.support.internet import VALUE


def main(folder: str) -> None:
    """Build everything, then answer requests line by line."""
    build(Path(folder))
    _say("ready")
    for line in sys.stdin:
        kind, fields = json.loads(line)
        try:
            _say(globals()[f"do_{kind}"](**fields))
        except Exception as error:  # the test shows it
            _say({"error": repr(error)})


def do_run(
    code: str, network: Any, secrets: dict[str, list[str]] | None = None, yes: list[str] | None = None, **options: Any
) -> Any:
    """Run ``code``; return the result as data, with what the servers have noted meanwhile.

    ``secrets`` are the hosts of each secret, whose value is ``VALUE``; ``yes`` are the answers of ``on_ask``.
    """
    import stockade

    os.environ["REAL_VALUE"] = VALUE
    if secrets:
        made = {name: stockade.Secret.from_env("REAL_VALUE", hosts=hosts) for name, hosts in secrets.items()}
        options["secrets"] = made
    asked: list[str] = []
    if yes is not None:
        options["on_ask"] = lambda target: asked.append(target) or target in yes
    policy = stockade.Policy(network=network, **options.pop("policy", {}))
    seen = Path("notes").stat().st_size
    result = stockade.run(code, policy=policy, backend="native", **options)
    return {"result": result.to_dict(), "notes": _notes(seen), "asked": asked}


def do_direct(code: str) -> Any:
    """Run ``code`` without a sandbox, in the caller's network: the control of an attack."""
    seen = Path("notes").stat().st_size
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, text=True)
    return {"stdout": done.stdout, "stderr": done.stderr, "notes": _notes(seen)}


def do_command(argv: list[str], seconds: float = 60.0, environment: dict[str, str] | None = None) -> Any:
    """Run a command in the caller's network."""
    seen = Path("notes").stat().st_size
    done = subprocess.run(
        argv, capture_output=True, timeout=seconds, text=True, env={**os.environ, **(environment or {})}
    )
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr, "notes": _notes(seen)}


def do_names(**names: Any) -> str:
    """Set the answers of the resolver."""
    Path("names.json").write_text(json.dumps(names))
    return "set"


def _notes(since: int) -> list[Any]:
    """Return the notes from byte ``since`` on, as soon as no more of them come."""
    size = -1
    while size != Path("notes").stat().st_size:
        size = Path("notes").stat().st_size
        time.sleep(0.15)
    with Path("notes").open(encoding="utf-8") as file:
        file.seek(since)
        return [json.loads(line) for line in file]


def _say(data: Any) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
