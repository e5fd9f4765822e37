"""Hooks learn of every run, in order, and none of them can hold or change a verdict."""

import asyncio
import time

import pytest

import stockade
from stockade import Hooks, JobError, Outcome

SLOW = {"limits": {"wall_time": "1s"}}


class Seen(list):
    """The calls of all hooks of one kind: name, run and value."""

    def hooks(self, **more):
        names = ("on_start", "on_warning", "on_limit", "on_denial", "on_error", "on_finish")
        return Hooks(**{name: self._noted(name) for name in names}, **more)

    def _noted(self, name):
        return lambda info, *value: self.append((name, info, *value))

    @property
    def names(self):
        return [each[0] for each in self]


@pytest.fixture
def configured():
    """Set something for the whole process, and put it back."""
    yield stockade.configure
    stockade.configure()


def refuse(_info):
    raise OSError("the log is full")


class TestOrder:
    def test_start_comes_before_the_verdict(self):
        seen = Seen()
        runner = stockade.Runner(hooks=seen.hooks())
        for number in range(4):  # the later ones would take the fast path
            runner.run(f"print({number})", labels={"user": "ada"})
        assert seen.names == ["on_start", "on_finish"] * 4
        infos = [info for _, info, *_ in seen]
        assert len({info.id for info in infos}) == 4
        assert infos[0].source == b"print(0)"
        assert (infos[0].language, infos[0].kind, infos[0].labels) == ("python", "source", {"user": "ada"})
        assert seen[1][2].stdout == "0\n"

    def test_limit_and_its_warning(self):
        seen = Seen()
        stockade.Runner(SLOW, hooks=seen.hooks()).run_command(["sleep", "9"])
        assert seen.names == ["on_start", "on_warning", "on_limit", "on_finish"]
        assert seen[2][2].guarantee == "wall_time"

    def test_denials_come_at_the_end(self):
        seen = Seen()
        policy = {"security": {"explain_denials": True}}
        code = "import ctypes; ctypes.CDLL(None).unshare(0x10000000)"
        stockade.Runner(policy, hooks=seen.hooks()).run(code)
        assert seen.names == ["on_start", "on_denial", "on_finish"]
        assert seen[1][2].call == "unshare"

    def test_refused_job_is_an_error_without_a_start(self):
        seen = Seen()
        policy = {"commands": {"allow": ["ls"]}}
        with pytest.raises(JobError):
            stockade.Runner(policy, hooks=seen.hooks()).run_command(["true"])
        assert seen.names == ["on_error"]

    def test_left_stream_is_an_error(self):
        seen = Seen()
        with stockade.Runner(hooks=seen.hooks()).stream("import time; time.sleep(60)") as stream:
            next(stream)
        assert seen.names == ["on_start", "on_error"]
        assert seen[1][2] == "the caller left before the verdict"


class TestFailures:
    def test_start_that_raises_refuses_the_run(self):
        seen = []
        runner = stockade.Runner(hooks=Hooks(on_start=refuse, on_error=seen.append, on_finish=seen.append))
        with pytest.raises(OSError, match="log is full"):
            runner.run("print(1)")
        assert not seen, "hooks that refused are told nothing more"

    def test_start_that_raises_is_recorded_if_so_asked(self, caplog):
        runner = stockade.Runner(hooks=Hooks(on_start=refuse, failures="record"))
        assert runner.run("print(1)").ok
        assert "hook on_start failed: OSError: the log is full" in caplog.text

    def test_earlier_hooks_learn_of_a_later_refusal(self, configured):
        seen = Seen()
        configured(hooks=[seen.hooks()])
        with pytest.raises(OSError, match="log is full"):
            stockade.Runner(hooks=Hooks(on_start=refuse)).run("print(1)")
        assert seen.names == ["on_start", "on_error"]

    def test_finish_that_raises_leaves_the_verdict(self, caplog):
        def broken(*_):
            raise ValueError("no")

        result = stockade.Runner(SLOW, hooks=Hooks(on_warning=broken, on_finish=broken)).run_command(["sleep", "9"])
        assert result.outcome is Outcome.LIMIT_EXCEEDED
        assert caplog.text.count("ValueError: no") == 2

    def test_slow_hook_does_not_delay_the_end_of_a_guest(self):
        begin = time.monotonic()
        result = stockade.Runner(SLOW, hooks=Hooks(on_warning=lambda *_: time.sleep(3))).run_command(["sleep", "9"])
        assert time.monotonic() - begin > 3
        assert result.usage.wall_seconds < 2

    @pytest.mark.parametrize("bad", [{"on_start": 1}, {"failures": "ignore"}])
    def test_bad_hooks_are_refused(self, bad):
        with pytest.raises(JobError, match="hooks: "):
            Hooks(**bad)

    @pytest.mark.parametrize("labels", [{"a b": "x"}, {"a": "x\n"}, {"a": 1}, {"a": "x" * 257}, "user=ada"])
    def test_bad_labels_are_refused(self, labels):
        with pytest.raises(JobError, match="labels: "):
            stockade.run("print(1)", labels=labels)


class TestLivingSandboxes:
    def test_sandbox_and_its_commands_are_runs(self):
        seen = Seen()
        with stockade.Sandbox.create(hooks=seen.hooks(), labels={"user": "ada"}) as sandbox:
            sandbox.run_command(["true"])
            with sandbox.start_command(["sleep", "60"]) as process:
                assert process.poll() is None
        assert [(name, info.kind) for name, info, *_ in seen] == [
            ("on_start", "sandbox"),
            ("on_start", "command"),
            ("on_finish", "command"),
            ("on_start", "command"),
            ("on_finish", "command"),
            ("on_finish", "sandbox"),
        ]
        assert {(info.sandbox, info.labels["user"]) for _, info, *_ in seen} == {(sandbox.id, "ada")}

    def test_start_that_raises_refuses_a_command(self):
        refused = []

        def only_true(info):
            if info.argv == ("false",):
                refused.append(info.id)
                raise PermissionError("not that")

        with stockade.Sandbox.create(hooks=Hooks(on_start=only_true)) as sandbox:
            assert sandbox.run_command(["true"]).ok
            with pytest.raises(PermissionError, match="not that"):
                sandbox.run_command(["false"])
            with pytest.raises(PermissionError, match="not that"):
                sandbox.start_command(["false"])
            assert sandbox.run_command(["true"]).ok
        assert len(refused) == 2

    def test_start_that_raises_refuses_the_sandbox(self):
        with pytest.raises(OSError, match="log is full"):
            stockade.Sandbox.create(hooks=Hooks(on_start=refuse))

    def test_asyncio_has_the_same(self):
        seen = Seen()

        async def main():
            async with await stockade.AsyncSandbox.create(hooks=seen.hooks()) as sandbox:
                await sandbox.run_command(["true"])

        asyncio.run(main())
        assert seen.names == ["on_start", "on_start", "on_finish", "on_finish"]


class TestProcessWide:
    def test_settings_hold_for_all_runs(self, configured):
        seen = Seen()
        configured(hooks=seen.hooks(), labels={"app": "shop", "user": "none"}, policy={"limits": {"processes": 3}})
        stockade.run("print(1)", labels={"user": "ada"})
        info = seen[0][1]
        assert info.labels == {"app": "shop", "user": "ada"}
        assert info.policy.limits.processes == 3
        configured()
        stockade.run("print(1)")
        assert len(seen) == 2

    def test_bad_setting_changes_nothing(self, configured):
        seen = Seen()
        configured(hooks=seen.hooks())
        with pytest.raises(stockade.PolicyError):
            configured(policy="no such profile")
        stockade.run("print(1)")
        assert seen.names == ["on_start", "on_finish"]


def test_coroutine_hook_is_a_task_of_the_loop():
    seen = []

    async def finished(_info, result):
        seen.append(result.outcome)

    async def main():
        async with stockade.AsyncRunner(hooks=Hooks(on_finish=finished)) as runner:
            await runner.run("print(1)")
        await asyncio.sleep(0)

    asyncio.run(main())
    assert seen == [Outcome.COMPLETED]


def test_coroutine_hook_without_a_loop_refuses_the_run():
    async def start(_info):
        pass

    with pytest.raises(RuntimeError, match="event loop"):
        stockade.Runner(hooks=Hooks(on_start=start)).run("print(1)")
