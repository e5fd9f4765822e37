"""The Landlock tables, and the rights of a ruleset for each ABI. No test here asks the kernel."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from stockade.linux import landlock
from stockade.linux.landlock import Ruleset

# The whole mask of each kind, as in the table of ABIs in the kernel's own documentation.
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
def test_mask_matches_each_abi(abi: int) -> None:
    tables = (landlock.FILESYSTEM, landlock.TCP, landlock.SCOPES, landlock.LOGGING)

    assert tuple(landlock.mask(table, abi) for table in tables) == MASKS[abi]


@pytest.mark.parametrize("abi", range(1, 9))
def test_empty_ruleset_handles_all_rights(abi: int) -> None:
    assert landlock.handled_rights(Ruleset(), abi) == MASKS[abi][:3]
    assert landlock.path_rights(Ruleset(), abi) == {}
    assert landlock.port_rights(Ruleset(), abi) == {}


def test_unfiltered_side_is_not_handled() -> None:
    assert landlock.handled_rights(Ruleset(tcp_bind="all"), 7)[1] == 0b10
    assert landlock.handled_rights(Ruleset(tcp_connect="all"), 7)[1] == 0b01
    assert landlock.handled_rights(Ruleset(scopes=("signal",)), 7)[2] == 0b10


def test_path_rights_add_up_over_lists() -> None:
    rights = landlock.path_rights(FULL, 7)

    assert rights == {"/usr": 0b1101, "/etc/hosts": 0b1100, "/tmp/place": 0b111011110111110}


@pytest.mark.parametrize(("abi", "expected"), [(1, 1 << 13 | 1 << 14), (2, 1 << 14), (3, 0)])
def test_path_rights_omit_unknown_to_abi(abi: int, expected: int) -> None:
    newest = landlock.path_rights(FULL, 7)["/tmp/place"]

    assert newest & ~landlock.path_rights(FULL, abi)["/tmp/place"] == expected


def test_path_rights_never_grant_device_nodes() -> None:
    everything = Ruleset(read=("/",), read_write=("/",), execute=("/",))
    denied = landlock.mask(landlock.FILESYSTEM, 7, ("make_char", "make_block", "ioctl_dev"))

    assert landlock.path_rights(everything, 7)["/"] & denied == 0
    assert landlock.path_rights(Ruleset(terminals=("/dev/pts",)), 7)["/dev/pts"] & denied == 1 << 15  # ioctl_dev


def test_port_rights_add_up_since_abi_4() -> None:
    ports = Ruleset(tcp_bind=(0, 80), tcp_connect=(80, 443))

    assert landlock.port_rights(ports, 3) == {}
    assert landlock.port_rights(ports, 4) == {0: 0b01, 80: 0b11, 443: 0b10}
    assert landlock.port_rights(FULL, 7) == {0: 0b01, 8080: 0b01}


@pytest.mark.parametrize("ruleset", [Ruleset(), FULL, Ruleset(read=("/caf\udce9",), scopes=())])
def test_ruleset_round_trips_json(ruleset: Ruleset) -> None:
    assert Ruleset.from_json(json.loads(json.dumps(ruleset.to_json()))) == ruleset


def test_ruleset_to_json_is_plain() -> None:
    assert FULL.to_json() == {
        "read": ["/usr", "/etc/hosts"],
        "read_write": ["/tmp/place"],
        "execute": ["/usr"],
        "tcp_bind": [0, 8080],
        "tcp_connect": "all",
        "scopes": ["signal"],
        "terminals": [],
    }


def test_ruleset_missing_key_allows_nothing() -> None:
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
def test_ruleset_invalid_field_is_named(field: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Ruleset.from_json(field)

    assert str(refusal.value) == message


def test_ruleset_set_attribute_is_refused() -> None:
    with pytest.raises(AttributeError, match="frozen: read"):
        FULL.read = ("/",)
    with pytest.raises(AttributeError, match="frozen: read"):
        del FULL.read
    with pytest.raises(AttributeError, match="frozen: other"):
        FULL.other = 1  # type: ignore[attr-defined]


def test_ruleset_copies_are_equal() -> None:
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
def test_left_open_names_permanent_gaps(abi: int) -> None:
    gaps = "\n".join(landlock.left_open(abi))

    for word in ("mode, owner, times", "stat", "UDP", "MPTCP", "MSG_FASTOPEN", "named unix", "memfd"):
        assert word in gaps


def test_left_open_without_landlock_is_a_sentence() -> None:
    assert landlock.left_open(0) == ("this kernel has no Landlock, so it restricts nothing",)
