"""Languages, beyond the contract suite: packages, missing interpreters, own tasks, odd sources."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

import stockade
from stockade import Guarantee, Policy
from stockade.languages import registry
from stockade.runs.result import Met

SHARED = {"process_view": "absent", "disk": "absent", "no_survivors": "supervisor"}
BACKENDS = [
    pytest.param("native", marks=pytest.mark.needs("native")),
    pytest.param("process"),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
]


def policy(backend, **fields):
    return Policy(accept=SHARED if backend in ("process", "landlock") else {}, **fields)


def tool(*words, cwd=None):
    subprocess.run(words, cwd=cwd, check=True, capture_output=True, timeout=100)


@pytest.fixture(scope="session")
def packages():
    """Make and install one package for each language with its own tools, without a network."""
    place = Path(tempfile.mkdtemp(prefix="stockade-packages-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def gems(packages):
    source = packages / "gem"
    (source / "lib").mkdir(parents=True)
    (source / "lib" / "only_here.rb").write_text("require 'set'\nmodule OnlyHere; VALUE = Set[7].to_a; end\n")
    (source / "only_here.gemspec").write_text(
        "Gem::Specification.new { |s| s.name = 'only_here'; s.version = '1.2.3'; s.summary = s.author = 'x'; "
        "s.files = ['lib/only_here.rb'] }\n"
    )
    tool("gem", "build", "only_here.gemspec", cwd=source)
    target = packages / "gems"
    tool("gem", "install", "--local", "--no-document", "--install-dir", target, source / "only_here-1.2.3.gem")
    return target


@pytest.fixture(scope="session")
def modules(packages):
    for name, files in {
        "only-here": {
            "package.json": json.dumps({"name": "only-here", "version": "1.2.3", "main": "main.js"}),
            "main.js": "module.exports = 7\n",
        },
        "only-modern": {
            "package.json": json.dumps(
                {
                    "name": "only-modern",
                    "version": "2.0.0",
                    "type": "module",
                    "exports": {"import": "./main.js"},
                    "dependencies": {"only-here": "^1.0.0"},
                }
            ),
            "main.js": "import seven from 'only-here'\nexport default seven + 1\nexport const name = 'modern'\n",
        },
    }.items():
        folder = packages / "npm" / name
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file).write_text(content)
    target = packages / "project"
    target.mkdir()
    (target / "package.json").write_text("{}")
    sources = [str(packages / "npm" / name) for name in ("only-here", "only-modern")]
    tool("npm", "install", "--offline", "--install-links", "--no-audit", "--no-fund", *sources, cwd=target)
    return target / "node_modules"


@pytest.fixture(scope="session")
def environment(packages):
    wheel = packages / "only_here-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("only_here.py", "VALUE = 7\n")
        about = "only_here-1.2.3.dist-info"
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: only_here\nVersion: 1.2.3\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    target = packages / "venv"
    tool("/usr/bin/python3", "-m", "venv", target)
    tool(target / "bin" / "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    return target


@pytest.mark.parametrize("backend", BACKENDS)
class TestPackages:
    def test_python_imports_from_virtual_environment(self, backend, environment):
        source = "import only_here, sys\n[only_here.VALUE, sys.prefix]"
        result = stockade.run(source, packages=environment, backend=backend, policy=policy(backend))
        assert result.value == [7, str(environment)], result.stderr

    @pytest.mark.needs("gem")
    def test_ruby_requires_from_gem_folder(self, backend, gems):
        source = "gem 'only_here', '~> 1.2'\nrequire 'only_here'\nOnlyHere::VALUE"
        result = stockade.run(source, language="ruby", packages=gems, backend=backend, policy=policy(backend))
        assert result.value == [7], result.stderr
        without = stockade.run(source, language="ruby", backend=backend, policy=policy(backend))
        assert without.error.type == "Gem::MissingSpecError"

    @pytest.mark.needs("npm")
    def test_javascript_requires_from_node_modules(self, backend, modules):
        for source, value in (
            ("require('only-here')", 7),
            ("import('only-modern').then(found => found.default)", 8),
            ("import modern, { name } from 'only-modern'\nexport default [modern, name]", [8, "modern"]),
        ):
            for place in (modules, modules.parent):
                result = stockade.run(source, language="js", packages=place, backend=backend, policy=policy(backend))
                assert result.value == value, result.stderr
            without = stockade.run(source, language="js", backend=backend, policy=policy(backend))
            assert "only-" in without.error.message

    def test_packages_read_only_and_nothing_else_shown(self, backend, environment, packages):
        packages.joinpath("beside.txt").write_text("secret")
        environment.chmod(0o777)  # nothing of the host's own permissions is in the way
        source = (
            "import sys\n"
            "for path, mode in ((sys.prefix + '/new', 'w'), (sys.prefix + '/../beside.txt', 'r')):\n"
            "    try: open(path, mode); print('opened')\n    except OSError: print('refused')"
        )
        result = stockade.run(source, packages=environment, backend=backend, policy=policy(backend))
        environment.chmod(0o755)
        assert result.stdout == "refused\nrefused\n", result.stderr


@pytest.mark.parametrize(("language", "kind"), [
    ("python", "virtual environment"), ("ruby", "gem folder"), ("javascript", "node_modules"), ("shell", "the shell"),
])  # fmt: skip
def test_wrong_package_folder_refused_with_remedy(language, kind, tmp_path):
    with pytest.raises(stockade.JobError, match=kind):
        stockade.run("1", language=language, packages=tmp_path)


@pytest.mark.parametrize("path", ["/", "/proc/self", "../elsewhere", "", "x\0y"])
def test_package_paths_checked_like_policy_paths(path):
    with pytest.raises(stockade.JobError, match="packages"):
        stockade.run("1", packages=path)


def test_packages_behind_a_link_are_refused(environment, packages):
    link = packages / "link"
    link.symlink_to(environment)
    with pytest.raises(stockade.JobError, match="symbolic link"):
        stockade.run("1", packages=link)
    link.unlink()


def test_interpreter_with_virtual_environment_refused(environment):
    with pytest.raises(stockade.JobError, match="interpreter of its own"):
        stockade.run("1", packages=environment, interpreter="/usr/bin/python3")


@pytest.mark.parametrize(("language", "command"), [("ruby", "apt install ruby"), ("javascript", "apt install nodejs")])
def test_missing_interpreter_names_what_to_install(language, command, monkeypatch):
    monkeypatch.setenv("PATH", "/no/such/folder")
    with pytest.raises(stockade.JobError, match=command):
        registry.find(language).interpreter()


@pytest.mark.needs("node")
def test_node_tasks_same_on_any_cpu_count():
    ask = "from stockade.languages import registry; print(registry.find('javascript').interpreter().own_tasks)"
    found = registry.find("javascript").interpreter().own_tasks
    assert found > 1
    cpu = str(min(os.sched_getaffinity(0)))
    done = subprocess.run(
        ["taskset", "-c", cpu, os.sys.executable, "-c", ask],
        env={**os.environ, "UV_THREADPOOL_SIZE": "9", "NODE_OPTIONS": "--v8-pool-size=9"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) == found


@pytest.mark.needs("node", "cgroup-pids", "native")
def test_strict_node_refusal_is_counted():
    strict = Policy(limits={"processes": 1})
    calm = stockade.run("1 + 1", language="js", policy=strict)
    assert calm.value == 2
    assert calm.limits_met[Guarantee.PROCESSES].evidence == "cgroup pids.events max 0"
    for source in (
        "require('child_process').spawnSync('true').error.code",
        "try { new (require('worker_threads').Worker)('0', { eval: true }) } catch { 'EAGAIN' }",
    ):
        result = stockade.run(source, language="js", policy=strict)
        assert (result.value, result.limits_met[Guarantee.PROCESSES].state) == ("EAGAIN", Met.MET)


@pytest.mark.needs("node", "cgroup-pids", "native")
def test_job_environment_adds_no_node_tasks():
    source = (
        "process.env.UV_THREADPOOL_SIZE = '64'\nfor (let n = 0; n < 64; n++) require('fs').stat('/', () => {})\n"
        "require('fs').readdirSync('/proc/self/task').length"
    )
    wanted = {"environment": {"set": {"UV_THREADPOOL_SIZE": "64", "NODE_OPTIONS": "--v8-pool-size=32"}}}
    result = stockade.run(source, language="js", policy=Policy(limits={"processes": 1}, **wanted))
    assert result.value == registry.find("javascript").interpreter().own_tasks
    assert result.limits_met[Guarantee.PROCESSES].state is Met.NOT_MET


@pytest.mark.needs("node", "native")
def test_limits_of_one_language_do_not_stay():
    box = stockade.Runner(Policy(limits={"processes": 1}))
    for _ in range(2):
        assert box.run("require('fs').readdirSync('/proc/self/task').length", language="js").value > 1
        refused = "import threading\ntry: threading.Thread(target=print).start()\nexcept RuntimeError: print('refused')"
        assert box.run(refused).stdout == "refused\n"


@pytest.mark.needs("ruby", "native")
def test_ruby_behaves_like_plain_interpreter():
    source = (
        "require_relative 'lib/helper'\nat_exit { puts 'exit' }\nputs __FILE__ == $0, __dir__ == Dir.pwd, X, DATA.read\n"
        "puts defined?(StockadeAgent).inspect, local_variables.inspect\n__END__\nda☃ta\n"
    )
    result = stockade.run(source, language="ruby", files={"lib/helper.rb": "X = 5"})
    assert result.stdout.split() == ["true", "true", "5", "da☃ta", "nil", "[]", "exit"], result.stderr


@pytest.mark.needs("ruby", "native")
@pytest.mark.parametrize("warm", [False, True])
def test_ruby_out_of_memory_is_still_reported(warm):
    source = "class NoMemoryError\n  def full_message(**) = raise(NoMemoryError)\nend\nraise NoMemoryError\n"
    result = stockade.run(source, language="ruby", warm=warm)
    assert (result.error and result.error.type, result.exit_code) == ("NoMemoryError", 1), result.stderr


@pytest.mark.needs("node", "native")
@pytest.mark.parametrize(("name", "source", "value"), [
    ("a.mjs", "import { sep } from 'path'\nexport default [sep, import.meta.url.slice(-10)]", ["/", "/job/a.mjs"]),
    ("a.mjs", "import x from './lib/x.mjs'\nimport y from './lib/y.js'\nexport default x + y", 3),
    ("a.cjs", "const y = require('./lib/y')\ny + 1", 3),
    ("a.js", "const x = await import('./lib/x.mjs')\nexport default x.default", 1),
    ("a.js", "if (require.main === module) [__filename, typeof exports]", ["/job/a.js", "object"]),
])  # fmt: skip
def test_javascript_scripts_and_modules_run(name, source, value, tmp_path):
    (tmp_path / name).write_text(source)
    files = {"lib/x.mjs": "export default 1", "lib/y.js": "module.exports = 2"}
    result = stockade.run(tmp_path / name, files=files)
    assert result.value == value, result.stderr


@pytest.mark.needs("node", "native")
@pytest.mark.parametrize(("source", "code", "error"), [
    ("await new Promise(() => {})", 13, None),
    ("Promise.reject(new RangeError('x'))", 1, "RangeError"),
    ("setTimeout(() => { throw new URIError('x') }, 5); 7", 1, "URIError"),
    ("throw 5", 1, "number"),
    ("process.on('uncaughtException', () => process.exit(4)); setTimeout(() => { throw 1 }, 1)", 4, None),
    ("export default (", 1, "SyntaxError"),
    ("import x from 'no-such-package'", 1, "Error"),
    ("const a = 1; a.cjs = await 1; return", 1, "SyntaxError"),
])  # fmt: skip
def test_javascript_failure_is_reported(source, code, error):
    result = stockade.run(source, language="js")
    assert (result.exit_code, result.error and result.error.type) == (code, error), result.stderr


@pytest.mark.needs("ruby", "native")
def test_regexp_timeout_applied_or_refused_by_name():
    bounded = Policy(languages={"regexp_timeout": "0.2s"}, limits={"wall_time": 10})
    attack = "/^(a?){40}a{40}$(?<=(b|a+)+c)/.match('a' * 40)"
    if registry.find("ruby").interpreter().version < (3, 2):
        with pytest.raises(stockade.JobError, match=r"regexp_timeout: .*3\.2"):
            stockade.run(attack, language="ruby", policy=bounded)
    else:
        assert stockade.run(attack, language="ruby", policy=bounded).error.type == "Regexp::TimeoutError"
    assert stockade.run("1", policy=bounded).value == 1  # other languages have none, and need none


@pytest.mark.needs("ruby")
@pytest.mark.parametrize(("seconds", "expected"), [("0.2", "0.2"), ("0", "none")])
def test_ruby_agent_sets_regexp_timeout(tmp_path, seconds, expected):
    (tmp_path / "later.rb").write_text("def Regexp.timeout=(s); $set = s; end")  # what Ruby 3.2 added
    (tmp_path / "main.rb").write_text("print $set || 'none'")
    agent = Path(registry.__file__).parent / "agents" / "ruby_agent.rb"
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 3>report', "sh", "ruby", "-r", "./later.rb", agent, "0", seconds, "main.rb"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (expected, "")


@pytest.mark.needs("numpy", "native")
def test_numpy_threads_stay_within_processes():
    code = "import numpy, os\nnumpy.linalg.inv(numpy.eye(200) * 2)\nprint(len(os.listdir('/proc/self/task')))"
    result = stockade.run(code, policy=Policy(limits={"processes": 1}), interpreter=sys.prefix, backend="native")
    assert (result.stdout, result.stderr) == ("1\n", ""), result


_OWN_FILE = {
    "python": "import os\nos.close(3)\nfile = os.open('out', os.O_WRONLY | os.O_CREAT)\nassert file == 3\nos.write(file, b'mine')",
    "ruby": "IO.for_fd(3).close\nfile = File.open('out', 'w')\nraise unless file.fileno == 3\nfile.write('mine')\nfile.flush",
    "javascript": "const fs = require('fs')\nfs.closeSync(3)\nconst file = fs.openSync('out', 'w')\n"
    "if (file !== 3) throw file\nfs.writeSync(file, 'mine')",
}  # fmt: skip


@pytest.mark.needs("native")
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("language", _OWN_FILE)
def test_job_file_on_channel_number_stays_intact(language: str, warm: bool) -> None:
    """Neither a report nor the completion marker gets into the job's file."""
    box = stockade.Runner(backend="native", warm=warm and language != "javascript")
    result = box.run(_OWN_FILE[language], language=language, artifacts=["out"])
    assert result.ok, result.summary() + result.stderr
    assert result.artifacts["out"] == b"mine"
