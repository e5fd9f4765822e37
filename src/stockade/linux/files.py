"""Read and write small files of the kernel's own file systems, each as a whole."""

from __future__ import annotations

import os


def read(path: str) -> str:
    """Return the content of the file; an empty text if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    """Write ``text`` in one call; an empty text only opens the file. An ``OSError`` names the text and the path."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if text:
            os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, f"write {text!r} to {path}: {os.strerror(error.errno or 0)}") from None
    finally:
        os.close(fd)


def remove_folder(path: str) -> bool:
    """Remove an empty folder; return whether it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def unescape(field: str) -> str:
    """Undo the octal escapes of mountinfo (proc(5)): space, tab, newline and backslash."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        field = field.replace("\\" + code, character)
    return field
