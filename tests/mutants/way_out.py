"""Protections of a bounded way out: the proxy's checks of targets, of HTTP and of TLS, its bounds, and secrets."""

from __future__ import annotations

from tests.mutants.protection import Edit, Protection

_TARGETS, _JOB = "core/targets.py", "api/job_arguments.py"
_PROXY = "warden/proxy/"
_KEPT_OPEN: Edit = (
    _PROXY + "heads.py",
    'return b"\\r\\n".join([*lines, b"Connection: close"]) + END',
    'return b"\\r\\n".join(lines) + END',
)
"""Without it, a server ends the connection before it reads a hidden request."""


def _of(
    file: str,
    name: str,
    old: str,
    new: str,
    *attacks: str,
    beside: tuple[str, ...] = (),
    more: tuple[Edit, ...] = (),
    given: tuple[Edit, ...] = (),
) -> Protection:
    place = file if "/" in file else _PROXY + file
    return Protection(
        f"way out: {name}",
        ((place, old, new), *more),
        tuple(f"network/{each}" for each in attacks),
        tuple(f"way out: {each}" for each in beside),
        given,
    )


_LIST, _BLOCKS, _NOTHING, _AT_ONCE = (
    "list of targets",
    "closed blocks of IPv4",
    "nothing behind a request",
    "nothing in the first packet",
)
_REFUSAL = """\
        if self._buffer or self._wire.read(self._wire.client):
            raise Refused(400, "a second request came over one connection", self._wire.target)
"""
_SENT_ON = "        self._wire.pending = self._buffer\n        self._wire.send_all()\n"
_MORE_CAME = "        if not request.chunked and len(self._wire.pending) > whole:"
_PORTS = "ports that the proxy can connect to"
_NAME, _SWITCH, _GATE, _HOSTS = "the name in TLS", "no switch of protocols", "hosts of the gateway", "hosts of a secret"
WAY_OUT = (
    _of("server.py", _LIST, "        if not allowed:\n            remedy", "        if False:\n            remedy",
        "unlisted_name", "another_port", "name_above_a_wildcard", "name_that_looks_like_a_listed_one", "dns_as_a_channel", "service_of_the_host_by_a_tunnel", "redirect"),
    _of(_TARGETS, "ports of the list", "if pattern.port != target.port or pattern.address", "if pattern.address", "another_port", beside=(_PORTS,)),
    _of("process.py", _PORTS, 'tcp_connect="all" if order.asks else sorted(ports | {_DNS})', 'tcp_connect="all"', "another_port", beside=("ports of the list",)),
    _of(_TARGETS, "names below a domain", "return target.host.endswith(pattern.host[1:]) and", "return target.host.endswith(pattern.host[2:]) and", "name_that_ends_like_a_listed_one", "name_above_a_wildcard"),
    _of(_TARGETS, _BLOCKS, "return _first(_CLOSED_V4, address)", 'return ""',
        "name_to_private_address", "name_to_metadata", "name_to_metadata_of_another_cloud", "name_to_carrier_address", "name_to_protocol_address",
        "name_to_benchmark_address", "name_to_reserved_address", "name_to_documentation_address", "rebound_name"),
    _of(_TARGETS, "closed blocks of IPv6", "    return _first(_CLOSED_V6, address)", '    return ""', "name_to_6to4_address", "name_to_teredo_address"),
    _of(_TARGETS, "global addresses of IPv6 only", "    if not _lies_in(address, _GLOBAL_V6):", "    if False:",
        "name_to_nat64_address", "name_to_mapped_address", "name_to_compatible_address", "name_to_metadata_over_ipv6"),
    _of("dial.py", "addresses of this host", ' or ("an address of this host" if _is_own(address) else "")', "", "name_to_this_host"),
    _of("dial.py", "connection to the address that was checked", "sock.connect(_place(address, target.port))", "sock.connect((target.host, target.port))",
        "name_that_changes_after_the_check"),
    _of(_TARGETS, "one spelling of an address", "    if _looks_numeric(host):", "    if False:", "address_in_decimal", "address_in_octal", beside=(_LIST, _BLOCKS)),
    _of("heads.py", "Host is the target", "    if named != target:", "    if False:", "another_host_field"),
    _of("heads.py", "one Host field", "if len(hosts) > 1 or (not hosts", "if (not hosts", "two_host_fields"),
    _of("heads.py", "no control characters", "    if not _VALUE.issuperset(value):", "    if False:", "carriage_return_in_a_header", "nul_in_a_header"),
    _of("heads.py", "names of fields are tokens", "if not (colon and name and _TOKEN.issuperset(name)):", "if not colon:", "folded_header"),
    _of("heads.py", "a version in each request", "    if len(parts) != 3:", '    if len(parts) == 2:\n        parts.append(b"HTTP/1.0")\n    elif len(parts) != 3:', "request_of_http_0_9"),
    _of("server.py", "length of a head", "            if len(data) > heads.MOST_HEAD:\n                raise Refused(431", "            if False:\n                raise Refused(431", "very_long_head"),
    _of("relay.py", _NOTHING,
        _REFUSAL, _SENT_ON, "second_request_after_the_first", "request_behind_a_trailer", more=(_KEPT_OPEN,)),
    _of("server.py", _AT_ONCE, _MORE_CAME, "        if False:", "pipelined_request", beside=(_NOTHING,)),
    _of("heads.py", "one length", "    if len(lengths) > 1 or not lengths[0]", "    if not lengths[0]", "two_lengths", beside=(_AT_ONCE, _NOTHING)),
    _of("heads.py", "chunks without a length, and in HTTP/1.1", 'if lengths or len(codings) > 1 or codings[0].lower() != b"chunked" or version != b"HTTP/1.1":', 'if codings[0].lower() != b"chunked":',
        "length_and_chunks", "chunks_in_http_1_0", beside=(_NOTHING,)),
    _of("relay.py", "bodies in chunks are read", "            self._send_chunks()\n",
        '            self._wire.send(SENT, self._buffer)\n            self._buffer = b""\n            self._wire.send_all()\n', "chunk_extension", more=(_KEPT_OPEN,)),
    _of("heads.py", _SWITCH, "    if number == 101 or number < 100:", "    if number < 100:", "server_that_switches_protocols", beside=(_NOTHING, _AT_ONCE)),
    _of("heads.py", "no Upgrade is forwarded", '    b"upgrade", b"expect"', '    b"expect"', "upgrade", beside=(_SWITCH,),
        more=((_PROXY + "heads.py", " and name not in named]", "]"),),
        # A second request is sent on. Only a server that switches protocols reads it, since the proxy asks for the end of the connection.
        given=((_PROXY + "relay.py", _REFUSAL, _SENT_ON), (_PROXY + "server.py", _MORE_CAME, "        if False:"))),
    _of("server.py", "TLS in a tunnel to a name", "        if not target.address:\n            self._check_names(target)\n", "", "no_tls_in_a_tunnel", "no_name_in_tls"),
    _of("server.py", _NAME, "                    if name != target.host:", "                    if False:", "another_name_in_tls", "name_split_over_records", "dot_at_the_end_of_a_name_in_tls"),
    _of("server.py", "the name in a second ClientHello", "            if self._asks_again():", "            if False:", "second_hello_with_another_name"),
    _of("account.py", "bound on requests", "if order.requests is not None and self._requests > order.requests:", "if False:", "more_requests_than_allowed"),
    _of("account.py", "bound on bytes", "            if most is not None and used + count > most:", "            if False:", "more_bytes_than_allowed", "more_bytes_sent_than_allowed",
        more=((_PROXY + "account.py", "                if most is not None and used >= most:", "                if False:"),)),
    _of("account.py", "bound on the rate", "            if rate is not None:", "            if False:", "faster_than_allowed"),
    _of("server.py", "bound on connections", "if self._active >= self.order.connections:", "if False:", "flood_of_connections"),
    _of("vault.py", _GATE, "        if not any(str(target) in each.hosts for each in self._kept):", "        if False:", "secret_for_another_host", "secret_for_another_port", beside=(_HOSTS,)),
    _of("vault.py", _HOSTS, "            if not by_gateway or str(target) not in each.hosts:", "            if False:", "secret_in_the_clear", "secret_by_the_proxy_to_another"),
    _of("vault.py", "fields for secrets", "            if name not in _FIELDS:", "            if False:", "secret_in_a_field_that_servers_repeat"),
    _of("vault.py", "whole values", '            scheme, space, last = field.rpartition(b" ")', '            return field.replace(each.placeholder, each.value)\n            scheme, space, last = field.rpartition(b" ")',
        "secret_in_a_longer_value", "secret_behind_a_strange_scheme"),
    _of("heads.py", "no TRACE with a secret", '        if secure and method == b"TRACE":', "        if False:", "secret_by_trace"),
    _of("vault.py", "certificates", "    context = ssl.create_default_context(cafile=own or None)\n",
        "    context = ssl.create_default_context(cafile=own or None)\n    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE\n", "secret_for_a_false_server"),
    _of(_JOB, "a placeholder inside", "{name: placeholder(name) for name in secrets}", "{name: each.reveal() for name, each in secrets.items()}", "secret_in_all_it_sees"),
)  # fmt: skip
