"""The fast path: a run whose source alone differs from the last run.

Its result must be the same as by the full path.
"""

import asyncio
import os
import signal
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from stockade import AsyncRunner, Outcome, Policy, Runner
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("namespaces")]


def begun(**options):
    """Return a runner whose next run of source with these options uses the fast path."""
    box = Runner(backend="native")
    assert box.run("print('first')", **options).stdout == "first\n"
    template = box._launcher._template
    assert template is not None and template.is_for("print(2)", options)
    return box


def test_fast_path_gives_the_same_result():
    box = begun()
    again, afresh = box.run("print(1)\n2"), Runner(backend="native").run("print(1)\n2")
    for name in ("outcome", "exit_code", "stdout", "stderr", "value", "error", "backend", "denials"):
        assert getattr(again, name) == getattr(afresh, name), name
    assert again.enforcement.keys() == afresh.enforcement.keys()  # ``no_survivors`` may read pending in either
    assert again.limits_met.keys() == afresh.limits_met.keys()


def test_source_larger_than_socket_arrives_whole():
    box = begun()
    text = "x" * (6 << 20)
    assert box.run(f"print(len('{text}'))").stdout == f"{len(text)}\n"
    assert box.run("print(3)").stdout == "3\n"


def test_other_options_leave_the_fast_path():
    box = begun()
    assert box.run("print(input())", stdin="given\n").stdout == "given\n"
    assert box.run("echo $0", language="shell").stdout.strip().endswith(".sh")
    assert box.run("print(open('a').read())", files={"a": "laid"}).stdout == "laid\n"
    assert box.run("import sys\nprint(sys.argv[1:])", arguments=["a"]).stdout == "['a']\n"
    assert box.run("import os\nprint(os.listdir())").stdout == "[]\n"


def test_changed_archive_is_read_again(tmp_path):
    box, path = Runner(backend="native"), tmp_path / "files.zip"
    for content in ("one", "two", "three"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", content)
        assert box.run("print(open('a').read())", archive=str(path)).stdout == f"{content}\n"


def test_changed_inherited_variable_is_read_again(monkeypatch):
    box = Runner(Policy(environment={"inherit": ["STOCKADE_TEST"]}), backend="native")
    for value in ("one", "two", "three"):
        monkeypatch.setenv("STOCKADE_TEST", value)
        assert box.run("import os\nprint(os.environ['STOCKADE_TEST'])").stdout == f"{value}\n"


def test_threads_with_two_languages_do_not_mix():
    box = Runner(backend="native")

    def run(number):
        if number % 2:
            return box.run(f"echo shell {number}", language="shell").stdout == f"shell {number}\n"
        return box.run(f"print('python', {number})").stdout == f"python {number}\n"

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(60)))


def test_dead_warden_is_replaced():
    box = begun()
    dead = warden_process.current()
    os.kill(dead.pid, signal.SIGKILL)
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert box.run("print(2)").stdout == "2\n"
    assert warden_process.current() is not dead


def test_async_runner_uses_the_fast_path():
    async def main():
        async with AsyncRunner(backend="native") as box:
            assert (await box.run("print(1)")).stdout == "1\n"
            assert box._inner._launcher._template.is_for("print(2)", {})
            many = await asyncio.gather(*(box.run(f"print({number})") for number in range(20)))
            assert [each.stdout for each in many] == [f"{number}\n" for number in range(20)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await box.run("import time\ntime.sleep(60)")
            assert (await box.run("print(3)")).stdout == "3\n"

    asyncio.run(main())


def test_subclass_with_run_job_sees_every_job():
    class Own(Runner):
        seen = 0

        def run_job(self, job, **how):
            self.seen += 1
            return super().run_job(job, **how)

    box = Own(backend="native")
    for number in range(3):
        assert box.run(f"print({number})").stdout == f"{number}\n"
    assert box.seen == 3


def test_unknown_option_is_refused():
    box = begun()
    with pytest.raises(TypeError):
        box.run("print(1)", no_such_option=None)


@pytest.mark.parametrize("warm", [True, False])
def test_output_limit_met_at_the_end_is_the_cause(warm):
    box = Runner(Policy(limits={"output": 1000}, on_output="kill"), backend="native", warm=warm)
    for _ in range(5):
        result = box.run("import os\nos.write(1, b'x' * 5000)")
        assert result.outcome is Outcome.LIMIT_EXCEEDED and result.limit == "output", result
        # The guest may end by itself before the kill reaches it; the limit decides in both cases.
        assert not warm or (result.exit_code, result.signal) in {(None, 9), (0, None)}


def test_closed_channel_does_not_delay_the_end():
    box = Runner(backend="native", warm=True)
    box.run("1")
    times = []
    for _ in range(5):
        begin = time.monotonic()
        assert box.run("import os\nos.close(3)\nprint(1)").stdout == "1\n"
        times.append(time.monotonic() - begin)
    assert min(times) < 0.04  # less than the time that a guest waits after its completion marker
