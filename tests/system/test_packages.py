"""Packages by name: from a folder of wheels to an import in a sandbox, on every backend, and what a wheel may not do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.wheels import wheel

import stockade
from stockade import Policy, RequirementError
from stockade.api.packages import provide, store
from stockade.api.packages.store import Store

PYTHON = "/usr/bin/python3"
SHARED = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
BACKENDS = [
    pytest.param("native", marks=pytest.mark.needs("native")),
    pytest.param("process"),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
    # An ordinary user's store lies below /var/tmp in these tests, and firejail hides that folder.
    pytest.param("firejail", marks=pytest.mark.needs("firejail", "root")),
]
CHANGES = """
import here, inner, os
print(here.VALUE, inner.VALUE)
file = here.__file__
folder = os.path.dirname(file)
for change in (
    lambda: os.chmod(file, 0o666), lambda: os.chmod(folder, 0o777), lambda: open(file, "r+"), lambda: os.unlink(file),
    lambda: open(folder + "/new.py", "w"), lambda: os.rename(file, folder + "/other.py"), lambda: os.utime(file, (0, 0)),
):
    try:
        print("changed", change())
    except OSError:
        pass
"""
PLAIN = stat.S_IFREG | 0o644


def _offline(patch: pytest.MonkeyPatch, index: Path, cache: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        patch.delenv(name)
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(index))
    patch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture(scope="module")
def index() -> Iterator[Path]:
    """Make a folder of wheels and an empty cache, outside of /tmp and, for firejail, of /var/tmp: sandboxes have their own."""
    with (
        tempfile.TemporaryDirectory(
            dir="/opt" if os.access("/opt", os.W_OK) else "/var/tmp", prefix="stockade-test-"
        ) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(folder).chmod(0o755)
        place = Path(folder, "index")
        place.mkdir()
        wheel(place, "here", needs="inner>=2")
        wheel(place, "inner", "1.0")
        wheel(place, "inner", "2.0")
        _offline(patch, place, Path(folder, "cache"))
        yield place
        Store().clear()


@pytest.fixture
def own(index: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that adds a wheel to an index of this test alone, whose cache is empty."""
    place = tmp_path / "wheels"
    place.mkdir()
    _offline(monkeypatch, place, tmp_path / "cache")
    return lambda *words, **options: wheel(place, *words, **options)


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look at the store as a new process would."""
    monkeypatch.setattr(provide, "_known", {})
    monkeypatch.setattr(store, "_held", {})


def _sets() -> list[Path]:
    return [each for each in (Store().place / "sets").iterdir() if each.is_dir()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_requirements_are_imported_read_only(index: Path, backend: str) -> None:
    """Each way to change the store is refused by a mount, by Landlock or by the filter, not by a mode alone."""
    policy = Policy(accept=SHARED if backend in ("process", "landlock", "firejail") else {})
    result = stockade.run(CHANGES, requirements=["here"], interpreter=PYTHON, backend=backend, policy=policy)
    assert result.stdout == "1.0 2.0\n", (result.stdout, result.stderr)


@pytest.mark.needs("native")
def test_runner_with_requirements_runs_warm(index: Path) -> None:
    box = stockade.Runner(requirements=["here", "inner"], preload=["here"], backend="native")
    results = [box.run("import sys, here\n'here' in sys.modules") for _ in range(2)]
    assert [result.value for result in results] == [True, True], results[0].stderr
    assert all(result.shared for result in results)
    others = stockade.Runner(requirements=["here"], backend="native").run("exit 3", language="shell")
    assert others.exit_code == 3  # other languages are as without them


@pytest.mark.needs("native")
def test_bytecode_is_used_and_names_the_real_file(index: Path) -> None:
    result = stockade.run("import here\nhere.__cached__, here.VALUE", requirements=["here"], interpreter=PYTHON)
    assert result.value is not None
    cached = Path(result.value[0])
    assert cached.is_file() and cached.read_bytes()[4:8] == b"\1\0\0\0"  # unchecked, by hash (PEP 552)
    assert str(cached.parent.parent / "here.py").encode() in cached.read_bytes()


def test_async_runner_and_batch_take_requirements(index: Path) -> None:
    async def both() -> list[str]:
        async with stockade.AsyncRunner() as box:
            result = await box.run("import inner; print(inner.VALUE)", requirements=["inner<2"])
            events = [event async for event in box.stream("import inner; print(inner.VALUE)", requirements=["inner"])]
        return [result.stdout, events[-1].result.stdout]

    assert asyncio.run(both()) == ["1.0\n", "2.0\n"]
    program = {"id": "a", "source": "import inner; print(inner.VALUE)", "expected": "1.0"}
    assert [each.verdict for each in stockade.evaluate([program], requirements=["inner==1.0"])] == ["passed"]


@pytest.mark.needs("native")
def test_command_takes_requirements(index: Path) -> None:
    words = ["python", "-c", "import inner; print(inner.VALUE)"]
    assert stockade.run_command(words, requirements=["inner<2"]).stdout == "1.0\n"
    assert stockade.Runner(requirements=["inner"]).run_command(words).stdout == "2.0\n"
    assert stockade.run_command(["python3", *words[1:]], requirements=["inner"]).stdout == "2.0\n"
    with pytest.raises(stockade.JobError, match="a command has none"):
        stockade.run_command(words, requirements="inline")


@pytest.mark.needs("native")
def test_sandbox_that_lives_takes_requirements(index: Path) -> None:
    with stockade.Sandbox.create(requirements=["here"]) as sandbox:
        command = ["python3", "-c", "import here; print(here.VALUE)"]
        assert sandbox.run_command(command).stdout == "1.0\n"
        assert sandbox.interpreter().run("import here, inner\ninner.VALUE").value_repr == "'2.0'"
        assert "open" in repr(sandbox)
    with pytest.raises(stockade.JobError, match="leave out packages"):
        stockade.Sandbox.create(requirements=["here"], packages="/usr")


def test_script_names_its_own_requirements(index: Path) -> None:
    code = (
        '# /// script\n# requires-python = ">=3.8"\n# dependencies = ["inner==1.0"]\n# ///\nimport inner\ninner.VALUE'
    )
    assert stockade.run(code, requirements="inline").value == "1.0"
    without = stockade.run(code).error
    assert without is not None and without.type == "ModuleNotFoundError"  # a script alone causes no download
    with pytest.raises(RequirementError, match="excludes Python"):
        stockade.run(code.replace(">=3.8", "<3"), requirements="inline")


@pytest.mark.parametrize(("requirement", "reason", "remedy"), [
    ("nosuch", "no index has a package of this name", "spelling"),
    ("inner==3", "only the versions 1.0, 2.0", "name one"),
    ("built", "no wheel for this Python and platform", "PIP_FIND_LINKS"),
    ("elsewhere", "no wheel for this Python and platform", "PIP_FIND_LINKS"),
    ("../here", "not a name with versions", "pandas"),
    ("--index-url=http://127.0.0.1", "not a name with versions", "pandas"),
    ("here; python_version>'3' --global-option=x", "not a name with versions", "pandas"),
    ("here @ file:///x.whl", "not a name with versions", "pandas"),
    ("inner==2.0 --hash=sha256:" + "0" * 64, "another digest", "correct the digest"),
])  # fmt: skip
def test_requirement_refused_before_anything_runs(index: Path, requirement: str, reason: str, remedy: str) -> None:
    (index / "built-1.0.tar.gz").write_bytes(b"a source distribution, never opened")
    wheel(index, "elsewhere", tag="cp27-cp27m-win32")
    with pytest.raises(RequirementError, match=reason) as caught:
        stockade.run("1", requirements=[requirement])
    error = caught.value.as_json()
    assert error["field"] == "requirements" and error["value"] in requirement and remedy in error["remedy"]
    assert not [*(Store().place / "building").iterdir()]


def test_conflict_names_both_requirements(index: Path) -> None:
    with pytest.raises(RequirementError, match=r"here.*inner<2.*conflicting"):
        stockade.run("1", requirements=["here", "inner<2"])


def test_unreachable_index_is_named(own: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    with pytest.raises(RequirementError, match="index cannot be reached"):
        stockade.run("1", requirements=["here"])


def test_missing_pip_and_uv_are_named(own: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    own("here")
    monkeypatch.setattr("stockade.api.packages.pip.importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("stockade.api.packages.pip.has_pip", lambda _interpreter: False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RequirementError, match="neither pip nor uv"):
        stockade.run("1", requirements=["here"])


def test_digest_without_a_version_is_refused(index: Path) -> None:
    with pytest.raises(RequirementError, match="digest"):  # versions of pip differ in the reason
        stockade.run("1", requirements=["inner --hash=sha256:" + "0" * 64])


def test_pinned_digest_is_accepted(index: Path) -> None:
    digest = hashlib.sha256((index / "inner-2.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert stockade.run("import inner; inner.VALUE", requirements=[f"inner==2.0 --hash=sha256:{digest}"]).value == "2.0"


def test_requirements_contradicting_options_refused() -> None:
    for options in ({"language": "ruby"}, {"packages": "/usr"}, {"interpreter": "/usr"}):
        with pytest.raises(stockade.JobError, match="requirements"):
            stockade.run("1", requirements=["here"], **options)
    with pytest.raises(stockade.JobError, match="list"):
        stockade.run("1", requirements="here")


@pytest.mark.parametrize(("files", "modes", "reason"), [
    ({"../../../escaped.py": "1"}, {}, "leads outside"),
    ({"/tmp/escaped.py": "1"}, {}, "leads outside"),
    ({"evil-1.0.data/data/../../escaped": "1"}, {}, "leads outside"),
    ({"evil.py": "/etc/passwd"}, {"evil.py": stat.S_IFLNK | 0o777}, "link or a device"),
    ({"evil.py": ""}, {"evil.py": stat.S_IFCHR | 0o666}, "link or a device"),
    ({"bomb.bin": bytes(100 << 20)}, {}, "more bytes"),
    ({"evil-1.0.data/data/pyvenv.cfg": "home = /tmp\n"}, {}, "take the place of another"),
    ({"a": "1", "a/b": "1"}, {}, "twice|as a file and a folder"),
])  # fmt: skip
def test_hostile_wheel_is_refused(
    own: Callable[..., Path], files: dict[str, str | bytes], modes: dict[str, int], reason: str
) -> None:
    own("evil", files=files, modes=modes)
    with pytest.raises(RequirementError, match=reason) as caught:
        stockade.run("1", requirements=["evil"])
    assert caught.value.value == "evil-1.0-py3-none-any.whl"
    assert not _sets() and not [*(Store().place / "building").iterdir()]
    assert not [*Store().place.parents[1].rglob("escaped*")]


def test_wheel_replacing_another_is_refused(own: Callable[..., Path]) -> None:
    own("good", files={"good.py": "VALUE = 1\n", "tests/__init__.py": ""})
    own("same", files={"same.py": "", "tests/__init__.py": ""})
    own("evil", files={"evil.py": "", "good.py": "VALUE = 2\n"})
    assert stockade.run("import good; good.VALUE", requirements=["good", "same"]).value == 1
    with pytest.raises(RequirementError, match=r"another .*good.py"):
        stockade.run("1", requirements=["good", "evil"])


def test_wheel_runs_no_code_when_python_starts(own: Callable[..., Path], tmp_path: Path) -> None:
    """Such code would run in a warm interpreter before the guest's filter, and where a caller asks an interpreter."""
    mark = f"open({str(tmp_path / 'ran')!r}, 'w'); print('ran')"
    own("starts", files={
        "starts.py": "", "starts.pth": f"import sys; {mark}\n", "sitecustomize.py": mark, "usercustomize/__init__.py": mark,
        "starts-1.0.data/data/lib/python3.11/site-packages/more.pth": f"import sys; {mark}\n",
        "starts-1.0.data/scripts/python": mark, "starts-1.0.data/data/bin/python": mark, "starts-1.0.data/data/bin/python3": mark,
        "__pycache__/starts.cpython-311.pyc": b"not what starts.py says",
    })  # fmt: skip
    result = stockade.run("import starts", requirements=["starts"])
    assert result.stdout == "", result.stderr
    assert not (tmp_path / "ran").exists()
    (made,) = _sets()
    assert not [path for path in made.rglob("*") if "customize" in path.name or path.suffix == ".pth"]
    assert {Path(name).name for name in Store().manifests()[0]["left_out"]} >= {
        "starts.pth",
        "sitecustomize.py",
        "more.pth",
    }


def test_set_id_bits_are_not_taken_over(own: Callable[..., Path]) -> None:
    own("evil", files={"evil.py": "", "tool": "x"}, modes={"tool": stat.S_IFREG | 0o6777, "evil.py": PLAIN})
    stockade.run("import evil", requirements=["evil"])
    (made,) = _sets()
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in made.rglob("*") if not path.is_symlink()}
    assert modes == {0o444, 0o555}


def _change_byte(file: Path) -> None:
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"1", b"2"))
    file.chmod(0o444)


def _add(file: Path) -> None:
    file.parent.chmod(0o755)
    (file.parent / "sitecustomize.py").write_text("1")
    file.parent.chmod(0o555)


def _link(file: Path) -> None:
    file.parent.chmod(0o755)
    file.unlink()
    file.symlink_to("/etc/passwd")
    file.parent.chmod(0o555)


def _open(file: Path) -> None:
    file.parent.chmod(0o777)


@pytest.mark.parametrize("change", [_change_byte, _add, _link, _open])
def test_changed_store_is_noticed(
    own: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    own("here")
    stockade.run("1", requirements=["here"])
    _forget(monkeypatch)
    stockade.run("1", requirements=["here"])  # an unchanged store passes
    (file,) = _sets()[0].rglob("here.py")
    os.utime(file, (0, 0))  # a restored backup has other times, and the same content
    _forget(monkeypatch)
    stockade.run("1", requirements=["here"])
    change(file)
    _forget(monkeypatch)
    with pytest.raises(RequirementError, match="the store was changed") as caught:
        stockade.run("1", requirements=["here"])
    assert caught.value.field == "store" and "clear" in caught.value.remedy


def test_store_that_others_may_write_to_is_refused(own: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    own("here")
    cache = Path(os.environ["XDG_CACHE_HOME"])
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(RequirementError, match="others may write"):
        stockade.run("1", requirements=["here"])


@pytest.mark.needs("root")
@pytest.mark.parametrize("place", ["", "sets", "sets/*"])
def test_store_of_another_user_is_refused(
    own: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    own("here")
    stockade.run("1", requirements=["here"])
    root = Store().place
    for each in root.glob(place) if place else [root]:
        if each.is_dir():
            os.chown(each, 12345, 12345)
    _forget(monkeypatch)
    with pytest.raises(RequirementError, match="uid"):
        stockade.run("1", requirements=["here"])


def test_processes_at_the_same_time_make_one_set(own: Callable[..., Path]) -> None:
    own("here")
    code = "import stockade; print(stockade.run('import here; here.VALUE', requirements=['here']).value)"
    begun = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [each.communicate(timeout=60)[0] for each in begun] == ["1.0\n"] * 3
    assert len(_sets()) == 1


def test_clear_spares_sets_in_use(own: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    own("here")
    stockade.run("1", requirements=["here"])
    assert Store().clear() == (0, 1)
    for fd in store._held.values():
        if Path(f"/proc/self/fd/{fd}").resolve().is_relative_to(Store().place):
            os.close(fd)
    _forget(monkeypatch)
    assert Store().clear() == (1, 0) and not _sets()
    assert json.dumps(Store().manifests()) == "[]"
