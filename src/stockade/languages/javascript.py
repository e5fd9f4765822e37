"""JavaScript: Node.js, from the caller's PATH or named by the caller."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stockade.core.errors import JobError
from stockade.languages import interpreters
from stockade.languages.base import JOB_FOLDER, Interpreter, of_image
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee
from stockade.runs.job import Command, Job

_AGENT = Path(__file__).parent / "agents" / "node_agent.cjs"
_INSTALL = "apt install nodejs"
_FLAGS = ("--v8-pool-size=4", "--experimental-vm-modules")
"""V8 would use as many threads as there are CPUs; this fixes the number. The second flag allows modules from text."""
# libuv starts its threads at the first use. The agent triggers that before the job begins, so this count includes them.
_ASK = (
    "process.env.UV_THREADPOOL_SIZE = '4'; fs.stat('/', () => console.log(JSON.stringify([process.execPath, "
    "process.versions.node, fs.readdirSync('/proc/self/task').length])))"
)
_OLDEST = (18,)


class JavaScript:
    """Node.js 18 or newer."""

    name = "javascript"
    aliases = ("js", "node", "nodejs")
    suffixes = (".js", ".mjs", ".cjs")
    counts_operations = False

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the named Node, or the one on the PATH."""
        return of_image(self.name, named) or _found(interpreters.locate(named, ("node", "nodejs"), _INSTALL))

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs the source under the agent, which reports value and error."""
        found = self.interpreter(job.interpreter)
        script = f"{folder}/{job.name or 'main.js'}"
        agent = f"{folder}/.agent/agent.cjs"
        modules = _modules(job.packages)
        return Command(
            argv=(found.executable, *_FLAGS, *_heap(plan), agent, script, *job.arguments),
            files={script: job.source or b""},
            agent=((agent, _agent()),),
            readable=found.places,
            packages=(modules,) if modules else (),
            environment={**_no_settings(plan), **({"NODE_PATH": modules} if modules else {})},
            channel=True,
            own_tasks=found.own_tasks,
        )


def _no_settings(plan: Plan) -> dict[str, str]:
    """Point OpenSSL to an empty file: Node does not start if it cannot read OpenSSL's settings."""
    return {"OPENSSL_CONF": "/dev/null"} if plan.policy.network == "none" else {}


def _heap(plan: Plan) -> tuple[str, ...]:
    """Make V8 collect garbage for the policy's memory, not the machine's. The kernel enforces the limit."""
    memory = plan.policy.limits.figure(Guarantee.MEMORY)
    return () if memory is None else (f"--max-old-space-size={max(1, int(memory) >> 20)}",)


def _modules(folder: str | None) -> str | None:
    """Return the ``node_modules`` folder: ``folder`` itself, or the one inside it."""
    if folder is None:
        return None
    for place in (Path(folder), Path(folder, "node_modules")):
        if place.name == "node_modules" and place.is_dir():
            return str(place)
    raise JobError(
        f"packages: {folder} is not a node_modules folder and contains none; "
        f"fill one: npm install --prefix {folder} NAME"
    )


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return _AGENT.read_bytes()


@lru_cache(maxsize=32)
def _found(executable: str) -> Interpreter:
    real, text, tasks = interpreters.ask(executable, *_FLAGS, "-e", _ASK, kind="Node")
    found = interpreters.version(text)
    if found < _OLDEST:
        raise JobError(f"interpreter {executable!r} is Node {text}; 18 is the oldest that can be used")
    return Interpreter(real, found, (real,), tasks)
