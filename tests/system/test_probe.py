"""The probe on hosts that refuse a facility reports what a run would meet, and is fast.

A child of this process becomes each host, by namespaces and credentials; nothing outside it changes.
"""

from __future__ import annotations

import ctypes
import json
import os
import time

import pytest

from stockade.backends.native.backend import Native
from stockade.linux import libc, mounts, probe, processes, users
from stockade.planning.facts import HostFacts

ORDINARY = 65534
CAPABILITY_VERSION_3 = 0x20080522
OF_A_CONTAINER = 0xA80425FB
"""What Docker leaves its root (moby, oci/caps/defaults.go)."""


def probed(become) -> tuple[HostFacts, float]:
    """Return the probe's result in a child that has called ``become``, and its seconds."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become()
            begin = time.perf_counter()
            found = {"facts": probe.probe(ORDINARY), "seconds": time.perf_counter() - begin}
        except BaseException as error:
            found = {"error": repr(error)}
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        answer = json.loads(file.read())
    os.waitpid(pid, 0)
    assert "error" not in answer, answer["error"]
    return HostFacts.from_probe(answer["facts"]), answer["seconds"]


def as_ordinary_user():
    if os.geteuid() == 0:
        processes.become(ORDINARY, ORDINARY)
        processes.set_dumpable(True)


def cover_part_of_proc():
    libc.unshare(processes.NEW_NS)
    mounts.make_private()
    mounts.tmpfs("/proc/sys/kernel", 4096, 2, 0o755)
    as_ordinary_user()


def enter_user_namespace():
    as_ordinary_user()
    uid, gid = os.geteuid(), os.getegid()
    libc.unshare(processes.NEW_USER)
    proc = os.open("/proc", os.O_PATH)
    users.map_identity(proc, 0, uid, 0, gid)
    os.close(proc)


def close_user_namespaces():
    enter_user_namespace()
    proc = os.open("/proc", os.O_PATH)
    users.bound_namespace(proc)
    os.close(proc)
    processes.drop_capabilities()


def lose_rights_of_root():
    """Become root as in a container: with the harmless capabilities, without CAP_SYS_ADMIN."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(*[OF_A_CONTAINER, OF_A_CONTAINER, 0, 0, 0, 0])
    libc.syscall("capset", header, data)


@pytest.mark.needs("root", "namespaces")
def test_partly_covered_proc_is_reported():
    facts, seconds = probed(cover_part_of_proc)
    assert not facts.namespaces
    assert "/proc/sys/kernel" in facts.covered
    available = Native().availability(facts)
    assert "no fresh /proc can be mounted" in available.reason and "/proc/sys/kernel" in available.reason
    assert seconds < 2  # the probe waits for nothing; it takes 0.05 s on an idle machine


@pytest.mark.needs("root", "namespaces")
def test_root_without_rights_is_refused():
    facts, _ = probed(lose_rights_of_root)
    assert not facts.namespaces
    assert "the guest would be the host's root" in Native().availability(facts).reason


@pytest.mark.needs("namespaces")
def test_user_namespace_root_counts_as_ordinary_user():
    facts, _ = probed(enter_user_namespace)
    assert (facts.uid, facts.namespaces, facts.privileged) == (0, True, False)


@pytest.mark.needs("namespaces")
def test_setting_closing_user_namespaces_is_named():
    facts, seconds = probed(close_user_namespaces)
    assert not facts.namespaces
    assert Native().availability(facts).reason == (
        "user namespaces are closed here by user.max_user_namespaces (clone: No space left on device)"
    )
    assert seconds < 2  # the probe waits for nothing; it takes 0.05 s on an idle machine


@pytest.mark.needs("namespaces")
def test_ordinary_user_is_recognized():
    facts, _ = probed(as_ordinary_user)
    assert (facts.namespaces, facts.privileged) == (True, False)
