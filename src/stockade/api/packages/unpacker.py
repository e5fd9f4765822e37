"""Unpacks one wheel inside a sandbox, and compiles its modules. The caller runs this file as a guest.

Standard input is the wheel. Standard output is a list of files: a header, the name and the content of each, and an
empty header at the end. The reader of the list must trust none of it. The unpacker writes nothing to a disk. It runs on
Python 3.8 and newer.

Arguments: the folder in which the files will lie, and the folder of the modules in it.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import stat
import struct
import sys
import warnings
import zipfile

HEADER = struct.Struct(">HBQ")
"""The length of the name, whether the file may be executed, and the length of the content."""
_CHUNK = 1 << 20
_LONGEST_SOURCE = 8 << 20
_UNCHECKED = struct.pack("<I", 1)  # bytecode by hash, which the interpreter does not compare with the source (PEP 552)


def main() -> None:
    """Unpack the wheel, or exit with a sentence."""
    place, site = sys.argv[1:]
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True
    try:
        with zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())) as wheel:
            for info in wheel.infolist():
                target = where(info, site)
                if target:
                    write(wheel, info, place, target)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError, ValueError) as error:
        sys.exit(f"it is damaged: {error}")
    put("", False, 0)
    sys.stdout.buffer.flush()


def where(info: zipfile.ZipInfo, site: str) -> str:
    """Return where a file goes, or an empty text if it is left out."""
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    parts = name.rstrip("/").split("/")
    if "\\" in name or "\0" in name or {"", ".", ".."} & set(parts):
        sys.exit(f"{name[:80]!r} leads outside of it")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        sys.exit(f"{name[:80]!r} is a link or a device")
    if info.is_dir() or "__pycache__" in parts:
        return ""
    if not parts[0].endswith(".data"):
        return f"{site}/{name}"
    scheme, rest = parts[1] if len(parts) > 2 else "", "/".join(parts[2:])
    if scheme in ("purelib", "platlib"):
        return f"{site}/{rest}"
    return rest if scheme == "data" and parts[2] != "bin" else ""


def write(wheel: zipfile.ZipFile, info: zipfile.ZipInfo, place: str, target: str) -> None:
    """Write one file, and its bytecode if it is a module."""
    executable = bool(info.external_attr >> 16 & stat.S_IXUSR)
    is_source = target.endswith(".py") and info.file_size <= _LONGEST_SOURCE
    source = []
    put(target, executable, info.file_size)
    with wheel.open(info) as file:
        left = info.file_size
        while left:
            piece = file.read(min(left, _CHUNK))
            if not piece:
                sys.exit(f"{target[:80]!r} is cut off")
            left -= len(piece)
            sys.stdout.buffer.write(piece)
            if is_source:
                source.append(piece)
        file.read(1)  # at the end, the checksum is compared
    if is_source:
        compiled(b"".join(source), place, target)


def compiled(source: bytes, place: str, target: str) -> None:
    """Write the bytecode of a module, unless it cannot be compiled: then an import will say so."""
    try:
        code = compile(source, f"{place}/{target}", "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    folder, _, name = target.rpartition("/")
    data = head + marshal.dumps(code)
    put(f"{folder}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc", False, len(data))
    sys.stdout.buffer.write(data)


def put(target: str, executable: bool, size: int) -> None:
    """Write the header and the name of a file."""
    name = target.encode()
    sys.stdout.buffer.write(HEADER.pack(len(name), executable, size) + name)


if __name__ == "__main__":
    main()
