"""Input and output of ``stockade run``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

AWKWARD = bytes(range(256)) * 3 + b"\xff\xfe\0\r\n\x1b[31m"


def test_run_options_after_script_belong_to_it(stockade, folder: Path):
    (folder / "show.py").write_text("import sys; print(sys.argv[1:])")
    assert stockade("run", "show.py", "--json", "-c", "--", "x").stdout == b"['--json', '-c', '--', 'x']\n"
    done = stockade("run", "-c", "import sys; print(sys.argv[1:])", "a", "--json")
    assert done.stdout == b"['a', '--json']\n"


def test_run_limit_after_script_is_reported(stockade, folder: Path):
    (folder / "show.py").write_text("import sys; print(sys.argv[1:])")
    done = stockade("run", "show.py", "--limit", "memory=64MiB")
    assert done.stdout == b"['--limit', 'memory=64MiB']\n"
    assert done.stderr.startswith(b"stockade: --limit came after the program's name"), done
    failed = stockade("run", "--", "sh", "-c", "echo unknown option --network >&2; exit 2", "sh", "--network", "host")
    assert b"--network came after" in failed.stderr
    assert stockade("run", "show.py", "--network", "host").stderr == b""


def test_run_language_from_suffix_or_option(stockade, folder: Path):
    (folder / "hello.sh").write_text('echo "sh $1"')
    assert stockade("run", "hello.sh", "one").stdout == b"sh one\n"
    assert stockade("run", "--language", "shell", "-c", "echo $((6 * 7))").stdout == b"42\n"


def test_run_reads_code_from_standard_input(stockade):
    assert stockade("run", "-", "one", stdin=b"import sys; print(sys.argv[1:], sys.stdin.read())").stdout == (
        b"['one'] \n"
    )


def test_run_bytes_pass_unchanged_both_ways(stockade):
    done = stockade("run", "--", "cat", stdin=AWKWARD)
    assert (done.stdout, done.stderr) == (AWKWARD, b"")
    done = stockade("run", "--", "sh", "-c", "cat >&2", stdin=AWKWARD)
    assert (done.stdout, done.stderr) == (b"", AWKWARD)


def test_run_arguments_not_utf8_pass_unchanged(stockade):
    word = os.fsdecode(b"a\xffb")
    assert stockade("run", "--", "printf", "%s", word).stdout == b"a\xffb"
    assert stockade("run", "--language", "shell", "-c", f"printf {word}").stdout == b"a\xffb"


def test_run_takes_standard_input_of_any_size(stockade):
    assert stockade("run", "--", "wc", "-c", stdin=b"x" * 5_000_000).stdout == b"5000000\n"


def test_run_reads_stdin_only_as_guest_reads(stockade):
    with Path("/dev/zero").open("rb") as endless:
        assert stockade("run", "--", "head", "-c", "5", stdin=endless).stdout == b"\0" * 5


def test_run_silent_open_pipe_does_not_block(stockade):
    read, write = os.pipe()
    try:
        assert stockade("run", "--", "echo", "done", stdin=read).stdout == b"done\n"
    finally:
        os.close(read)
        os.close(write)


def test_run_with_closed_standard_streams(folder: Path, stockade):
    import sys

    line = f"{sys.executable} -m stockade run -c 'print(input())' <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], cwd=folder, timeout=30).returncode == 1


def test_run_long_output_keeps_head_and_tail(stockade):
    done = stockade("run", "--limit", "output=20", "--", "seq", "100")
    assert done.returncode == 0
    assert done.stdout == b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n[... 262 bytes omitted ...]\n98\n99\n100\n"
    assert done.stderr == b"stockade: 262 bytes of standard output were omitted; --limit output=SIZE keeps more\n"


def test_run_output_arrives_as_written(start):
    process = start("run", "--", "sh", "-c", "echo first; sleep 30", text=False)
    assert process.stdout.readline() == b"first\n"
    assert process.poll() is None


def test_run_json_is_result_object(stockade):
    done = stockade("run", "--json", "-c", "import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr == b""
    assert (result["outcome"], result["exit_code"], result["value"]) == ("completed", 0, 42)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert {"signal", "limit", "limits_met", "usage", "backend", "enforcement"} <= set(result)


def test_run_json_of_limit_keeps_exit_status(stockade):
    done = stockade("run", "--json", "--limit", "wall_time=0.2", "--", "sleep", "30")
    assert done.returncode == 124
    assert json.loads(done.stdout)["limit"] == "wall_time"
    assert done.stderr == b""


def test_errors_with_json_are_objects(stockade):
    for words, error, status in (
        (["run", "--json", "--limit", "memory=-1", "-c", "1"], "PolicyError", 2),
        (["run", "--json", "nothing.py"], "JobError", 2),
        (["run", "--json", "--accept", "memory=hypervisor", "-c", "1"], "PlanError", 125),
        (["run", "--json", "--backend", "nothing", "-c", "1"], "BackendUnavailable", 125),
        (["run", "--json", "--bogus"], "UsageError", 2),
        (["run", "--json"], "UsageError", 2),
        (["plan", "--limit", "memry=1", "--json"], "UsageError", 2),
    ):
        done = stockade(*words)
        data = json.loads(done.stdout)
        assert (done.returncode, data["error"], done.stderr) == (status, error, b"")
        assert data["message"]


def test_result_file_separates_object_from_output(stockade, folder: Path):
    done = stockade("run", "--result-file", "verdict.json", "-c", "print('out'); raise SystemExit(4)")
    assert (done.returncode, done.stdout) == (4, b"out\n")
    assert json.loads((folder / "verdict.json").read_text())["exit_code"] == 4


def test_result_file_never_holds_an_older_verdict(stockade, folder: Path):
    file = folder / "verdict.json"
    for words, error in (
        (["--limit", "memory=-1", "-c", "1"], "PolicyError"),
        (["--accept", "memory=hypervisor", "-c", "1"], "PlanError"),
        (["nothing.py"], "JobError"),
    ):
        file.write_text('{"outcome": "completed"}')
        stockade("run", "--result-file", "verdict.json", *words)
        assert json.loads(file.read_text())["error"] == error


def test_result_file_in_guests_folder_is_refused(stockade, folder: Path):
    out = folder / "out"
    out.mkdir()
    out.chmod(0o777)
    victim = folder / "victim"
    victim.write_text("precious")
    (out / "verdict.json").symlink_to(victim)
    (out / "sub").symlink_to(folder)
    words = ("--write", "out", "--accept", "disk=absent", "-c", "1")
    for path in ("out/verdict.json", "out/other.json", "out/sub/victim"):
        done = stockade("run", "--result-file", path, *words)
        assert done.returncode == 2
        assert b"where the guest may write" in done.stderr
    assert victim.read_text() == "precious"


def test_run_policy_options_reach_guest(stockade, folder: Path):
    (folder / "data").mkdir()
    (folder / "data" / "x").write_text("content")
    (folder / "policy.toml").write_text('[environment.set]\nA = "file"\nB = "file"\n[limits]\nopen_files = 33\n')
    done = stockade(
        "run", "--policy", "policy.toml", "--read", "data", "--env", "B=option", "--inherit-env", "OWN",
        "--language", "shell", "-c", f"cat {folder}/data/x; echo $A $B $OWN; ulimit -n; env | grep -c SECRET",
        env={"OWN": "mine", "SECRET": "hidden"},
    )  # fmt: skip
    assert done.stdout == b"contentfile option mine\n33\n0\n"


def test_run_guest_starts_in_named_workspace(stockade, folder: Path):
    (folder / "x").write_text("content")
    done = stockade("run", "--workspace", ".", "--", "sh", "-c", "pwd; cat x; echo no > x", "x")
    assert done.stdout == f"{folder}\ncontent".encode()
    assert done.returncode != 0
    assert (folder / "x").read_text() == "content"


def test_run_explains_denials_on_request(stockade, folder: Path):
    code = "import ctypes; ctypes.CDLL(None).mount(None, None, None, 0, None)"
    assert stockade("run", "-c", code).stderr == b""
    done = stockade("run", "--explain-denials", "-c", code)
    assert done.returncode == 0
    assert done.stderr.startswith(b"stockade: mount was refused once: attaches a file system; ")
    assert done.stderr.endswith(b"; security.syscalls='permissive' would allow it\n")
    (denial,) = json.loads(stockade("run", "--json", "--explain-denials", "-c", code).stdout)["denials"]
    assert (denial["call"], denial["count"]) == ("mount", 1)
    (folder / "policy.toml").write_text("[security]\nexplain_denials = true\n")
    assert stockade("run", "--policy", "policy.toml", "-c", code).stderr == done.stderr


def test_run_invalid_syscalls_file_is_refused(stockade, folder: Path):
    (folder / "profile.json").write_text("nonsense")
    (folder / "policy.toml").write_text("[security]\nsyscalls_file = 'profile.json'\n")
    for command in (("run", "--policy", "policy.toml", "-c", "1"), ("plan", "--policy", "policy.toml")):
        done = stockade(*command)
        assert done.returncode == 2
        assert b"security.syscalls_file = '" + os.fsencode(folder) + b"/profile.json': Expecting value" in done.stderr


def test_run_applies_users_syscalls_file(stockade, tmp_path):
    allow = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["unshare"], "action": "SCMP_ACT_ALLOW"}]}
    (tmp_path / "f.json").write_text(json.dumps(allow))
    code = "import ctypes; print(ctypes.CDLL(None).unshare(0x400))"
    assert stockade("run", "-c", code).stdout == b"-1\n"
    assert stockade("run", "--syscalls-file", str(tmp_path / "f.json"), "-c", code).stdout == b"0\n"
    assert stockade("run", "--syscalls", "permissive", "-c", code).stdout == b"0\n"
    done = stockade("run", "--syscalls-file", str(tmp_path / "f.json"), "--syscalls-replace", "-c", code)
    assert (done.returncode, b"must allow" in done.stderr) == (2, True)
    done = stockade("run", "--syscalls-replace", "-c", code)
    assert (done.returncode, b"syscalls_file is not set" in done.stderr) == (2, True)


def test_run_collects_no_garbage(folder: Path):
    """Nearly all objects of a run stay, so that a collection finds nothing, and the end of the interpreter neither."""
    script = """if True:
        import gc, sys
        from stockade.cli.main import main
        seen = []
        gc.callbacks.append(lambda phase, _: seen.append(phase))
        sys.argv = ["stockade", "run", "-c", "1"]
        print(main(), seen, gc.get_freeze_count() > 10_000)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=folder, check=True, timeout=60)
    assert done.stdout == b"0 [] True\n", done
