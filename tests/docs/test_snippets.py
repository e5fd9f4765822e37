"""Run every snippet of the README and the docs, and compare its output with the page.

A ``python`` block is executed, and an ``output`` block right after it is its standard output. In a ``console`` block, a
shell runs each line that begins with ``$ ``, and the lines below it are its output; ``...`` stands for anything.
"""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wheels import wheel

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEST_SHOP = """
import unittest

from shop import total


class Total(unittest.TestCase):
    def test_it(self):
        self.assertEqual(total([1, 2]), 3)
"""
NEEDS = {
    "sys.stdin.seek(0)": "cgroup-memory"
}  # what a page says of some hosts only: words of the snippet, the facility
CHECKER = doctest.OutputChecker()
REPORT = """\
# /// script
# dependencies = ["tinytable>=2"]
# ///
import tinytable
print("made with tinytable", tinytable.VALUE)
"""
PROGRAMS = """\
{"id": "ann", "problem": "square", "source": "print(int(input()) ** 2)", "stdin": "3", "expected": "9"}
{"id": "bob", "problem": "square", "source": "print(int(input()) * 2)", "stdin": "3", "expected": "9"}
{"id": "eve", "problem": "square", "source": "while True: pass", "limits": {"cpu_time": 0.2}}
"""


def blocks():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        found = list(BLOCK.finditer(text))
        for number, match in enumerate(found):
            kind, body = match[1], match[2]
            if kind not in ("python", "console"):
                continue
            line = text.count("\n", 0, match.start()) + 1
            after = found[number + 1] if number + 1 < len(found) else None
            close = after is not None and after[1] == "output" and not text[match.end() : after.start()].strip()
            marks = [pytest.mark.needs(facility) for words, facility in NEEDS.items() if words in body]
            yield pytest.param(
                kind, body, after[2] if close else None, id=f"{page.relative_to(ROOT)}:{line}", marks=marks
            )


@pytest.fixture
def place(tmp_path):
    """Return a folder with the files that the snippets use."""
    tmp_path.chmod(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers.txt").write_text("3\n1\n2\n")
    (tmp_path / "big.txt").write_text("pear\napple\n")
    (tmp_path / "data.csv").write_text("month,sales\nMay,3\nJune,5\n")
    (tmp_path / "plot.py").write_text((ROOT / "examples" / "plot.py").read_text())
    (tmp_path / "slope.py").write_text((ROOT / "examples" / "slope.py").read_text())
    (tmp_path / "job.sh").write_text("echo $(( 6 * 7 ))\n")
    (tmp_path / "script.py").write_text("import sys\nprint('hello', *sys.argv[1:])\n")
    (tmp_path / "programs.jsonl").write_text(PROGRAMS)
    (tmp_path / "policy.toml").write_text('[limits]\nmemory = "64MiB"\nwall_time = "2s"\n')
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "tinytable", "2.1", needs="tinyrows")
    wheel(tmp_path / "wheels", "tinyrows", "1.0")
    (tmp_path / "report.py").write_text(REPORT)
    shop = tmp_path / "shop"
    (shop / ".git" / "hooks").mkdir(parents=True)
    (shop / ".env").write_text("PASSWORD=hunter2\n")
    (shop / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    (shop / "test_shop.py").write_text(TEST_SHOP)
    return tmp_path


def environment(place):
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    index = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place / "wheels")}
    paths = [str(ROOT / "src"), *sys.path]
    tools = str(Path(sys.executable).parent)
    cache = {"XDG_CACHE_HOME": str(place / "cache")}
    return (
        own
        | index
        | cache
        | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PATH": f"{tools}:{os.environ['PATH']}"}
    )


def same(expected, printed):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert CHECKER.check_output(expected, printed, flags), f"expected:\n{expected}\nprinted:\n{printed}"


@pytest.mark.parametrize(("kind", "body", "output"), list(blocks()))
def test_snippet(kind, body, output, place):
    if kind == "python":
        done = subprocess.run(
            [sys.executable, "-c", body], cwd=place, env=environment(place), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        if output is not None:
            same(output, done.stdout)
        return
    for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(
            ["bash", "-c", f'stockade() {{ "{sys.executable}" -m stockade "$@"; }}\n{command}'],
            cwd=place, env=environment(place), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=60,
        )  # fmt: skip
        same(expected, done.stdout)
