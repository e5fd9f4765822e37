# /// attack
# guarantee = "file_size"
# summary = "Writes one file past the limit with the signal for that in its default state."
# reference = "signal(7), SIGXFSZ"
# success = "the file is four times the limit"
# policy = { limits = { file_size = "1MiB" } }
# refusal = { default = "limit file_size" }
# ///

import os
import signal
import tempfile

from kit import succeeded

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with tempfile.TemporaryFile() as file:
    while os.fstat(file.fileno()).st_size < 4 << 20:
        os.write(file.fileno(), b"x" * 65536)
succeeded()
