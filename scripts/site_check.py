"""Check a built site: every link leads to a page and a place in it, and nothing is loaded from elsewhere.

``scripts/site_check.py FOLDER`` prints what is wrong, and its exit status is 1 then. mkdocs checks the links of the
source; this program sees those of the theme and of the generated pages too.
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_LOADING = ("stylesheet", "icon", "preload", "preconnect", "modulepreload")
_IMPORT = re.compile(r"url\(\s*[\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        target = given.get(_LOADS.get(tag, ""))
        if target and (tag != "link" or any(each in given.get("rel", "").split() for each in _LOADING)):
            self.loads.append(target)


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def problems(site: Path) -> list[str]:
    """Return what is wrong with a site."""
    found = []
    for path in sorted(site.rglob("*.html")):
        name, page = path.relative_to(site), _read(path)
        for target in page.loads:
            if urlsplit(target).netloc:
                found.append(f"{name}: loads {target}")
        found += [f"{name}: {target} is dead" for target in (*page.links, *page.loads) if _is_dead(path, target)]
    found += [
        f"{path.relative_to(site)}: loads from elsewhere"
        for path in site.rglob("*.css")
        if _IMPORT.search(path.read_text())
    ]
    return found


def _is_dead(path: Path, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return False
    there = path if not parts.path else path.parent / unquote(parts.path)
    if there.is_dir():
        there /= "index.html"
    if not there.is_file():
        return True
    anchor = unquote(parts.fragment)
    return bool(anchor) and there.suffix == ".html" and anchor not in _read(there.resolve()).names


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    for each in wrong:
        print(each)
    print(f"{len([*Path(sys.argv[1]).rglob('*.html')])} pages, {len(wrong)} problems")
    sys.exit(bool(wrong))
