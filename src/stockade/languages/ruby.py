"""Ruby: CRuby, the one on the caller's PATH or a named one."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stockade._errors import JobError
from stockade._guarantees import Guarantee
from stockade._job import Command, Job
from stockade._plan import Plan
from stockade.languages import interpreters
from stockade.languages.base import JOB_FOLDER, Interpreter

_AGENT = Path(__file__).parent / "agents" / "ruby_agent.rb"
_INSTALL = "apt install ruby"
_ASK = (
    "require 'json'; require 'rbconfig'; c = RbConfig::CONFIG; own = [RbConfig.ruby, c['rubylibprefix'], "
    "c['libdir'] + '/' + c['LIBRUBY_SONAME'].to_s].select { |path| File.exist?(path) }; print JSON.generate(["
    "RbConfig.ruby, RUBY_ENGINE, RUBY_VERSION, own, c['ruby_version'], Regexp.respond_to?(:timeout=), "
    "Dir['/proc/self/task/*'].size])"
)
_OLDEST = (3, 0)


class Ruby:
    """CRuby 3.0 or newer."""

    name = "ruby"
    aliases = ("rb",)
    suffixes = (".rb",)
    counts_operations = True

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the Ruby on the PATH, or the named one."""
        return _found(interpreters.locate(named, ("ruby",), _INSTALL))[0]

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs the source under the agent, which reports value and error."""
        found, abi, has_timeout = _found(interpreters.locate(job.interpreter, ("ruby",), _INSTALL))
        script = f"{folder}/{job.name or 'main.rb'}"
        agent = f"{folder}/.agent/agent.rb"
        operations = plan.policy.limits.figure(Guarantee.OPERATIONS) or 0
        seconds = _regexp_timeout(plan, found, has_timeout=has_timeout)
        gems = _gems(job.packages, abi)
        return Command(
            argv=(found.executable, agent, f"{operations:.0f}", f"{seconds:g}", script, *job.arguments),
            files={script: job.source or b""},
            agent=((agent, _agent()),),
            readable=found.places,
            packages=(job.packages,) if job.packages else (),
            environment={"GEM_PATH": gems} if gems else {},
            channel=True,
            own_tasks=found.own_tasks,
        )


def _regexp_timeout(plan: Plan, found: Interpreter, *, has_timeout: bool) -> float:
    seconds = plan.policy.languages.seconds
    if seconds is not None and not has_timeout:
        raise JobError(
            f"languages.regexp_timeout: {found.executable} is Ruby {found.release} and has no Regexp.timeout, which "
            f"came with 3.2; name a newer interpreter, or lift it: languages={{'regexp_timeout': 'unlimited'}}"
        )
    return seconds or 0


def _gems(folder: str | None, abi: str) -> str | None:
    """Return the gem folder: ``folder`` itself, or the one that Bundler keeps in it for this version."""
    if folder is None:
        return None
    for place in (Path(folder), Path(folder, "ruby", abi)):
        if Path(place, "specifications").is_dir():
            return str(place)
    raise JobError(
        f"packages: {folder} is no gem folder (neither it nor ruby/{abi} in it has specifications); fill one: "
        f"gem install --install-dir {folder} NAME"
    )


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return _AGENT.read_bytes()


@lru_cache(maxsize=32)
def _found(executable: str) -> tuple[Interpreter, str, bool]:
    """Return what an executable is, the version that its gems are for, and whether it has Regexp.timeout."""
    real, engine, text, own, abi, has_timeout, tasks = interpreters.ask(
        executable, "--disable=gems", "-e", _ASK, kind="Ruby"
    )
    found = interpreters.version(text)
    if engine != "ruby" or found < _OLDEST:
        raise JobError(f"interpreter {executable!r} is {engine} {text}; CRuby 3.0 is the oldest that can be used")
    return Interpreter(real, found, tuple(own), tasks), abi, has_timeout
