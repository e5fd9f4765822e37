"""Changes are shown as a diff that git can apply."""

import subprocess
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from stockade.workspace.changes import Change
from stockade.workspace.diff import diff
from tests.support.examples import examples

REGULAR = 0o100644


def changed(before, content, path="file"):
    return Change(path, "changed", "file", 0o644, content, before=before, old_mode=REGULAR)


def test_diff_has_the_format_of_git():
    text = diff([changed(b"one\ntwo\n", b"one\nthree\n"), Change("new", "added", "file", 0o755, b"x")])
    assert text == (
        "diff --git a/file b/file\n--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
        "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
        "\\ No newline at end of file\n"
    )


def test_diff_binary_content_is_only_named():
    assert "Binary files" in diff([changed(b"a\0", b"b\0")])
    assert "Binary files" in diff([changed(None, b"now")])  # too large to have been read
    assert diff([Change("l", "added", "link", target="x")]) == "link added: l -> x\n"


def test_diff_name_with_newline_is_quoted():
    text = diff([changed(b"a\n", b"b\n", path='x\n--- a/etc/"passwd"\x1b')])
    assert '\n--- "a/x\\012--- a/etc/\\"passwd\\"\\033"\n' in text


def test_diff_large_content_takes_bounded_time():
    many = b"\n".join(b"%d" % (number % 977) for number in range(100_000))
    other = b"\n".join(b"%d" % (number * 7 % 977) for number in range(100_000))
    near = b"\n".join(b"%d" % (number % 53) for number in range(1900))
    far = b"\n".join(b"%d" % (number * 31 % 53) for number in range(1900))
    begin = time.monotonic()
    diff([changed(many, other), *(changed(near, far) for _ in range(50))])
    assert time.monotonic() - begin < 20


LINES = st.lists(st.sampled_from(["a", "b", "", "\r", "\x0c", "é"]), max_size=12).map("\n".join).map(str.encode)


@settings(max_examples=examples(40), deadline=None)
@given(before=LINES, after=LINES)
def test_diff_applied_by_git_gives_new_content(tmp_path_factory, before, after):
    if before == after:
        return
    for text in (diff([changed(before, after)]),):
        folder = tmp_path_factory.mktemp("patch")
        (folder / "file").write_bytes(before)
        subprocess.run(
            ["git", "apply", "-p1", "--unsafe-paths", "-"],
            cwd=folder,
            input=text.encode(),
            check=True,
            capture_output=True,
        )
        assert (folder / "file").read_bytes() == after
