"""Ruby: CRuby, from the caller's PATH or named by the caller."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stockade.core.errors import JobError
from stockade.languages import interpreters, python
from stockade.languages.base import JOB_FOLDER, Interpreter, of_image
from stockade.planning.plan import Plan
from stockade.policy.guarantees import Guarantee
from stockade.runs.job import Command, Job, Template

_AGENT = Path(__file__).parent / "agents" / "ruby_agent.rb"
_INSTALL = "apt install ruby"
_ASK = (
    "require 'json'; require 'rbconfig'; c = RbConfig::CONFIG; lib = c.values_at('archlibdir', 'libdir').compact."
    "map { |folder| folder + '/' + c['LIBRUBY_SONAME'].to_s }.find { |path| File.file?(path) }.to_s; own = ["
    "RbConfig.ruby, c['rubylibprefix'], lib].select { |path| File.exist?(path) }; print JSON.generate(["
    "RbConfig.ruby, RUBY_ENGINE, RUBY_VERSION, own, c['ruby_version'], Regexp.respond_to?(:timeout=), "
    "Dir['/proc/self/task/*'].size, c['ENABLE_SHARED'] == 'yes' ? lib : ''])"
)
_ZYGOTE = _AGENT.with_name("ruby_zygote.py")
_OLDEST = (3, 0)
_WARM = ((3, 1),)  # versions that were tried: Ruby does not promise that an embedded interpreter can be forked


class Ruby:
    """CRuby 3.0 or newer."""

    name = "ruby"
    aliases = ("rb",)
    suffixes = (".rb",)
    counts_operations = True

    def interpreter(self, named: str | None = None) -> Interpreter:
        """Return the named Ruby, or the one on the PATH."""
        return _answers(named)[0]

    def command(self, job: Job, plan: Plan, folder: str = JOB_FOLDER) -> Command:
        """Return the command that runs the source under the agent, which reports value and error."""
        found, abi, has_timeout, library = _answers(job.interpreter)
        script = f"{folder}/{job.name or 'main.rb'}"
        agent = f"{folder}/.agent/agent.rb"
        operations = plan.policy.limits.figure(Guarantee.OPERATIONS) or 0
        seconds = _regexp_timeout(plan, found, has_timeout=has_timeout)
        gems = _gems(job.packages, abi)
        plain = not (job.preload or job.packages or job.warm is False)
        return Command(
            argv=(found.executable, agent, f"{operations:.0f}", f"{seconds:g}", script, *job.arguments),
            files={script: job.source or b""},
            agent=((agent, _agent()),),
            readable=found.places,
            packages=(job.packages,) if job.packages else (),
            environment={"GEM_PATH": gems} if gems else {},
            channel=True,
            own_tasks=found.own_tasks,
            template=_template(found, library, f"{folder}/.agent") if plain else None,
        )


@lru_cache(maxsize=64)
def _template(found: Interpreter, library: str, folder: str) -> Template | None:
    """Return how to start this interpreter as a zygote: as a library of a Python that forks itself."""
    host_python = python.of_the_system()
    if not library or not host_python or found.version[:2] not in _WARM:
        return None
    agent, zygote = f"{folder}/agent.rb", f"{folder}/zygote.py"
    argv = (found.executable, agent, "0", "0", f"{folder.rpartition('/')[0]}/main.rb")
    return Template(
        argv=(host_python, "-I", "-S", "-B", zygote, library, *argv),
        shown=((str(_ZYGOTE), zygote), (str(_AGENT), agent)),
        environment=(python.BIND_NOW,),
    )


def _regexp_timeout(plan: Plan, found: Interpreter, *, has_timeout: bool) -> float:
    wanted = plan.policy.languages
    if wanted.seconds is None or (wanted.older_ruby == "run" and not has_timeout):
        return 0
    if not has_timeout:
        raise JobError(
            f"languages.regexp_timeout: {found.executable} is Ruby {found.release} and has no Regexp.timeout, which "
            f"came with 3.2; name a newer interpreter, or run without it: languages={{'older_ruby': 'run'}}"
        )
    return wanted.seconds


def _gems(folder: str | None, abi: str) -> str | None:
    """Return the gem folder: ``folder`` itself, or Bundler's folder for this version inside it."""
    if folder is None:
        return None
    for place in (Path(folder), Path(folder, "ruby", abi)):
        if Path(place, "specifications").is_dir():
            return str(place)
    raise JobError(
        f"packages: {folder} is not a gem folder (neither it nor its ruby/{abi} contains specifications); fill one: "
        f"gem install --install-dir {folder} NAME"
    )


@lru_cache(maxsize=1)
def _agent() -> bytes:
    return _AGENT.read_bytes()


def _answers(named: str | None) -> tuple[Interpreter, str, bool, str]:
    inside = of_image(Ruby.name, named)
    return (inside, "", False, "") if inside else _found(interpreters.locate(named, ("ruby",), _INSTALL))


@lru_cache(maxsize=32)
def _found(executable: str) -> tuple[Interpreter, str, bool, str]:
    """Return the interpreter, the version of its gems, whether it has Regexp.timeout, and its shared library if any."""
    real, engine, text, own, abi, has_timeout, tasks, library = interpreters.ask(
        executable, "--disable=gems", "-e", _ASK, kind="Ruby"
    )
    found = interpreters.version(text)
    if engine != "ruby" or found < _OLDEST:
        raise JobError(f"interpreter {executable!r} is {engine} {text}; CRuby 3.0 is the oldest that can be used")
    return Interpreter(real, found, tuple(own), tasks), abi, has_timeout, library
