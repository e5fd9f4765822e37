"""``plan``, ``doctor`` and the help texts."""

from __future__ import annotations

import json

import pytest

import stockade as library
from stockade.cli import facilities, remedies, table
from stockade.planning.facts import HostFacts
from stockade.policy.guarantees import Guarantee


def test_plan_lists_every_guarantee(stockade):
    done = stockade("plan", "--backend", "native", "--limit", "memory=64MiB")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert lines[2].split() == ["guarantee", "limit", "mechanism", "strength", "note"]
    assert [line.split()[0] for line in lines[3:]] == [str(each) for each in Guarantee]
    assert any(line.startswith("memory ") and "64 MiB" in line for line in lines)


def test_plan_unheld_policy_still_shows_table(stockade):
    done = stockade("plan", "--accept", "memory=hypervisor")
    text = done.stdout.decode()
    assert done.returncode == 125
    assert text.index("no_survivors") < text.index("This policy cannot be held here:\n  memory: ")


def test_plan_shows_backends_and_choice(stockade):
    names = ["native", "bubblewrap", "oci", "firejail", "docker", "podman", "landlock", "process", "microvm", "gvisor"]
    text = stockade("plan").stdout.decode()
    assert text.splitlines()[0].split()[:5] == ["backend", "usable", "isolation", "fastest", "run"]
    rows = [line.split()[:2] for line in text.splitlines()[1:11]]
    assert [name for name, _ in rows] == names
    assert [usable for name, usable in rows if name != "firejail"] == [
        "yes",
        "yes",
        "yes",
        "no",
        "no",
        "no",
        "no",
        "?",
        "?",
    ]
    assert "native holds the policy; see: stockade plan --backend gvisor" in text
    assert "Chosen: native: the strongest isolation that holds the policy here (namespaces).\n" in text
    data = json.loads(stockade("plan", "--json").stdout)
    assert [each["backend"] for each in data["backends"]] == names
    assert data["backends"][6]["reason"] == "cannot hold disk, process_view, no_survivors"
    assert [each["usable"] for each in data["backends"][-2:]] == [None, None]
    assert set(data["backends"][1]["enforcement"]) == {str(each) for each in Guarantee}


def test_plan_untrusted_code_needs_own_kernel(stockade):
    done = stockade("plan", "--trust", "untrusted")
    assert done.returncode == 125
    assert b"unless the policy says isolation='namespaces'" in done.stderr
    refused = stockade("run", "--trust", "untrusted", "-c", "1")
    assert refused.returncode == 125 and b"share the host's kernel: --isolation namespaces" in refused.stderr
    done = stockade("run", "--trust", "untrusted", "--isolation", "namespaces", "--json", "--", "true")
    assert json.loads(done.stdout)["backend"] == "native"


def test_plan_json_has_enforcement_and_missing(stockade):
    data = json.loads(stockade("plan", "--json").stdout)
    assert data["holds"] is True
    assert set(data["enforcement"]) == {str(each) for each in Guarantee}
    assert {"mechanism", "strength", "note", "floor", "asked"} <= set(data["enforcement"]["memory"])
    done = stockade("plan", "--json", "--accept", "memory=hypervisor")
    data = json.loads(done.stdout)
    assert (done.returncode, data["error"], data["holds"]) == (125, "PlanError", False)
    assert "memory" in data["missing"] and len(data["enforcement"]) == len(Guarantee)


def test_plan_shows_where_secrets_go(stockade, monkeypatch):
    monkeypatch.setenv("MINE", "sk-no-plan-has-this")
    words = (
        "plan",
        "--allow",
        "api.example.org:443",
        "--secret",
        "KEY=MINE@api.example.org",
        "--secret",
        "B=NONE@api.example.org",
    )
    shown = stockade(*words)
    rows = [line.split() for line in shown.stdout.decode().splitlines()[-2:]]
    assert rows == [
        ["KEY", "MINE,", "which", "is", "set", "api.example.org:443"],
        ["B", "NONE,", "which", "is", "not", "set", "api.example.org:443"],
    ]
    data = stockade(*words, "--json").stdout
    assert json.loads(data)["secrets"][0] == {
        "name": "KEY",
        "variable": "MINE",
        "is_set": True,
        "hosts": ["api.example.org:443"],
    }
    assert b"sk-no-plan" not in shown.stdout + data
    refused = stockade("plan", "--secret", "KEY=MINE@api.example.org")
    assert refused.returncode == 2 and b"a bounded way out is needed" in refused.stderr


def test_plan_refuses_secret_beyond_ceiling(stockade, folder):
    (folder / "ceiling.toml").write_text(
        "network = { allow = ['*.example.org:443'], secret_hosts = ['api.example.org:443'] }\n"
    )
    words = ("plan", "--ceiling", "ceiling.toml", "--allow", "*.example.org:443")
    assert stockade(*words, "--secret", "KEY=MINE@api.example.org").returncode == 0
    refused = stockade(*words, "--secret", "KEY=MINE@b.example.org")
    assert refused.returncode == 2 and b"no secret may go by network.secret_hosts" in refused.stderr


def test_doctor_shows_facilities_and_default(stockade):
    done = stockade("doctor")
    assert max(map(len, done.stdout.decode().splitlines())) <= 80
    text = " ".join(done.stdout.decode().split())
    assert done.returncode == 0
    for name in (
        "user namespace",
        "cgroup memory",
        "Landlock",
        "seccomp",
        "language python",
        "language ruby",
        "language javascript",
        "no swap",
    ):
        assert name in text
    assert "The default policy on the native backend holds here: " in text


def test_doctor_json_has_rows_and_default(stockade):
    data = json.loads(stockade("doctor", "--json").stdout)
    for row in data["facilities"]:
        assert set(row) == {"name", "there", "evidence", "gives", "get"}
        assert row["evidence"] and row["gives"]
        assert bool(row["get"]) != row["there"]
    assert data["default_policy"]["holds"] is True


def test_facilities_name_prerequisites_of_way_out():
    facts = _facts(seccomp=True, landlock=4)
    found = {row.name: row for row in facilities.facilities(facts, {}, names="/etc/resolv.conf", authorities="")}
    assert found["bounded way out"].evidence.endswith("under seccomp, Landlock ABI 4")
    assert found["names for the way out"].there
    assert found["authorities for secrets"].get == "sudo apt install ca-certificates"
    assert not _row("bounded way out", _facts(namespaces=False)).there


def _facts(**fields) -> HostFacts:
    return HostFacts(
        **{"kernel": "6.1.0", "machine": "x86_64", "cpus": 2, "uid": 1000, "namespaces": True, "privileged": False}
        | fields
    )


def _row(name: str, facts: HostFacts) -> facilities.Facility:
    rows = facilities.facilities(
        facts, {"ruby": "ruby is not installed: none on the PATH; install it: apt install ruby"}
    )
    return next(row for row in rows if row.name == name)


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ({"user.max_user_namespaces": "0"}, "sudo sysctl -w user.max_user_namespaces=15000"),
        (
            {"kernel.unprivileged_userns_clone": "0", "user.max_user_namespaces": "9"},
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            {"kernel.apparmor_restrict_unprivileged_userns": "1"},
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_facilities_name_setting_against_namespaces(settings, way):
    reasons = dict.fromkeys(("user", *facilities._NAMESPACES), "clone: Operation not permitted")
    row = _row("user namespace", _facts(namespaces=False, namespace_reasons=reasons, settings=settings))
    assert (row.there, row.evidence, row.get) == (False, "clone: Operation not permitted", way)


def test_facilities_masked_proc_is_no_namespace_fault():
    reasons = {"user": "step proc []: mount proc on /proc: Operation not permitted"}
    facts = _facts(namespaces=False, namespace_reasons=reasons, covered=("/proc/acpi", "/proc/kcore"))
    assert _row("user namespace", facts).there
    assert _row("pid namespace", facts).there
    last = _row("all of them, with a new root and /proc", facts)
    assert not last.there
    assert "systempaths=unconfined" in last.get


@pytest.mark.parametrize(
    ("reason", "way"),
    [
        ("cgroup v1 at /sys/fs/cgroup/memory/a: Permission denied", "-o 1000 /sys/fs/cgroup/memory/a/sandboxes-1000"),
        ("cgroup v2 at /sys/fs/cgroup/a: Permission denied", "systemd-run --user --scope -p Delegate=yes"),
        ("cgroup v1 at /sys/fs/cgroup/memory: Read-only file system", "docker run --cgroupns=private"),
        ("", "cgroup_enable=memory"),
    ],
)
def test_remedies_cgroup_depends_on_reason(reason, way):
    assert way in remedies.cgroup("memory", _facts(cgroup_lost={"memory": reason} if reason else {}))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run"],
        ["plan"],
        ["estimate"],
        ["check"],
        ["shell"],
        ["completion"],
        ["doctor"],
        ["policy"],
        ["policy", "show"],
        ["policy", "check"],
        ["policy", "schema"],
        ["policy", "profiles"],
        ["eval"],
        ["packages"],
    ],
)
def test_help_of_every_command_has_examples(stockade, words):
    done = stockade(*words, "--help")
    assert done.returncode == 0
    assert " ".join(["  stockade", *words]) in done.stdout.decode().partition("Examples:")[2]


def test_version_option_prints_version(stockade):
    assert stockade("--version").stdout == f"stockade {library.__version__}\n".encode()


def test_table_wraps_only_to_a_width():
    rows = [("name", "note"), ("x", "many words that go on and on, far past the end of a narrow terminal")]
    assert len(table.lines(rows, None)) == 2
    assert max(map(len, table.lines(rows, 40))) <= 40
