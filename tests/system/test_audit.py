"""The audit log holds every run, survives its writers, and stops what it cannot record."""

import contextlib
import os
import resource
import signal
import subprocess
import sys

import pytest
from tests.support import host

import stockade
from stockade import Audit, AuditError, JobError
from stockade.observe import chain

WRITER = """
import sys, stockade
stockade.configure(audit=sys.argv[1], labels={"writer": sys.argv[2]})
runner = stockade.Runner()
for number in range(int(sys.argv[3])):
    runner.run(f"print({number})")
    print(number, flush=True)
"""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "audit.jsonl"


def parts(log):
    found = sorted(log.parent.glob(f"{log.name}.*"), key=lambda part: int(part.suffix[1:]))
    return [*found, log]


def verified(log, noted=None):
    with contextlib.ExitStack() as stack:
        return chain.verify([(str(part), stack.enter_context(part.open("rb"))) for part in parts(log)], noted)


def records(log, event):
    lines = b"".join(part.read_bytes() for part in parts(log)).splitlines()
    return [fields for fields in map(chain.parse, lines) if fields is not None and fields["event"] == event]


def writer(log, name, count):
    return subprocess.Popen([sys.executable, "-c", WRITER, log, name, str(count)], stdout=subprocess.PIPE)


class TestContent:
    def test_records_name_user_program_and_outcome(self, log):
        runner = stockade.Runner({"limits": {"wall_time": "1s"}}, hooks=Audit(log).hooks)
        runner.run_command(["sleep", "9"], labels={"user": "ada"})
        (start,), (finish,) = records(log, "start"), records(log, "finish")
        assert (start["program"], start["labels"], start["uid"]) == ("sleep", {"user": "ada"}, os.getuid())
        assert (finish["run"], finish["outcome"], finish["limit"]) == (start["run"], "limit_exceeded", "wall_time")
        policies = {each["sha256"]: each["content"] for each in records(log, "policy")}
        assert policies[start["policy"]]["limits"]["wall_time"] == 1.0
        receipts = {each["sha256"]: each["content"] for each in records(log, "receipt")}
        assert receipts[finish["receipt"]]["wall_time"][1] == "supervisor"

    def test_text_is_written_only_if_asked_for(self, log):
        for text in (False, True):
            stockade.Runner(hooks=Audit(log, text=text).hooks).run(
                "print('marker')", environment={"TOKEN": "of-a-user"}
            )
        without, whole = records(log, "start")
        assert without["source_sha256"] == whole["source_sha256"] == chain.digest(b"print('marker')")
        assert whole["source"] == "print('marker')"
        assert log.read_bytes().count(b"marker") == 1
        assert b"of-a-user" not in log.read_bytes()

    def test_only_the_owner_can_read_it(self, log):
        Audit(log)
        assert log.stat().st_mode & 0o777 == 0o600


class TestWriters:
    def test_processes_share_one_chain(self, log):
        running = [writer(log, f"{number}", 5) for number in range(3)]
        for each in running:
            each.communicate(timeout=60)
        assert [each.returncode for each in running] == [0, 0, 0]
        found = verified(log)
        assert len(records(log, "finish")) == 15
        assert not found.unfinished

    def test_full_file_is_renamed_and_the_chain_goes_on(self, log):
        runners = [stockade.Runner(hooks=Audit(log, rotate="64KiB").hooks) for _ in range(2)]
        for number in range(200):
            runners[number % 2].run(f"print({number})")
        assert len(parts(log)) > 2
        assert len(records(log, "finish")) == 200
        verified(log)

    def test_killed_writer_leaves_a_chain_that_goes_on(self, log):
        running = writer(log, "killed", 10**6)
        for _ in range(5):
            running.stdout.readline()
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=10)
        with log.open("ab") as file:  # as if the kill had come in the middle of a write
            file.write(b'{"n":99,"at":"20')
        writer(log, "next", 1).communicate(timeout=60)
        found = verified(log)
        assert found.torn == 1
        assert len(found.unfinished) <= 1
        assert records(log, "torn")[0]["bytes"] == 16

    def test_forked_child_writes_to_the_same_chain(self, log):
        runner = stockade.Runner(hooks=Audit(log).hooks)
        runner.run("print(1)")
        child = os.fork()
        if child == 0:
            os._exit(0 if runner.run("print(2)").ok else 1)
        runner.run("print(3)")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        runner.run("print(4)")
        assert len(records(log, "finish")) == 4
        verified(log)


class TestRefusals:
    def test_full_disk_refuses_runs(self, log):
        runner = stockade.Runner(hooks=Audit(log).hooks)
        runner.run("print(1)")
        size = log.stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))  # less than one record
        try:
            with pytest.raises(AuditError, match="File too large"):
                runner.run("print(2)")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert runner.run("print(3)").ok
        assert verified(log).torn == 1
        assert len(records(log, "start")) == 2

    def test_guest_cannot_write_to_its_log(self, tmp_path, log):
        audit = Audit(log)
        policy = {"filesystem": {"write": [str(tmp_path)]}, "accept": {"disk": "absent"}}
        if os.geteuid() == 0:
            os.chown(tmp_path, 65534, 65534)
            policy["security"] = {"host_uid": 65534}
        command = ["sh", "-c", f"echo forged > {tmp_path}/other"]
        assert stockade.Runner(policy).run_command(command).ok
        with pytest.raises(JobError, match="guest may write"):
            stockade.Runner(policy, hooks=audit.hooks).run_command(command)

    def test_link_in_the_place_of_a_renamed_log_is_refused(self, tmp_path, log):
        audit = Audit(log)
        log.rename(tmp_path / "moved")
        log.symlink_to(tmp_path / "victim")
        with pytest.raises(JobError, match="link"):
            stockade.Runner(hooks=audit.hooks).run("print(1)")
        assert not (tmp_path / "victim").exists()

    @pytest.mark.parametrize("rotate", ["12KiB", "lots", -1])
    def test_bad_size_is_refused(self, log, rotate):
        with pytest.raises(JobError, match="rotate"):
            Audit(log, rotate=rotate)

    def test_file_that_is_no_log_is_left_alone(self, log):
        log.write_text("a diary\n")
        before = host.descriptors()
        with pytest.raises(AuditError, match="not an audit log"):
            Audit(log)
        assert host.descriptors() == before, "the file and its folder stay open"
        assert log.read_text() == "a diary\n"
