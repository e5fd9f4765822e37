"""Runs scripts for the tests in a process of its own, so that a hang fails one test and hangs none."""

import json
import resource
import subprocess
import sys
import threading

from stockade.embedded import Caps, CrossingError, ResourceExhausted, Runtime, ScriptError

CAPS = {
    "fuel": 300_000,
    "heap_objects": 100_000,
    "frames": 100,
    "deadline": 30.0,
    "symbols": 10_000,
    "value_bytes": 1_000_000,
}


def outcome(source, caps):
    rt = Runtime(Caps(**{name: cap for name, cap in caps.items() if cap is not None}), in_process=True)
    rt.register("fetch", lambda key: {"a": 1}[key])
    answer = {"how": "answered", "value": None, "detail": ""}
    try:
        answer["value"] = repr(rt.run(source))[:2000]
    except ResourceExhausted as error:
        answer |= {"how": error.cap, "detail": str(error), "line": error.line, "dead": rt.is_dead}
    except ScriptError as error:
        answer |= {"how": "refused", "detail": str(error), "class_name": error.class_name, "line": error.line}
    except CrossingError as error:
        answer |= {"how": "crossing", "detail": str(error)}
    return answer | {"fuel": rt.usage.fuel, "stdout": rt.stdout[:2000], "symbols": rt.symbol_count}


MOST_MEMORY = 3 << 30


def serve():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))  # a cap that fails must not harm the machine
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = outcome(request["source"], request["caps"])
        except BaseException as error:
            answer = {"how": "broken", "detail": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


class Child:
    """A process that runs one script after another, and is replaced after a hang or a crash."""

    def __init__(self, python=sys.executable):
        self._python, self._process = python, None

    def run(self, source, timeout=60.0, **caps):
        if self._process is None or self._process.poll() is not None:
            command = [self._python, "-m", "tests.unit.embedded.child"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process = self._process
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"source": source, "caps": CAPS | caps}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            self._process = None
            return {"how": "hung or crashed", "detail": f"exit status {process.wait()}", "fuel": 0}
        return json.loads(answer)

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(10)


if __name__ == "__main__":
    serve()
