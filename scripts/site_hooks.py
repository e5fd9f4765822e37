"""Hooks of mkdocs: the pages beside docs/ become pages of the site, and links to source become plain words.

The site has no repository behind it, so that it works offline. A link to a file that is not in the site would be dead.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the repository's root, and their names in the site."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """Add the pages of the root."""
    from mkdocs.structure.files import File

    for source, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown, page, **_others):
    """Return a page whose links lead to the site's own names."""
    known = {name: source for source, name in BESIDE.items()}
    uri = page.file.src_uri
    place = known.get(uri, f"docs/{uri}")

    def link(found):
        picture, text, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        path, mark, anchor = target.partition("#")
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
        name = BESIDE.get(whole, whole.removeprefix("docs/") if whole.startswith("docs/") else None)
        if name is None:
            return text
        return f"{picture}[{text}]({posixpath.relpath(name, posixpath.dirname(uri) or '.')}{mark}{anchor})"

    parts, at = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(link, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join((*parts, _LINK.sub(link, markdown[at:])))


def on_post_build(config):
    """Remove the theme's page for addresses that are not there: its links begin at the root of a server."""
    (Path(config["site_dir"]) / "404.html").unlink(missing_ok=True)
