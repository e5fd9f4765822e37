import socket

import pytest

from stockade.core.targets import allows, intersection, parse, parse_pattern, why_closed


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Example.ORG:443", "example.org:443"),
        ("xn--bcher-kva.example:80", "xn--bcher-kva.example:80"),
        ("203.0.113.7:8080", "203.0.113.7:8080"),
        ("[2001:DB8:0::7]:443", "[2001:db8::7]:443"),
    ],
)
def test_target_is_written_in_one_way(text, written):
    assert str(parse(text)) == written == str(parse_pattern(text))


@pytest.mark.parametrize(
    "text",
    [
        "", "example.org", "example.org:", ":443", "example.org:0", "example.org:00443", "example.org:65536",
        "example.org:+443", "example.org:4٤3", "example.org.:443", ".example.org:443", "a..b:443", "-a.org:443",
        "a_b.org:443", "exa mple.org:443", "example.org\0.net:443", "bücher.example:443", "a" * 64 + ".org:443",
        "user@example.org:443", "1:443", "2130706433:443", "127.1:443", "0177.0.0.1:443", "0x7f.0.0.1:443",
        "127.0.0.01:443", "1.2.3.4.5:443", "1.2.3.256:443", "example.0x1:443", "::1:443", "[::1:443", "[::1]443",
        "[::1%lo]:443", "[127.0.0.1]:443", "[example.org]:443", "*.example.org:443",
    ],
)  # fmt: skip
def test_target_in_another_spelling_is_refused(text):
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "*:443",
        "*.org:443",
        "*.*.org:443",
        "a.*.org:443",
        "*.1.2.3.4:443",
        "[::ffff:1.2.3.4]:1",
        "0.0.0.0:80",
        "[::]:80",
    ],
)
def test_pattern_that_is_too_wide_or_unclear_is_refused(text):
    with pytest.raises(ValueError):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "target", "allowed"),
    [
        ("example.org:443", "example.org:443", True),
        ("example.org:443", "EXAMPLE.org:443", True),
        ("example.org:443", "example.org:80", False),
        ("example.org:443", "a.example.org:443", False),
        ("*.example.org:443", "a.b.example.org:443", True),
        ("*.example.org:443", "example.org:443", False),
        ("*.example.org:443", "evilexample.org:443", False),
        ("*.example.org:443", "example.org.evil.net:443", False),
        ("10.0.0.5:80", "10.0.0.5:80", True),
        ("10.0.0.5:80", "10.0.0.50:80", False),
        ("10.0.0.5:80", "[::ffff:10.0.0.5]:80", False),
        ("[2001:db8::7]:443", "[2001:db8:0:0::7]:443", True),
    ],
)
def test_pattern_allows_only_what_it_names(pattern, target, allowed):
    assert allows(parse_pattern(pattern), parse(target)) is allowed


@pytest.mark.parametrize(
    ("ours", "most", "both"),
    [
        (["*.example.org:443"], ["a.example.org:443"], ["a.example.org:443"]),
        (["a.example.org:443"], ["*.example.org:443"], ["a.example.org:443"]),
        (["*.a.example.org:443"], ["*.example.org:443"], ["*.a.example.org:443"]),
        (["example.org:443"], ["*.example.org:443"], []),
        (["10.0.0.5:80", "b.org:1"], ["10.0.0.5:80", "b.org:2"], ["10.0.0.5:80"]),
        (["b.org:1"], [], []),
    ],
)
def test_intersection_allows_what_both_lists_allow(ours, most, both):
    found = intersection(map(parse_pattern, ours), map(parse_pattern, most))
    assert list(map(str, found)) == both


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
        "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1",
        "2001:db8::1", "2002:808:808::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "4000::1",
    ],
)  # fmt: skip
def test_address_that_is_not_public_is_closed(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    assert why_closed(socket.inet_pton(family, address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "223.255.255.255",
                "2606:2800:220:1::1", "2a00:1450::1", "2001:4860:4860::8888"]
)  # fmt: skip
def test_public_address_is_open(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    assert why_closed(socket.inet_pton(family, address)) == ""
