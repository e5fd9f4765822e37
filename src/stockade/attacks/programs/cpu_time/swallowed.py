# /// attack
# guarantee = "cpu_time"
# summary = "Swallows every exception and goes on in except, finally, with and a generator's close: no limit that is raised as an exception ends it."
# reference = "BaseException in the Python reference"
# success = "three times the limit is spent"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import contextlib
import time

from kit import succeeded


def stubborn():
    while True:
        try:
            yield
        except BaseException:
            continue
        finally:
            spin(0.3)


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        with contextlib.suppress(BaseException):
            try:
                sum(range(1000))
            except BaseException:
                pass


try:
    work = stubborn()
    next(work)
    with contextlib.suppress(RuntimeError):
        work.close()
finally:
    spin(1.5)
succeeded()
