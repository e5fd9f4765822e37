"""A run replaces each kind of name in a project by each other kind: changes, diff and commit are exact."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stockade

pytestmark = pytest.mark.needs("native")

MAKE = {
    "nothing": "pass",
    "file": "open(name, 'w').write('a file\\n')",
    "folder": "os.makedirs(f'{name}/in/er'); open(f'{name}/in/file', 'w').write('inner\\n'); os.symlink('in', f'{name}/link')",
    "link": "os.symlink('nowhere', name)",
    "link-to-folder": "os.symlink('target', name)",
}
PAIRS = [(old, new) for old, new in itertools.product(MAKE, MAKE) if old != new]
REPLACE = """
import os, shutil
if os.path.islink(name) or os.path.isfile(name): os.unlink(name)
elif os.path.isdir(name): shutil.rmtree(name)
"""


def tree(folder: Path) -> dict[str, Any]:
    """Return the tree below ``folder``."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        kind = str(path.readlink()) if path.is_symlink() else ["folder"] if path.is_dir() else [path.read_text()]
        found[str(path.relative_to(folder))] = kind
    return found


@pytest.mark.parametrize("access", ["overlay", "copy"])
def test_commit_replacing_any_kind_is_exact(access: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    project = tmp_path_factory.mktemp("kinds")
    (project / "target" / "in").mkdir(parents=True)  # a link to a folder that has the names that the new folder has
    (project / "target" / "in" / "file").write_text("of the target\n")
    lines = [REPLACE + MAKE[new] for _, new in PAIRS]
    made = "".join(f"name = '{number}'\n{MAKE[old]}\n" for number, (old, _) in enumerate(PAIRS))
    subprocess.run([sys.executable, "-Sc", f"import os\n{made}"], cwd=project, check=True)
    was = tree(project)
    look = (
        "import json\nfound = {}\n"
        "for top, folders, names in os.walk('.'):\n"
        "    for each in folders + names:\n"
        "        path = os.path.relpath(os.path.join(top, each))\n"
        "        link, inside = os.path.islink(path), os.path.isdir(path)\n"
        "        found[path] = os.readlink(path) if link else ['folder'] if inside else [open(path).read()]\n"
        "print(json.dumps(found))"
    )
    code = "".join(f"name = '{number}'\n{line}\n" for number, line in enumerate(lines)) + look
    result = stockade.run(code, policy=stockade.Policy(filesystem={"workspace": project, "access": access}))
    assert result.ok, result.stderr
    seen = json.loads(result.stdout)
    assert tree(project) == was, "the run changed the project before the commit"
    diff = result.changes.diff()
    for number, (old, new) in enumerate(PAIRS):
        if {old, new} == {"link", "link-to-folder"}:
            assert f"link changed: {number} -> " in diff
        else:
            assert_is_shown(diff, str(number), "deleted", old)
            assert_is_shown(diff, str(number), "added", new)
    result.changes.commit()
    assert tree(project) == seen


def assert_is_shown(diff: str, name: str, what: str, kind: str) -> None:
    """Check that ``diff`` names the path with its old or new kind."""
    sections = {
        "nothing": "",
        "file": f"diff --git a/{name} b/{name}\n{'new' if what == 'added' else 'deleted'} file mode 100644\n",
        "folder": f"folder {what}: {name}\n",
        "link": f"link {what}: {name}",
        "link-to-folder": f"link {what}: {name}",
    }
    assert sections[kind] in diff, (name, what, kind)
