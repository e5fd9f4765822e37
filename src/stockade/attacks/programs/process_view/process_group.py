# /// attack
# guarantee = "process_view"
# summary = "Signals the process group and the session that it was started in."
# reference = "setsid(2), kill(2)"
# success = "a process of the group is told"
# admitted = { firejail = "outside the sandbox made" }
# refusal = { bubblewrap = "says group 1, session 1", oci = "says group 1, session 1", process = "denied EACCES", default = "errno" }
# ///

import os
import signal

from kit import could_not_run, refused, succeeded

told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
group, session = os.getpgid(0), os.getsid(0)
others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
shared = []
for pid in others:
    try:
        if os.getsid(pid) == session and pid != 1:
            shared.append(pid)
    except OSError:
        continue
if os.getppid() == 1:
    if session == 0:  # its leader is in no namespace that we can see
        succeeded("a session of the host's")
    if group != os.getpid() or session != os.getpid() or os.getsid(1) == session:
        could_not_run(f"group {group}, session {session}")
    os.killpg(group, signal.SIGUSR1)
    if told != [1]:
        could_not_run(told)
    refused("a session of its own")
os.kill(os.getppid(), 0)
succeeded(f"the parent, {os.getppid()}, can be signalled")
