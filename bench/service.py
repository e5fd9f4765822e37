"""Measure a run over HTTP beside a local one: `python -m bench.service [--runs 200] [--clients 1,16] [--smoke]`.

Three contenders take turns: `Runner.run`, `Client.run` against `stockade serve`, and a bare FastAPI that starts
`python -c` without any sandbox. Each runs `print(1)`, from as many threads as there are clients.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import stockade

SOURCE = "print(1)"
ROUNDS = 4
BARE = """
import subprocess, sys
import fastapi, uvicorn
app = fastapi.FastAPI()

@app.post("/run")
def run(body: dict):
    done = subprocess.run([sys.executable, "-c", body["source"]], capture_output=True, timeout=10)
    return {"code": done.returncode, "stdout": done.stdout.decode()}

uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


@contextmanager
def started(command, log):
    """Run a server until the end of the block."""
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def local():
    runner = stockade.Runner()
    return lambda: runner.run(SOURCE)


def over_http(folder):
    """Return a function that waits for the server, and then makes a client's call."""
    text = (folder / "log").read_text
    until = time.monotonic() + 60
    while not (found := re.search(r"key: (\S+).*listening: (\S+)", text(), re.S)):
        assert time.monotonic() < until, text()
        time.sleep(0.2)
    client = stockade.Client(found[2], found[1])
    return lambda: client.run(SOURCE)


def bare(port):
    kept = threading.local()

    def call():
        if not hasattr(kept, "connection"):
            kept.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        kept.connection.request("POST", "/run", json.dumps({"source": SOURCE}), {"Content-Type": "application/json"})
        return kept.connection.getresponse().read()

    return call


def timed(call, runs, clients):
    """Return the seconds of each of ``runs`` calls, shared by ``clients`` threads."""
    taken = []

    def work():
        for _ in range(runs // clients):
            begun = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="of each contender, for each number of clients")
    parser.add_argument("--clients", default="1,16")
    parser.add_argument("--smoke", action="store_true", help="eight runs by one client: does it work at all")
    options = parser.parse_args()
    if options.smoke:
        options.runs, options.clients = 8, "1"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("wb") as log:
        serve = [sys.executable, "-m", "stockade", "serve", "--data", f"{name}/data", "--port", "0"]
        with started(serve, log), started([sys.executable, "-c", BARE, str(port)], log):
            calls = {"local": local(), "over HTTP": over_http(Path(name)), "bare FastAPI": bare(port)}
            print(f"{'clients':>8}  {'':14}{'p50':>9}{'p99':>9}{'rate':>9}   of {options.runs} runs")
            for clients in map(int, options.clients.split(",")):
                report(calls, options.runs, clients)


def report(calls, runs, clients):
    taken, spent = {name: [] for name in calls}, dict.fromkeys(calls, 0.0)
    for call in calls.values():
        timed(call, 2 * clients, clients)  # fills caches and pools
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begun = time.perf_counter()
            taken[name] += timed(call, runs // ROUNDS, clients)
            spent[name] += time.perf_counter() - begun
    for name, seconds in taken.items():
        p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
        print(f"{clients:8}  {name:14}{p50 * 1e3:6.1f} ms{p99 * 1e3:6.1f} ms{len(seconds) / spent[name]:6.0f} /s")


if __name__ == "__main__":
    main()
