"""Run the test suites of real projects under the profile ``test``, and compare them with the same suites outside.

    make test-projects          as root: once more as an ordinary user

Downloads the source and the test tools of each project. Exits with 1 if a test ends differently in the sandbox.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROJECTS: dict[str, tuple[list[str], list[str]]] = {
    "toolz": (["toolz"], []),
    "attrs": (["tests"], ["hypothesis", "cloudpickle", "pympler"]),
    "more-itertools": (["tests"], []),
}
"""Project to the folders with its tests, and the packages that the tests need besides pytest."""
WALL_TIME = 3600
"""Seconds for one suite. more-itertools takes minutes, and longer than the profile's ten on a busy machine."""
_LINE = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)", re.MULTILINE)


def download(name: str, place: Path) -> Path:
    """Return the folder of the unpacked source of a project."""
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        name,
        "-d",
        place / "sdist",
        name,
    ]
    subprocess.run(words, check=True)
    (archive,) = (place / "sdist").glob(f"{name.replace('-', '[-_]')}-*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", place], check=True)
    return place / archive.name.removesuffix(".tar.gz")


def environment(place: Path, project: Path, packages: list[str]) -> Path:
    """Return a virtual environment that holds the project and its test tools."""
    folder = place / "environment"
    venv.create(folder, with_pip=True)
    words = [folder / "bin" / "python", "-m", "pip", "install", "-q", "pytest", *packages, project]
    subprocess.run(words, check=True)
    return folder


def outcomes(words: list[str], project: Path) -> tuple[dict[str, str], str]:
    """Return the outcome of each test, and the end of what was printed."""
    own = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
    with subprocess.Popen(words, cwd=project, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            output, _ = process.communicate(timeout=WALL_TIME + 60)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    text = output.decode("utf-8", "replace")
    return {test: word for word, test in _LINE.findall(text)}, text[-2000:]


def compare(name: str, place: Path) -> bool:
    """Run the suite of a project outside and inside; print the difference, and return whether both ended alike."""
    folders, packages = PROJECTS[name]
    project = download(name, place)
    python = environment(place, project, packages)
    subprocess.run(["chmod", "-R", "a+rX", place], check=True)
    suite = ["-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider", *folders]
    inside, shown = outcomes(
        [
            sys.executable,
            "-m",
            "stockade",
            "run",
            "--profile",
            "test",
            "--limit",
            f"wall_time={WALL_TIME}",
            "--packages",
            str(python),
            "--",
            "python",
            *suite,
        ],
        project,
    )
    outside, _ = outcomes([str(python / "bin" / "python"), *suite], project)
    count = {word: list(inside.values()).count(word) for word in sorted(set(inside.values()))}
    print(f"{project.name}: {', '.join(f'{number} {word.lower()}' for word, number in count.items())} in the sandbox")
    different = {test for test in {*inside, *outside} if inside.get(test) != outside.get(test)}
    for test in sorted(different):
        print(f"  {test}: {outside.get(test, 'missing')} outside, {inside.get(test, 'missing')} in the sandbox")
    if different or not inside:
        print(shown)
    return bool(inside) and not different


def main() -> int:
    """Compare every project, or those that the command line names."""
    names = sys.argv[1:] or [*PROJECTS]
    print(f"uid {os.geteuid()}", flush=True)
    good = True
    for name in names:
        with tempfile.TemporaryDirectory(prefix="projects-", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)
            good = compare(name, Path(folder)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
