"""The filter of a policy, explanations of its refusals, and the checks of a custom filter file."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stockade import Guarantee, Policy, PolicyError
from stockade.backends.native.backend import launch
from stockade.backends.native.capabilities import capabilities
from stockade.linux import seccomp
from stockade.linux.seccomp import filters
from stockade.linux.seccomp.syscalls import Arch, numbers
from stockade.planning import syscall_filter
from stockade.planning.plan import plan
from stockade.policy.guarantees import Isolation
from tests.unit import facts as hosts

NR = numbers(Arch.X86_64)
ARGS = (0,) * 6


def planned(host=hosts.ROOT_V1, limits=None, accept=None, **security):
    policy = Policy(security=security, limits=limits or {}, accept=accept or {})
    return plan(
        policy, host, "native", capabilities(host), own_filter=syscall_filter.read(policy, host, Isolation.NAMESPACES)
    )


def reason(host=hosts.ROOT_V1, **security):
    with pytest.raises(PolicyError) as caught:
        planned(host, **security)
    (problem,) = caught.value.problems
    assert problem.field == "security.syscalls_file"
    assert problem.value == repr(security["syscalls_file"])
    return problem.reason


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "profile.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


EVERYTHING = {"defaultAction": "SCMP_ACT_ALLOW"}


def denied(made, *names, args=ARGS):
    return syscall_filter.denials(made, [(NR[name], 1, args) for name in names])


class TestPrograms:
    @pytest.mark.parametrize("which", list(seccomp.Filter))
    @pytest.mark.parametrize("host", [hosts.ROOT_V1, hosts.USER])
    def test_program_without_options_is_plain_table(self, which, host):
        shared = "memory" not in host.cgroups
        table = filters.table_of(which, Arch.X86_64)
        narrowed = filters.without_uncounted_memory(table)
        expected = seccomp.compile_table(filters.without_shared_memory(narrowed) if shared else narrowed)
        assert syscall_filter.program(planned(host, syscalls=which.value)) == expected
        assert syscall_filter.errnos(planned(host, syscalls=which.value)) == {}

    def test_program_explaining_denials_has_errnos(self):
        made = planned(explain_denials=True)
        table = filters.without_uncounted_memory(filters.table_of(seccomp.Filter.STANDARD, Arch.X86_64))
        assert syscall_filter.program(made) == seccomp.compile_table(filters.listening(table))
        codes = syscall_filter.errnos(made)
        assert (codes[NR["mount"]], codes[NR["socket"]]) == (1, 97)
        assert NR["clone3"] not in codes

    def test_launch_step_names_the_listening_filter(self):
        from stockade.core.launch import decode_steps
        from stockade.runs.job import Command, Job

        for explain, name in ((False, "filter"), (True, "listening_filter")):
            made = launch(planned(explain_denials=explain), Job(argv=("true",)), Command(argv=("true",)))
            names = [step[0] for step in decode_steps(made.base)]
            assert name in names and bool(made.errnos) is explain

    def test_own_filter_never_opens_shared_memory(self, write):
        file = write(EVERYTHING)
        for mode in ("add", "replace"):
            made = planned(hosts.USER, syscalls_file=file, syscalls_mode=mode)
            (denial,) = denied(made, "memfd_create")
            assert "no process's own limits count" in denial.explanation
            assert denial.allowed_by == "limits.memory='unlimited'"

    @pytest.mark.parametrize("mode", ["add", "replace"])
    def test_own_filter_never_opens_reserved_pages(self, write, mode):
        made = planned(syscalls_file=write(EVERYTHING), syscalls_mode=mode)
        calls = [(NR["mmap"], (0, 0, 0, 0x40022)), (NR["memfd_create"], (0, 4)), (NR["shmget"], (0, 0, 0o4600))]
        found = syscall_filter.denials(made, [(number, 1, (*args, *ARGS)[:6]) for number, args in calls])
        assert {each.allowed_by for each in found} == {"limits.memory='unlimited'"}
        assert all("huge pages that the host has reserved" in each.explanation for each in found)


class TestDenials:
    def test_denial_names_the_wider_filter(self):
        (denial,) = denied(planned(explain_denials=True), "mount")
        assert denial.call == "mount"
        assert denial.explanation.startswith("attaches a file system; the 'standard' filter refuses it because the mou")
        assert denial.allowed_by == "security.syscalls='permissive'"
        assert str(denial).startswith("mount was refused once: attaches a file system; ")
        assert str(denial).endswith("; security.syscalls='permissive' would allow it")
        assert "refused 3 times" in str(replace(denial, count=3))

    def test_denial_arguments_choose_narrowest_filter(self):
        tight = planned(syscalls="tight", explain_denials=True)
        fork, namespace = (17, *ARGS[1:]), (0x10000011, *ARGS[1:])
        assert denied(tight, "clone", args=fork)[0].allowed_by == "security.syscalls='standard'"
        assert denied(tight, "clone", args=namespace)[0].allowed_by == "security.syscalls='permissive'"
        assert denied(tight, "fork")[0].explanation == (
            "starts a process; the 'tight' filter refuses it because a program that only computes does not need it"
        )

    def test_denial_of_all_filters_names_a_file(self):
        swap, ring, vsock = denied(planned(), "swapon", "io_uring_setup", "socket", args=(40, *ARGS[1:]))
        assert swap.allowed_by == "security.syscalls_file: a custom filter that allows it"
        assert ring.allowed_by == vsock.allowed_by == "security.syscalls_file with security.syscalls_mode='replace'"
        assert "the 'standard' filter allows it, except for families beyond" in vsock.explanation

    def test_denial_by_a_file_names_the_file(self, write):
        refused = {"names": ["getpid"], "action": "SCMP_ACT_ERRNO"}
        file = write(EVERYTHING | {"syscalls": [refused]})
        (denial,) = denied(planned(syscalls_file=file, syscalls_mode="replace"), "getpid")
        assert denial.explanation.endswith(f"the filter in {file} refuses it")
        assert denial.allowed_by == f"security.syscalls_file: an entry for it in {file}"

    def test_denial_not_added_by_file_names_it(self, write):
        file = write({"defaultAction": "SCMP_ACT_ERRNO"})
        (denial,) = denied(planned(syscalls_file=file), "swapon")
        assert denial.explanation.endswith(f"are the host's, and {file} does not allow it")


class TestFile:
    def test_receipt_names_the_deciding_filter_file(self, write):
        file = write(EVERYTHING)
        line = planned(syscalls_file=file).enforcement[Guarantee.SYSCALLS]
        assert line.mechanism == f"seccomp filter of {file}, in addition to 'standard'"
        made = planned(syscalls_file=file, syscalls_mode="replace").enforcement
        assert made[Guarantee.SYSCALLS].mechanism == f"seccomp filter of {file}, alone"
        assert "VM sockets" in made[Guarantee.NETWORK].note
        assert "prlimit64" in made[Guarantee.PROCESS_VIEW].note
        assert planned().enforcement[Guarantee.SYSCALLS].mechanism == "seccomp filter"

    def test_plan_changed_file_keeps_old_filter(self, write):
        file = write(EVERYTHING)
        made = planned(syscalls_file=file, syscalls_mode="replace")
        write({"defaultAction": "SCMP_ACT_ERRNO"})
        assert made.own_filter == json.dumps(EVERYTHING).encode()
        assert syscall_filter.program(made) == syscall_filter.program(replace(made))
        assert "the file must allow" in reason(syscalls_file=file, syscalls_mode="replace")

    def test_filter_file_unreadable_is_refused(self, tmp_path):
        assert reason(syscalls_file=str(tmp_path / "none")) == "cannot be read: No such file or directory"
        assert reason(syscalls_file=str(tmp_path)) == "is not a regular file"
        os.mkfifo(tmp_path / "pipe")
        assert reason(syscalls_file=str(tmp_path / "pipe")) == "is not a regular file"
        (tmp_path / "large").write_bytes(b" " * (1 << 20) + b"{}")
        assert reason(syscalls_file=str(tmp_path / "large")) == "is larger than 1 MiB"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "Expecting value"),
            ("{", "Expecting property name"),
            ("[]", "profile: [] is not an object"),
            ('"\udcff"', "can't decode"),
            ("[" * 100_000, "nested too deeply"),
            ({}, "defaultAction: None is not supported"),
            ({"defaultAction": []}, "defaultAction: [] is not supported"),
            ({"defaultAction": "SCMP_ACT_NOTIFY"}, "'SCMP_ACT_NOTIFY' is not supported"),
            (EVERYTHING | {"flags": ["x"]}, "field 'flags'"),
            (EVERYTHING | {"syscalls": [{"names": ["x"], "action": "SCMP_ACT_ERRNO"}]}, "unknown system call 'x'"),
        ],
    )
    def test_filter_file_invalid_content_is_refused(self, tmp_path, content, message):
        text = content if isinstance(content, str) else json.dumps(content)
        path = tmp_path / "profile.json"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert message in reason(syscalls_file=str(path))

    def test_filter_file_blocking_start_is_refused(self, write):
        file = write({"defaultAction": "SCMP_ACT_ERRNO"})
        assert reason(syscalls_file=file, syscalls_mode="replace").startswith(
            "no program could start: the file must allow sendto, sendmsg"
        )
        assert planned(syscalls_file=file).own_filter

    def test_filter_file_guest_writable_is_refused(self, write, tmp_path):
        file = write(EVERYTHING)
        (tmp_path.parent / "link").symlink_to(tmp_path)
        for path in (file, str(tmp_path.parent / "link" / "profile.json")):
            policy = Policy(security={"syscalls_file": path}, filesystem={"write": [str(tmp_path)]})
            with pytest.raises(PolicyError, match="where the guest may write"):
                syscall_filter.read(policy, hosts.ROOT_V1, Isolation.NAMESPACES)
        (tmp_path.parent / "link").unlink()

    def test_filter_file_min_kernel_is_applied(self, write):
        entry = {"names": ["acct"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "6.0"}}
        file = write({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [entry]})
        new = planned(hosts.ROOT_V1, syscalls_file=file)
        old = planned(replace(hosts.ROOT_V1, kernel="5.15.0"), syscalls_file=file)
        assert syscall_filter.program(new) != syscall_filter.program(old) == syscall_filter.program(planned())


class TestPolicyFields:
    def test_policy_syscalls_file_becomes_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert Policy(security={"syscalls_file": Path("a.json")}).security.syscalls_file == str(tmp_path / "a.json")

    @pytest.mark.parametrize(
        ("security", "message"),
        [
            ({"syscalls_file": ""}, "security.syscalls_file = '': a path must not be empty"),
            ({"syscalls_file": 3}, "security.syscalls_file = 3: expected a path"),
            ({"syscalls_file": "a\0b"}, "NUL byte"),
            ({"syscalls_mode": "replace"}, "security.syscalls_mode = 'replace': 'replace' needs a file"),
            ({"syscalls_file": "/x", "syscalls_mode": "both"}, "security.syscalls_mode = 'both'"),
            ({"explain_denials": "yes"}, "security.explain_denials = 'yes'"),
        ],
    )
    def test_policy_filter_mistakes_are_named(self, security, message):
        with pytest.raises(PolicyError) as caught:
            Policy(security=security)
        assert message in str(caught.value)
