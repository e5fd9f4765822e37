# /// attack
# guarantee = "file_size"
# summary = "Writes one file past the limit."
# reference = "setrlimit(2), RLIMIT_FSIZE; Python ignores SIGXFSZ"
# success = "the file is four times the limit"
# policy = { limits = { file_size = "1MiB" } }
# refusal = { default = "errno" }
# ///

import os
import tempfile

from kit import could_not_run, refused, refused_with, succeeded

with tempfile.TemporaryFile() as file:
    fd = file.fileno()
    while os.fstat(fd).st_size < 4 << 20:
        if refused_with(lambda: os.write(fd, b"x" * 65536), "EFBIG"):
            if os.fstat(fd).st_size != 1 << 20:
                could_not_run(f"refused at {os.fstat(fd).st_size}")
            refused(f"EFBIG at {os.fstat(fd).st_size}")
succeeded()
