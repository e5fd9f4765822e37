"""Small wheels and an index folder of them, so that packages resolve without a network."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

Content = str | bytes


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, Content] | None = None,
    *,
    needs: str = "",
    tag: str = "py3-none-any",
    modes: Mapping[str, int] | None = None,
) -> Path:
    """Write a wheel. ``modes`` maps a file in it to its type and permissions; ``needs`` is a dependency."""
    path = folder / f"{name}-{version}-{tag}.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for inner, content in (files if files is not None else {f"{name}.py": f"VALUE = {version!r}\n"}).items():
            info = zipfile.ZipInfo(inner)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(inner, stat.S_IFREG | 0o644) << 16
            file.writestr(info, content)
        required = f"Requires-Dist: {needs}\n" if needs else ""
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
        file.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n")
        file.writestr(f"{about}/RECORD", "")
    return path
