# /// attack
# guarantee = "verdict"
# summary = "Replaces its own streams and hooks, so that whoever asks the interpreter hears what it likes, and dies of an exception."
# reference = "sys.stdout, sys.excepthook, atexit"
# success = "the interpreter's own report of the failure is gone"
# control = { success = "status 0" }
# refusal = { default = "verdict failed 1 | verdict completed" }
# ///

import atexit
import io
import os
import sys

sys.stdout = sys.stderr = io.StringIO()
sys.excepthook = lambda *_: None
sys.unraisablehook = lambda *_: None
atexit.register(os._exit, 0)
raise RuntimeError("nobody shall know")
