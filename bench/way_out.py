"""Measure a bounded way out: a run that has one and does not use it, its first request, and each later request.

    python -m bench.way_out [--runs 50] [--smoke]

The server is on this host's loopback, listed by its address. "Direct" is the same guest in the host's network. Medians,
in one run, each pair in turns.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import stockade

_ASK = """
import http.client, time
times = []
for number in range({count}):
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", {port})
    connection.request("GET", "{url}", headers={{"Host": "127.0.0.1:{server}"}})
    assert connection.getresponse().read() == b"x" * 1000
    times.append(time.perf_counter() - begin)
times
"""
_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n" + b"x" * 1000


@contextmanager
def serving() -> Iterator[int]:
    """Serve on the loopback; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(_REPLY)

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def unused(runs: int, network: stockade.Network) -> tuple[float, float]:
    """Return milliseconds of a cold run without and with a way out that it does not use."""
    runners = [stockade.Runner(network=each, backend="native", warm=False) for each in ("none", network)]
    spent: list[list[float]] = [[], []]
    for number in range(2 * runs + 4):
        begin = time.perf_counter()
        assert runners[number % 2].run("1").ok
        if number >= 4:
            spent[number % 2].append((time.perf_counter() - begin) * 1e3)
    return statistics.median(spent[0]), statistics.median(spent[1])


def requests(count: int, server: int, network: stockade.Network | str) -> tuple[float, float]:
    """Return milliseconds of the first request, and of a later one."""
    proxied = isinstance(network, stockade.Network)
    url = f"http://127.0.0.1:{server}/" if proxied else "/"
    code = _ASK.format(count=count, port=3128 if proxied else server, url=url, server=server)
    result = stockade.run(code, network=network, backend="native")
    assert result.ok, (result.summary(), result.stderr, result.network)
    first, *later = result.value
    return first * 1e3, statistics.median(later) * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--smoke", action="store_true", help="check that it works, in about a second")
    arguments = parser.parse_args()
    runs = 3 if arguments.smoke else arguments.runs
    with serving() as server:
        network = stockade.Network(allow=[f"127.0.0.1:{server}"])
        without, with_it = unused(runs, network)
        first, later = requests(10 * runs, server, network)
        _, direct = requests(10 * runs, server, "host")
    print("| milliseconds | without | with a way out |")
    print("| --- | --- | --- |")
    print(f"| a cold run that makes no request | {without:.2f} | {with_it:.2f} |")
    print(f"| the first request | | {first:.2f} |")
    print(f"| a later request | {direct:.2f} (direct) | {later:.2f} |")


if __name__ == "__main__":
    main()
