"""A program of a user: every line type-checks under mypy --strict."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import stockade
from stockade import AsyncRunner, Finished, Guarantee, LimitReached, Output, Policy, Result, Runner, RunOptions

POLICY = {"limits": {"memory": "64MiB"}, "network": "none"}


def warned(event: LimitReached) -> None:
    print(event.guarantee)


def once() -> Result:
    result = stockade.run("print(1)", timeout=2, memory="64MiB", network="none", files={"a": b"1"}, on_warning=warned)
    text: str = result.explain()
    state = result.limits_met[Guarantee.WALL_TIME].state
    print(text, state, result.usage.peak_memory or 0, result.check().stdout.strip())
    return stockade.run_command(["sort"], stdin="b\na", policy="strict", timeout="1s")


def shared(options: RunOptions) -> list[str]:
    with Runner(POLICY, timeout=5, preload=["json"]) as runner:
        seconds: float = float(runner.policy.limits.wall_time)
        return [runner.run(Path("a.py"), **options).stdout, str(seconds)]


async def several() -> None:
    async with AsyncRunner(Policy(limits={"wall_time": 3})) as runner, runner.stream("print(1)") as events:
        async for event in events:
            if isinstance(event, Output):
                print(event.data)
            elif isinstance(event, Finished):
                print(event.result.outcome)


async def living() -> str:
    async with await stockade.AsyncSandbox.create(POLICY, timeout=5, idle_timeout=None) as sandbox:
        process = await sandbox.start_command(["cat"], stdout="/tmp/log")
        await process.stdin.write(b"text", timeout=5)
        async with await sandbox.interpreter("python", cwd="/tmp") as py:
            shown: str | None = (await py.run("1", timeout=2)).value_repr
        sizes: list[int] = [each.size for each in await sandbox.files.list("/tmp", max_entries=10)]
        result: Result = await sandbox.run_command(["true"], timeout=1)
        return f"{shown} {sizes} {result.stdout} {await sandbox.files.read_text('a')}"


async def living_there() -> str:
    async with (
        stockade.AsyncClient("http://127.0.0.1:8080") as client,
        await client.create_sandbox(memory="64MiB", idle_timeout=60) as sandbox,
    ):
        result: Result = await sandbox.run_command(["true"], timeout=1)
        py = await sandbox.interpreter("python")
        shown: str | None = (await py.run("1", timeout=2)).value_repr
        content: bytes = await sandbox.files.read_bytes("a")
        return f"{result.stdout} {shown} {content!r} {await sandbox.files.read_text('a')}"


def judged() -> dict[str, bool]:
    try:
        programs = [{"id": "a", "source": "print(1)", "expected": "1"}]
        return {verdict.id: verdict.passed for verdict in stockade.evaluate(programs, jobs=1)}
    except stockade.PolicyError as error:
        return {problem.field: False for problem in error.problems}


def anywhere(local: bool) -> str:
    runner: stockade.RunsCode[Result] = Runner(POLICY) if local else stockade.Client("http://127.0.0.1:8080")
    return runner.run("print(input())", stdin="1", language="python").stdout + runner.run_command(["true"]).stderr


async def anywhere_async(local: bool) -> int:
    runner: stockade.RunsCode[Awaitable[Result]] = (
        AsyncRunner(POLICY) if local else stockade.AsyncClient("http://127.0.0.1:8080")
    )
    results = await asyncio.gather(*(runner.run("1", labels={"user": "ada"}) for _ in range(2)))
    return len([result.outcome for result in results])


def sent_away() -> str:
    there = stockade.Remote("http://127.0.0.1:8080", api_key="e2b_0", patience=5)
    return stockade.run("1", backend=there, on_warning=warned, memory="64MiB").backend + repr(
        stockade.run_command(["true"], backend=there, policy="strict")
    )


def followed_anywhere(local: bool) -> list[int]:
    runner: stockade.StreamsCode[stockade.AnyStream] = Runner() if local else stockade.Client("http://127.0.0.1:8080")
    with runner.stream("print(1)", stdin="a") as events:
        found = [event.at for event in events if isinstance(event, Output)]
        events.cancel()
    return [*found, *events.result.stdout_bytes]


async def followed_anywhere_async(runner: stockade.StreamsCode[stockade.AnyAsyncStream], local: bool) -> Result:
    runner = AsyncRunner() if local else stockade.AsyncClient("http://127.0.0.1:8080")
    async with runner.stream_command(["true"], labels={"user": "ada"}) as events:
        async for event in events:
            print(event)
    return events.result


def typed_anywhere(local: stockade.Sandbox, there: stockade.RemoteSandbox) -> list[bytes]:
    terminals: list[stockade.AnyTerminal] = [local.terminal(rows=30), there.terminal(["sh"], columns=100)]
    for each in terminals:
        with each as terminal:
            terminal.resize(20, 70)
            terminal.write(b"exit\n", timeout=5)
            print(terminal.wait(5).outcome, terminal.returncode, terminal.argv)
    return [each.read(100, timeout=1) for each in terminals]


async def typed_anywhere_async(local: stockade.AsyncSandbox, there: stockade.AsyncRemoteSandbox) -> list[bytes]:
    terminals: list[stockade.AnyAsyncTerminal] = [await local.terminal(), await there.terminal(idle_timeout=9)]
    for each in terminals:
        async with each as terminal:
            terminal.send_signal(2)
            await terminal.write(b"exit\n")
            print((await terminal.wait(5)).outcome, terminal.poll())
    return [await each.read() for each in terminals]


if __name__ == "__main__":
    asyncio.run(several())
