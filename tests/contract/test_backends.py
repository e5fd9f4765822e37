"""Every built-in backend under the conformance suite of the package."""

import errno
import os
from typing import ClassVar

import pytest

import stockade
from stockade.testing import BackendContract

SHARED = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
SYSTEM_PYTHON = "/usr/bin/python3"  # root's own may be in a folder that a guest with another uid cannot reach


@pytest.mark.needs("native")
class TestNative(BackendContract):
    backend = "native"

    @pytest.fixture(params=["blocking", "asyncio"])
    def run(self, request):
        return self.run_source if request.param == "blocking" else self.run_in_task


@pytest.mark.needs("native")
class TestWarm(BackendContract):
    """Python source in a warm interpreter, wherever the job allows one."""

    backend = "native"

    def run_source(self, source, **options):
        try:
            return super().run_source(source, **options, warm=True)
        except stockade.JobError as error:
            if not str(error).startswith("warm: "):
                raise
            return super().run_source(source, **options)

    @pytest.fixture
    def run(self):
        return self.run_source


class TestProcess(BackendContract):
    backend = "process"
    accept = SHARED
    interpreter = SYSTEM_PYTHON
    own_root = False
    unnamed_file = "PermissionError"
    own_identity = False
    finds_names = False
    has_terminals = False
    root_can_be_writable = False
    keeps_capabilities = False
    disk = None
    keeps_environment = frozenset(("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"))
    hides: ClassVar = {"read": False, "write": False}
    # An ordinary user's next instance is prewarmed meanwhile, and the dead that PID 1 has not reaped yet count as well.
    tasks_astray = 0 if os.geteuid() == 0 else 12


@pytest.mark.needs("landlock")
class TestLandlock(TestProcess):
    backend = "landlock"


@pytest.mark.needs("bwrap")
class TestBubblewrap(BackendContract):
    backend = "bubblewrap"
    interpreter = SYSTEM_PYTHON
    bounds_terminals = False
    root_can_be_writable = False
    keeps_capabilities = False
    tells_signals = False
    explains_denials = False
    keeps_environment = frozenset({"PWD"})
    hides: ClassVar = {"read": True, "write": False}
    disk: ClassVar = {"/tmp": 4, "/dev/shm": 4, "/workspace": 2}


@pytest.mark.needs("crun")
class TestOci(BackendContract):
    backend = "oci"
    interpreter = SYSTEM_PYTHON
    root_can_be_writable = False
    keeps_capabilities = False
    tells_signals = False
    explains_denials = False
    has_tight_filter = False
    keeps_environment = frozenset({"PWD"})
    hides: ClassVar = {"read": True, "write": False}


@pytest.mark.needs("firejail")
class TestFirejail(BackendContract):
    backend = "firejail"
    keeps_workspaces = False
    accept: ClassVar = {} if os.geteuid() == 0 else {"disk": "absent"}
    interpreter = SYSTEM_PYTHON
    own_root = False
    own_identity = False
    bounds_terminals = False
    other_id = (
        errno.EPERM if os.geteuid() == 0 else errno.EINVAL
    )  # the user namespace of an ordinary user maps no other id
    root_can_be_writable = False
    tells_signals = False
    explains_denials = False
    disk: ClassVar = {"": 1} if os.geteuid() == 0 else None
    disk_places = (".", "../tmp")
    start_seconds = 1.5
    keeps_capabilities = False
