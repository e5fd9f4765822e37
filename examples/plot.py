"""Draw the last column of a CSV file as bars, in a PNG of the same name. It needs no package.

stockade run --artifacts '*.png' --artifacts-to plots examples/plot.py data.csv
"""

import csv
import struct
import sys
import zlib
from pathlib import Path

HEIGHT, BAR, GAP = 200, 24, 8
BLUE, WHITE = b"\x30\x70\xc0", b"\xff\xff\xff"


def figures(path):
    """Return the numbers in the last column; a heading is left out."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        last = [row[-1] for row in csv.reader(file) if row]
    return [float(text) for text in last if text.strip().replace(".", "", 1).isdigit()]


def png(values):
    """Return the picture: RGB, 8 bits a sample, no filter on any line."""
    top = max(values, default=0) or 1
    lines = []
    for y in range(HEIGHT, 0, -1):
        bars = ((BLUE if value / top * HEIGHT >= y else WHITE) * BAR + WHITE * GAP for value in values)
        lines.append(b"\0" + WHITE * GAP + b"".join(bars))
    size = struct.pack(">IIBBBBB", GAP + len(values) * (BAR + GAP), HEIGHT, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


if __name__ == "__main__":
    source = Path(sys.argv[1])
    Path(source.name).with_suffix(".png").write_bytes(png(figures(source)))
