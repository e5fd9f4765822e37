"""A small internet for tests: servers with public and private addresses, in networks and mounts of the tests' own.

``Internet`` starts a process in new namespaces. A second network, joined by a veth pair, has the servers. The process
runs stockade there on request, so its wardens and their proxies see this internet and no other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WEB, OTHER, RESOLVER, CALLER = "93.184.216.1", "93.184.216.2", "93.184.216.53", "93.184.216.254"
PRIVATE = "10.0.0.5"
VALUE = "sk-value-that-nobody-may-see"
"""The value of each secret."""
_AS_ROOT = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_AS_USER = ["unshare", "--user", "--map-current-user", "--keep-caps", *_AS_ROOT[1:]]


class Internet:
    """An internet, and a caller in it."""

    def __init__(self, folder: Path) -> None:
        """``folder`` keeps the certificates and the names."""
        make_certificates(folder)
        own = _AS_ROOT if os.geteuid() == 0 else _AS_USER
        self._process = subprocess.Popen(
            [*own, sys.executable, "-m", "tests.support.internet.caller", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=HERE.parents[2],
        )
        self.authority = (folder / "ca.pem").read_text()
        if self._answer() != "ready":
            raise RuntimeError("the caller did not start")

    def ask(self, kind: str, **fields: Any) -> Any:
        """Have the caller do something; return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([kind, fields]).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the caller has ended: {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the caller, and with it everything in its namespaces."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


def make_certificates(folder: Path) -> None:
    """Write an authority (``ca.pem``) and a server's key and certificate (``server.pem``)."""
    names = "DNS:example.org,DNS:*.example.org,DNS:evil.example.net"
    common = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"]
    authority = ["-x509", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]
    server = [
        "-subj",
        "/CN=server",
        "-addext",
        f"subjectAltName={names}",
        "-keyout",
        "server.key",
        "-out",
        "server.crt",
    ]
    for arguments in (
        [*authority, "-addext", "keyUsage=critical,keyCertSign"],
        [*server, "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"],
    ):
        subprocess.run(["openssl", "req", *common, *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "server.pem").write_text((folder / "server.key").read_text() + (folder / "server.crt").read_text())
