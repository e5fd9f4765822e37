"""A small internet for attacks on a bounded way out: servers with public and private addresses, in own namespaces.

``trials`` starts a worker in new namespaces. ``network`` builds two networks there, joined by a veth pair: the near one
is the worker's host, and the far one has all servers. The worker's wardens and proxies see this internet and no other,
and nothing of it reaches the host.
"""

from __future__ import annotations

WEB, OTHER, RESOLVER, CALLER = "93.184.216.1", "93.184.216.2", "93.184.216.53", "93.184.216.254"
PRIVATE = "10.0.0.5"
LINK_LOCAL = "fe80::5"
"""An address of the servers, in the zone ``near``."""
NAMES: dict[str, list[list[str]]] = {
    "example.org": [[WEB]],
    "*.example.org": [[WEB]],
    "evil.example.net": [[OTHER]],
    "*.evil.example.net": [[OTHER]],
    "example.org.example.net": [[OTHER]],
    "evil-example.org": [[OTHER]],
    "xn--exmple-4nf.org": [[OTHER]],
    "api.example.com": [[WEB]],
    "private.example.org": [[PRIVATE]],
    "loopback.example.org": [["127.0.0.1"]],
    "here.example.org": [[CALLER]],
    "zero.example.org": [["0.0.0.0"]],
    "metadata.example.org": [["169.254.169.254"]],
    "azure.example.org": [["168.63.129.16"]],
    "shared.example.org": [["100.64.0.1"]],
    "protocol.example.org": [["192.0.0.8"]],
    "benchmark.example.org": [["198.18.0.1"]],
    "reserved.example.org": [["240.0.0.1"]],
    "documented.example.org": [["203.0.113.7"]],
    "six.example.org": [["fd00:ec2::254"]],
    "sixtofour.example.org": [["2002:a00:5::1"]],
    "teredo.example.org": [["2001:0:a00:5::1"]],
    "nat.example.org": [["64:ff9b::a00:5"]],
    "mapped.example.org": [["::ffff:10.0.0.5"]],
    "compatible.example.org": [["::10.0.0.5"]],
    "*.rebound.example.org": [[WEB], [PRIVATE]],
    "mixed.example.org": [[PRIVATE, WEB]],
}
"""The answers of the resolver for each name, one after another; the last one stays. Others are not there."""
AS_ROOT = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
AS_USER = ("unshare", "--user", "--map-current-user", "--keep-caps", *AS_ROOT[1:])
