"""The guest's view: files, host paths, environment, identity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stockade
from stockade.testing.base import Expectations, Run, open_up


class FilesContract(Expectations):
    """The guest sees what policy and job name, and nothing else."""

    def test_job_files_are_in_the_workspace(self, run: Run) -> None:
        files = {"data/a.txt": "hello", "helper.py": b"x = 5"}
        result = run("import helper; print(open('data/a.txt').read(), helper.x)", files=files)
        assert result.stdout == "hello 5\n", result.stderr

    def test_job_files_can_be_written_by_guest(self, run: Run) -> None:
        code = "open('data/a.txt', 'a').write(' world'); open('data/b', 'w'); print(open('data/a.txt').read())"
        result = run(code, files={"data/a.txt": "hello"})
        assert result.stdout == "hello world\n", result.stderr

    @pytest.mark.parametrize("name", ["/abs", "../up", "a/../b", "", "a//b", "x\0y"])
    def test_job_file_names_leading_out_are_refused(self, name: str) -> None:
        with pytest.raises(stockade.JobError):
            self.run_source("1", files={name: b""})

    def test_only_named_host_paths_are_readable(self, run: Run, tmp_path: Path) -> None:
        open_up(tmp_path)
        (tmp_path / "open.txt").write_text("open")
        (tmp_path / "closed.txt").write_text("closed")
        policy = {"filesystem": {"read": [tmp_path / "open.txt"]}}
        if not self.shows_host_paths:
            self.check_refused("filesystem.read", **policy)
            return
        code = (
            f"print(open({str(tmp_path / 'open.txt')!r}).read())\n"
            f"try: open({str(tmp_path / 'closed.txt')!r})\nexcept OSError as e: print(type(e).__name__)"
        )
        result = run(code, policy=policy)
        assert result.stdout == f"open\n{self.unnamed_file}\n", result.stderr

    def test_readable_host_path_cannot_be_written(self, run: Run, tmp_path: Path) -> None:
        open_up(tmp_path, 0o777)
        (tmp_path / "a").write_text("x")
        (tmp_path / "a").chmod(0o666)
        policy = {"filesystem": {"workspace": tmp_path}}
        if not self.shows_host_paths:
            self.check_refused("filesystem.workspace", **policy)
            return
        code = (
            "import os, sys\nfor act in (lambda: open('a', 'a'), lambda: open('b', 'w'), lambda: os.unlink('a'),"
            " lambda: os.rename('a', 'c'), lambda: os.chmod('a', 0), lambda: os.utime('a', (0, 0))):\n"
            "    try: act(); print('done')\n    except OSError: print('refused')"
        )
        result = run(code, policy=policy)
        assert result.stdout == "refused\n" * 6, result.stderr
        assert (tmp_path / "a").read_text() == "x"

    def test_guest_starts_in_bound_workspace(self, run: Run, tmp_path: Path) -> None:
        open_up(tmp_path)
        (tmp_path / "a").write_text("x")
        policy = {"filesystem": {"workspace": tmp_path}}
        if not self.shows_host_paths:
            self.check_refused("filesystem.workspace", **policy)
            return
        result = run("import os\nprint(os.getcwd(), os.listdir())", policy=policy)
        assert result.stdout == f"{tmp_path} ['a']\n", result.stderr

    def test_write_to_writable_path_reaches_host(self, run: Run, tmp_path: Path) -> None:
        open_up(tmp_path, 0o777)
        policy = {"filesystem": {"workspace": tmp_path, "write": [tmp_path]}, "accept": {"disk": "absent"}}
        if not self.shows_host_paths:
            self.check_refused("filesystem.write", **policy)
            return
        result = run("open('out.txt', 'w').write('made')", policy=policy)
        assert result.ok, result
        assert (tmp_path / "out.txt").read_text() == "made"

    def test_fonts_configuration_is_the_hosts(self) -> None:
        conf = Path("/etc/fonts/fonts.conf")
        if self.brings_programs:
            return
        printed = self.run_command(["sh", "-c", f"cat {conf} 2> /dev/null; true"]).stdout
        assert printed == (conf.read_text() if conf.exists() else "")

    @pytest.mark.parametrize("place", ["read", "write", "workspace"])
    def test_missing_host_path_is_named(self, place: str, tmp_path: Path) -> None:
        path = str(tmp_path / "missing")
        policy = {"filesystem": {place: path if place == "workspace" else [path]}, "accept": {"disk": "absent"}}
        if not self.shows_host_paths:
            self.check_refused(f"filesystem.{place}", **policy)
            return
        with pytest.raises(stockade.JobError, match="missing"):
            self.run_source("1", policy=policy)

    def test_environment_holds_only_named_variables(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET", "s3cret")
        monkeypatch.setenv("WANTED", "w")
        code = "import os, json; print(json.dumps(dict(os.environ)))"
        policy = {"environment": {"inherit": ["WANTED", "NOT_SET"], "set": {"A": "1"}}}
        seen = json.loads(run(code, policy=policy, environment={"B": "2"}).stdout)
        assert {key: seen.get(key) for key in ("WANTED", "A", "B", "SECRET", "NOT_SET")} == {
            "WANTED": "w", "A": "1", "B": "2", "SECRET": None, "NOT_SET": None,
        }  # fmt: skip
        pools = {"MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
        assert set(seen) - self.keeps_environment == {"WANTED", "A", "B", "PATH", "HOME", "TMPDIR", "LANG", *pools}

    def test_home_and_tmpdir_are_the_guests_own(self, run: Run) -> None:
        code = (
            "import os, tempfile\nopen(os.path.expanduser('~/x'), 'w')\n"
            "with tempfile.NamedTemporaryFile() as f: print(f.name.startswith(os.environ['TMPDIR']))"
        )
        assert run(code).stdout == "True\n"

    def test_identity_is_never_root(self, run: Run) -> None:
        code = "import os; print(os.getuid(), os.getgid(), os.getpid() != 1, os.uname().nodename)"
        printed = run(code, policy={"security": {"uid": 1234}}).stdout.split()
        assert printed[2] == "True"
        if self.own_identity:
            assert printed == ["1234", "1234", "True", "stockade"]
        else:
            assert "0" not in printed[:2]

    def test_writable_root_stays_within_disk_limit(self, run: Run) -> None:
        code = (
            "n = 0\ntry:\n"
            "    with open('/big', 'wb', 0) as f:\n        while True: n += f.write(b'x' * 4096)\n"
            "except OSError: print(n)"
        )
        policy = {"security": {"read_only_root": False}, "limits": {"disk": "5MiB"}}
        if not self.root_can_be_writable:
            with pytest.raises((stockade.JobError, stockade.PlanError), match="read_only_root"):
                run(code, policy=policy)
            return
        assert abs(int(run(code, policy=policy).stdout) - (5 << 20)) <= 16 * 4096

    def test_root_is_read_only_by_default(self, run: Run) -> None:
        code = (
            "for path in ('/x', '/dev/x', '/usr/x', '/etc/x', '/run/x', '/proc/sys/kernel/hostname'):\n"
            "    try: open(path, 'w'); print(path)\n    except OSError: pass"
        )
        result = run(code)
        assert (result.ok, result.stdout) == (True, "")

    def test_next_run_sees_no_files_of_last(self, run: Run) -> None:
        run("import os; open(os.environ['TMPDIR'] + '/left', 'w'); open('left', 'w')")
        assert run("import os; print(os.listdir(os.environ['TMPDIR']), os.listdir())").stdout == "[] []\n"
