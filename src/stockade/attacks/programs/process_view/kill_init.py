# /// attack
# guarantee = "process_view"
# summary = "Sends every signal there is to the process above it, which in a sandbox is the trusted init."
# reference = "pid_namespaces(7): from inside, no signal without a handler reaches an init"
# success = "it is dead or stopped"
# stage = ["victim"]
# observe = ["killed"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { gvisor = "verdict sandbox_failed", process = "says the init is not the parent", default = "errno" }
# ///

import os
import time

from kit import could_not_run, refused, succeeded, target

pid = int(target("VICTIM"))
for number in range(1, 65):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        break
    except PermissionError:
        continue
time.sleep(0.2)
if pid != 1:
    succeeded()
if os.getppid() != 1:
    could_not_run("the init is not the parent")
# It still does its work: an orphan that ends is reaped.
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode().rjust(8))
    os._exit(0)
os.wait()
orphan = int(os.read(read, 8))
for _ in range(100):
    if not os.path.exists(f"/proc/{orphan}"):
        refused("64 signals later it still reaps")
    time.sleep(0.01)
could_not_run("the init does not reap")
