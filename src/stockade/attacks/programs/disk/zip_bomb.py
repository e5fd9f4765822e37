# /// attack
# guarantee = "disk"
# summary = "Unpacks a small archive, as one that was handed in, that becomes four times the disk."
# reference = "CWE-409"
# success = "four times the limit is written"
# policy = { limits = { disk = "8MiB" } }
# refusal = { default = "errno" }
# ///

import io
import os
import tempfile
import zipfile

from kit import attempt, could_not_run, succeeded

bomb = io.BytesIO()
with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
    for number in range(32):
        archive.writestr(f"part{number}", bytes(1 << 20))
if len(bomb.getvalue()) > 1 << 16:
    could_not_run("the archive is not small")
with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
    attempt(lambda: zipfile.ZipFile(bomb).extractall(folder), "ENOSPC")
    succeeded()
