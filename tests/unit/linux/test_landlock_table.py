"""The Landlock tables, and what a ruleset becomes for each ABI. Nothing here asks the kernel."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from stockade.linux import landlock
from stockade.linux.landlock import Ruleset

# As in the table of ABIs in the kernel's own document: the whole mask of each kind.
MASKS = {
    0: (0, 0, 0, 0),
    1: ((1 << 13) - 1, 0, 0, 0),
    2: ((1 << 14) - 1, 0, 0, 0),
    3: ((1 << 15) - 1, 0, 0, 0),
    4: ((1 << 15) - 1, 0b11, 0, 0),
    5: ((1 << 16) - 1, 0b11, 0, 0),
    6: ((1 << 16) - 1, 0b11, 0b11, 0),
    7: ((1 << 16) - 1, 0b11, 0b11, 0b111),
    8: ((1 << 16) - 1, 0b11, 0b11, 0b111),
}
FULL = Ruleset(
    read=("/usr", "/etc/hosts"),
    read_write=("/tmp/place",),
    execute=("/usr",),
    tcp_bind=(0, 8080),
    tcp_connect="all",
    scopes=("signal",),
)


@pytest.mark.parametrize("abi", MASKS)
def test_each_abi_knows_its_rights(abi: int) -> None:
    tables = (landlock.FILESYSTEM, landlock.TCP, landlock.SCOPES, landlock.LOGGING)

    assert tuple(landlock.mask(table, abi) for table in tables) == MASKS[abi]


@pytest.mark.parametrize("abi", range(1, 9))
def test_an_empty_ruleset_refuses_all_that_the_abi_can_refuse(abi: int) -> None:
    assert landlock.handled_rights(Ruleset(), abi) == MASKS[abi][:3]
    assert landlock.path_rights(Ruleset(), abi) == {}
    assert landlock.port_rights(Ruleset(), abi) == {}


def test_a_side_that_is_left_unfiltered_is_not_handled() -> None:
    assert landlock.handled_rights(Ruleset(tcp_bind="all"), 7)[1] == 0b10
    assert landlock.handled_rights(Ruleset(tcp_connect="all"), 7)[1] == 0b01
    assert landlock.handled_rights(Ruleset(scopes=("signal",)), 7)[2] == 0b10


def test_rights_of_a_path_add_up_over_the_lists() -> None:
    rights = landlock.path_rights(FULL, 7)

    assert rights == {"/usr": 0b1101, "/etc/hosts": 0b1100, "/tmp/place": 0b111011110111110}


@pytest.mark.parametrize(("abi", "expected"), [(1, 1 << 13 | 1 << 14), (2, 1 << 14), (3, 0)])
def test_rights_that_an_abi_lacks_are_left_out(abi: int, expected: int) -> None:
    newest = landlock.path_rights(FULL, 7)["/tmp/place"]

    assert newest & ~landlock.path_rights(FULL, abi)["/tmp/place"] == expected


def test_no_list_grants_device_nodes_or_their_ioctls() -> None:
    everything = Ruleset(read=("/",), read_write=("/",), execute=("/",))
    denied = landlock.mask(landlock.FILESYSTEM, 7, ("make_char", "make_block", "ioctl_dev"))

    assert landlock.path_rights(everything, 7)["/"] & denied == 0


def test_rights_of_a_port_add_up_from_abi_4_on() -> None:
    ports = Ruleset(tcp_bind=(0, 80), tcp_connect=(80, 443))

    assert landlock.port_rights(ports, 3) == {}
    assert landlock.port_rights(ports, 4) == {0: 0b01, 80: 0b11, 443: 0b10}
    assert landlock.port_rights(FULL, 7) == {0: 0b01, 8080: 0b01}


@pytest.mark.parametrize("ruleset", [Ruleset(), FULL, Ruleset(read=("/caf\udce9",), scopes=())])
def test_json_carries_a_ruleset_unchanged(ruleset: Ruleset) -> None:
    assert Ruleset.from_json(json.loads(json.dumps(ruleset.to_json()))) == ruleset


def test_json_form_is_plain() -> None:
    assert FULL.to_json() == {
        "read": ["/usr", "/etc/hosts"],
        "read_write": ["/tmp/place"],
        "execute": ["/usr"],
        "tcp_bind": [0, 8080],
        "tcp_connect": "all",
        "scopes": ["signal"],
    }


def test_a_missing_key_allows_nothing() -> None:
    assert Ruleset.from_json({}) == Ruleset()
    assert Ruleset().scopes == ("abstract_unix_socket", "signal")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"paths": []}, "a Landlock ruleset has no field paths"),
        ({"read": "/etc"}, "read: not a list: '/etc'"),
        ({"read": None}, "read: not a list: None"),
        ({"read": ["etc"]}, "read: not an absolute path: 'etc'"),
        ({"read_write": [""]}, "read_write: not an absolute path: ''"),
        ({"execute": ["/a\0b"]}, r"execute: not an absolute path: '/a\x00b'"),
        ({"execute": [7]}, "execute: not an absolute path: 7"),
        ({"tcp_bind": [65536]}, "tcp_bind: not a TCP port: 65536"),
        ({"tcp_bind": [-1]}, "tcp_bind: not a TCP port: -1"),
        ({"tcp_connect": [True]}, "tcp_connect: not a TCP port: True"),
        ({"tcp_connect": ["80"]}, "tcp_connect: not a TCP port: '80'"),
        ({"tcp_connect": "any"}, "tcp_connect: not a list: 'any'"),
        ({"scopes": ["signals"]}, "scopes: not a Landlock scope: 'signals'"),
        ({"scopes": [["signal"]]}, "scopes: not a Landlock scope: ['signal']"),
    ],
)
def test_nonsense_is_refused_by_field(field: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Ruleset.from_json(field)

    assert str(refusal.value) == message


def test_a_ruleset_is_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen: read"):
        FULL.read = ("/",)
    with pytest.raises(AttributeError, match="frozen: read"):
        del FULL.read
    with pytest.raises(AttributeError, match="frozen: other"):
        FULL.other = 1  # type: ignore[attr-defined]


def test_a_ruleset_is_a_value() -> None:
    twin = pickle.loads(pickle.dumps(FULL))

    assert twin == FULL == copy.deepcopy(FULL)
    assert hash(twin) == hash(FULL)
    assert twin != Ruleset() and twin != FULL.to_json()
    assert repr(Ruleset(tcp_bind=(1,))).startswith("Ruleset(execute=(), read=(), read_write=(), scopes=(")


@pytest.mark.parametrize(
    ("abi", "closed", "still_open"),
    [
        (2, (), ("emptied", "TCP connections", "ioctl", "abstract", "signals")),
        (3, ("emptied",), ("TCP connections", "ioctl", "abstract", "signals")),
        (4, ("emptied", "TCP connections"), ("ioctl", "abstract", "signals")),
        (5, ("emptied", "TCP connections", "ioctl"), ("abstract", "signals")),
        (6, ("emptied", "TCP connections", "ioctl", "abstract", "signals"), ()),
        (7, ("emptied", "TCP connections", "ioctl", "abstract", "signals"), ()),
    ],
)
def test_left_open_shrinks_with_each_abi(abi: int, closed: tuple[str, ...], still_open: tuple[str, ...]) -> None:
    gaps = "\n".join(landlock.left_open(abi))

    assert [word for word in closed if word in gaps] == []
    assert [word for word in still_open if word not in gaps] == []


@pytest.mark.parametrize("abi", range(1, 12))
def test_what_no_abi_covers_is_always_said(abi: int) -> None:
    gaps = "\n".join(landlock.left_open(abi))

    for word in ("mode, owner, times", "stat", "UDP", "MPTCP", "MSG_FASTOPEN", "named unix", "memfd"):
        assert word in gaps


def test_no_landlock_at_all_is_one_plain_sentence() -> None:
    assert landlock.left_open(0) == ("this kernel has no Landlock, so it restricts nothing",)
