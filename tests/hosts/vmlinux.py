"""Extract the kernel proper from a bzImage, since an emulated CPU boots it faster without unpacking.

The header gives the place of the packed part (Documentation/arch/x86/boot.rst: setup_sects, payload_offset,
payload_length). Run by ``build.sh``: ``vmlinux.py BZIMAGE OUT``.
"""

from __future__ import annotations

import lzma
import struct
import subprocess
import sys
import zlib
from pathlib import Path

_SECTOR = 512
_ELF = b"\x7fELF"


def extract(image: bytes) -> bytes:
    """Return the ELF kernel inside the bzImage ``image``; raise ``ValueError`` if it has no such kernel."""
    if image[0x202:0x206] != b"HdrS":
        raise ValueError("no bzImage: the header's signature is missing")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (sectors + 1) * _SECTOR + offset
    kernel = _unpack(image[begin : begin + length])
    if not kernel.startswith(_ELF):
        raise ValueError("what is packed in this bzImage is no ELF file")
    return kernel


def _unpack(payload: bytes) -> bytes:
    if payload.startswith(b"\x02\x21\x4c\x18"):
        packed = payload[:-4]  # the last four bytes are the unpacked size
        return subprocess.run(["lz4", "-d", "-c", "-q"], input=packed, stdout=subprocess.PIPE, check=True).stdout
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(payload)
    raise ValueError(f"a kernel packed in a way not known here (it begins with {payload[:4].hex()})")


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(extract(Path(sys.argv[1]).read_bytes()))
