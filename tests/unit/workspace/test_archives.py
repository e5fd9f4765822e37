"""Archives become files, and hostile archives are refused."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import time
import zipfile
import zlib

import pytest

from stockade import JobError
from stockade.workspace import archives


def made_zip(entries, **options):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return raw.getvalue()


def made_tar(*infos, mode="w"):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode=mode) as archive:
        for info, content in infos:
            info.size = len(content) if info.isreg() else info.size
            archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


def info(name, kind=tarfile.REGTYPE, link=""):
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


def test_unpack_each_format_returns_files(tmp_path):
    wanted = {"a.txt": b"one", "d/b": b"two" * 1000}
    packed = made_zip(wanted.items())
    assert archives.unpack(packed) == wanted
    (tmp_path / "x.zip").write_bytes(packed)
    assert archives.unpack(tmp_path / "x.zip") == wanted
    assert archives.unpack(str(tmp_path / "x.zip")) == wanted
    entries = [(info(name), content) for name, content in wanted.items()]
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        assert archives.unpack(made_tar((info("d", tarfile.DIRTYPE), b""), *entries, mode=mode)) == wanted


NAMES = [
    "/etc/x", "../x", "a/../../x", "a/..", "C:/x", "c:x", "a\\b", "..\\x", "a\x1b[m", "a\nb", "./../x", "x" * 300,
    "/".join("d" * 40),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_unpack_name_leading_out_is_refused(name):
    with pytest.raises(JobError, match="archive"):
        archives.unpack(made_tar((info(name), b"x")))
    with pytest.raises(JobError, match="archive"):
        archives.unpack(made_zip([(name, b"x")]))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_unpack_special_file_is_refused(kind):
    with pytest.raises(JobError):
        archives.unpack(made_tar((info("x", kind, "/etc/passwd"), b"")))


def test_unpack_zip_link_is_refused():
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        link = zipfile.ZipInfo("x")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(JobError, match="link"):
        archives.unpack(raw.getvalue())


def test_unpack_name_with_nul_is_refused():
    packed = made_zip([("aXb", b"")]).replace(b"aXb", b"a\0b")
    with pytest.raises(JobError, match="NUL"):
        archives.unpack(packed)


def test_unpack_duplicate_name_is_refused():
    with pytest.raises(JobError, match="twice"):
        archives.unpack(made_tar((info("x"), b"1"), (info("./x"), b"2")))
    with pytest.raises(JobError, match="twice"):
        archives.unpack(made_tar((info("x"), b"1"), (info("x/y"), b"2")))
    with pytest.raises(JobError, match="twice"):
        archives.unpack(made_tar((info("x/y"), b"1"), (info("x"), b"2")))


def test_unpack_encrypted_zip_is_refused():
    packed = bytearray(made_zip([("x", b"content")]))
    packed[6] |= 1
    at = packed.index(b"PK\x01\x02")
    packed[at + 8] |= 1
    with pytest.raises(JobError, match="encrypted"):
        archives.unpack(bytes(packed))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_unpack_compressed_bomb_refused_in_time(pack):
    bomb = pack(b"\0" * (20 << 20))
    begin = time.monotonic()
    with pytest.raises(JobError, match="unpacks to more"):
        archives.unpack(bomb)
    assert time.monotonic() - begin < 10


def test_unpack_zip_bomb_is_refused():
    with pytest.raises(JobError, match="unpacks to more"):
        archives.unpack(made_zip([("x", b"\0" * (20 << 20))]))


def test_unpack_zip_with_false_size_stays_bounded():
    content = b"\0" * (2 << 20)
    packed = bytearray(made_zip([("x", content)]))
    at = packed.index(b"PK\x01\x02")
    struct.pack_into("<I", packed, at + 24, 10)  # the central directory says ten bytes
    struct.pack_into("<I", packed, at + 16, zlib.crc32(content[:10]))
    files = archives.unpack(bytes(packed))
    assert len(files["x"]) <= 10


def test_unpack_overlapping_entries_are_refused():
    """Many names share one compressed stream."""
    packed = made_zip([("x", b"\0" * (4 << 20))])
    at = packed.index(b"PK\x01\x02")
    entry, end = packed[at : packed.index(b"PK\x05\x06")], packed[packed.index(b"PK\x05\x06") :]
    count = 400
    directory = b"".join(entry for _ in range(count))
    tail = bytearray(end)
    struct.pack_into("<HHI", tail, 8, count, count, len(directory))
    with pytest.raises(JobError):
        archives.unpack(packed[:at] + directory + bytes(tail))


def test_unpack_too_many_entries_refused_early():
    begin = time.monotonic()
    with pytest.raises(JobError, match="entries"):
        archives.unpack(b"PK\x03\x04" + b"PK\x01\x02" * 1_000_000)
    assert time.monotonic() - begin < 2
    with pytest.raises(JobError, match="entries"):
        archives.unpack(made_tar(*[(info(f"{number}"), b"") for number in range(10_001)]))


def test_unpack_endless_tar_header_is_refused():
    long = info("x")
    long.pax_headers = {"comment": "1 " * 200_000}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(long)
    with pytest.raises(JobError, match="header"):
        archives.unpack(raw.getvalue())


def test_unpack_nested_archive_stays_a_file():
    inner = made_zip([("../../x", b"")])
    assert archives.unpack(made_zip([("inner.zip", inner)])) == {"inner.zip": inner}


@pytest.mark.parametrize("raw", [b"", b"PK", b"PK\x03\x04", b"nonsense" * 100, b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00"])
def test_unpack_not_an_archive_is_refused(raw):
    with pytest.raises(JobError, match="archive"):
        archives.unpack(raw)


def test_unpack_fifo_is_refused(tmp_path):
    import os

    os.mkfifo(tmp_path / "x")
    fd = os.open(tmp_path / "x", os.O_RDWR)
    with pytest.raises(JobError, match="regular"):
        archives.unpack(tmp_path / "x")
    os.close(fd)
    with pytest.raises(JobError, match="No such file"):
        archives.unpack(tmp_path / "missing")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_packed_by_a_method_without_bounds_is_refused(method):
    """``zipfile`` unpacks 64 KiB of these at once, which may be gigabytes."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as archive:
        archive.writestr("a", bytes(900_000))
    with pytest.raises(JobError, match="another method than deflate"):
        archives.unpack(raw.getvalue())


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (archives.Bounds(entries=2), "more than 2 entries"),
        (archives.Bounds(bytes=20 << 10), "unpacks to more"),
        (archives.Bounds(seconds=-1), "took more than"),
    ],
)
def test_caller_may_lower_the_bounds(bounds, words):
    packed = made_zip([(name, "x" * 9000) for name in "abc"])
    assert len(archives.unpack(packed)) == 3
    with pytest.raises(JobError, match=words):
        archives.unpack(packed, bounds)
