"""Links in the pages lead to files and headings that exist. ``make docs`` checks those of the built site too."""

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts.site_check import problems
from scripts.site_hooks import BESIDE, on_page_markdown

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    each.relative_to(ROOT).as_posix()
    for each in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md"))
)
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"[^\w\- ]")
_TARGET = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def dead_links(page: Path) -> list[str]:
    """Return the targets of links of a page that lead nowhere. Addresses on the web are not looked at."""
    dead = []
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = page if not path else page.parent / path
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there.resolve())):
            dead.append(target)
    return dead


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of the headings of a page, as GitHub and the site name them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text()))
    texts = [_MARKS.sub("", _TARGET.sub(r"\1", each).replace("`", "").lower()).replace(" ", "-") for each in headings]
    return frozenset(texts)


@pytest.mark.parametrize("page", PAGES)
def test_page_has_no_dead_link(page):
    assert dead_links(ROOT / page) == []


def test_dead_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `heading`, here\n[x](page.md#a-heading-here) [y](#no) [z](none.md) `[a](b)`\n```\n[c](d)\n# no\n```\n"
    )
    assert dead_links(page) == ["#no", "none.md"]


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("index.md", "[x](docs/guides/mcp.md#over-http)", "[x](guides/mcp.md#over-http)"),
        ("guides/mcp.md", "[x](../../README.md)", "[x](../index.md)"),
        ("guides/mcp.md", "![x](report.png)", "![x](report.png)"),
        ("guides/mcp.md", "[the `unit`](../../src/stockade/api/run.py)", "the `unit`"),
        ("speed.md", "[x](https://example.com)", "[x](https://example.com)"),
        ("speed.md", "[x](#top)\n```\n[x](../src/a.py)\n```\n", "[x](#top)\n```\n[x](../src/a.py)\n```\n"),
    ],
)
def test_link_of_a_page_becomes_one_of_the_site(page, link, expected):
    assert on_page_markdown(link, SimpleNamespace(file=SimpleNamespace(src_uri=page))) == expected


def test_site_check_finds_dead_links_and_other_hosts(tmp_path):
    (tmp_path / "a.html").write_text(
        "<h1 id=here></h1><a href=b.html#there></a><a href=#here></a><a href=https://x.example></a>"
    )
    (tmp_path / "b.html").write_text(
        "<a href=c.html></a><script src=//x.example/x.js></script><link rel=stylesheet href=x.css>"
    )
    (tmp_path / "x.css").write_text("a { background: url(https://x.example/x.png) }")
    assert problems(tmp_path) == [
        "a.html: b.html#there is dead",
        "b.html: loads //x.example/x.js",
        "b.html: c.html is dead",
        "x.css: loads from elsewhere",
    ]


def test_site_has_every_page():
    named = set(re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    records = {page for page in pages if page.startswith("adr/0")}
    assert named == (pages - records) | {*BESIDE.values()}
