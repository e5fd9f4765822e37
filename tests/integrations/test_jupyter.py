"""Notebooks whose kernel runs in a sandbox, by the real Jupyter and ipykernel; and cells that attack the host."""

from __future__ import annotations

import json
import socket
import stat
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager, KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

import stockade
from stockade.integrations.jupyter import DEFAULT_POLICY

ARGV = ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
LIMITS = {**DEFAULT_POLICY["limits"], "output": "8MiB"}


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return a function that writes a kernel specification, and returns its name."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    def write(name="stockade", env=None, **config):
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        config = {"packages": sys.prefix, **config}
        provisioner = {"provisioner_name": "stockade", "config": config}
        spec = {"argv": ARGV, "display_name": name, "language": "python", "env": env or {}}
        metadata = {"kernel_provisioner": provisioner, "supported_encryption": "curve"}
        (folder / "kernel.json").write_text(json.dumps(spec | {"metadata": metadata}))
        return name

    return write


def executed(name, *cells, **options):
    """Execute a notebook, and return the text of each cell's outputs."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    NotebookClient(book, kernel_name=name, timeout=60, startup_timeout=90, **options).execute()
    return ["".join(out.get("text") or out["data"]["text/plain"] for out in cell.outputs) for cell in book.cells]


def test_notebook_is_executed_in_the_sandbox(kernel):
    name = kernel(env={"MINE": "yes"})
    outputs = executed(name, "x = 6", "x * 7", "import os; print(os.getcwd(), os.environ['MINE'])", "!echo shell")
    assert [each.strip() for each in outputs] == ["", "42", "/workspace yes", "shell"]


def test_hostile_cell_does_not_reach_the_host(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter3")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        attack = f"""
import os, socket
found = []
try:
    found.append(open({str(secret)!r}).read())
except OSError:
    pass
if "SECRET_OF_THE_HOST" in os.environ:
    found.append(os.environ["SECRET_OF_THE_HOST"])
try:
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5).close()
    found.append("connected")
except OSError:
    pass
try:
    open({str(tmp_path / "planted")!r}, "w").close()
except OSError:
    pass
print(*found)
"""
        without = executed("python3", attack)  # the kernel that ipykernel brings, started by Jupyter itself
        assert without == ["hunter2 hunter3 connected\n"] and (tmp_path / "planted").exists()
        (tmp_path / "planted").unlink()
        assert executed(kernel(), attack) == ["\n"]
        assert not (tmp_path / "planted").exists()


async def test_interrupt_keeps_and_restart_drops_variables(kernel):
    manager = AsyncKernelManager(kernel_name=kernel())
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        folder = Path(manager.ip).parent
        assert manager.transport == "ipc" and stat.S_IMODE(folder.stat().st_mode) == 0o700

        async def run(code):
            reply = await client.execute_interactive(code, timeout=60, output_hook=lambda _: None)
            return reply["content"]

        assert (await run("x = 1; open('/tmp/kept', 'w').close()"))["status"] == "ok"
        first = manager.provisioner._sandbox
        client.execute("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
        while (await client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
            pass
        await manager.interrupt_kernel()
        assert (await client.get_shell_msg(timeout=60))["content"]["ename"] == "KeyboardInterrupt"
        assert (await run("assert x == 1"))["status"] == "ok"
        await manager.restart_kernel()
        await client.wait_for_ready(timeout=60)
        assert (await run("x"))["ename"] == "NameError"
        assert (await run("open('/tmp/kept')"))["ename"] == "FileNotFoundError"
        with pytest.raises(stockade.SandboxClosed):
            first.run_command(["true"])
        last = manager.provisioner._sandbox
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
    assert not folder.exists() and last.closed


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"longest_message": 1 << 20}, "print('x' * (2 << 20), flush=True)"),
        ({"policy": {"limits": LIMITS}}, "for _ in range(100): print('x' * (1 << 20), flush=True)"),
        ({"policy": {"limits": {**LIMITS, "memory": "256MiB"}}}, "x = bytearray(1 << 30)"),
    ],
)
def test_kernel_past_a_limit_dies(kernel, config, code):
    with pytest.raises((DeadKernelError, CellExecutionError)) as died:
        executed(kernel(**config), code, "import time; time.sleep(1)")
    assert isinstance(died.value, DeadKernelError) or "MemoryError" in str(died.value)


def test_output_within_the_limits_arrives(kernel):
    assert executed(kernel(longest_message=8 << 20), "print('x' * (2 << 20), flush=True)") == ["x" * (2 << 20) + "\n"]


@pytest.mark.parametrize(
    ("config", "error", "why"),
    [
        ({"packages": None}, stockade.SetupError, "ipykernel"),
        ({"policy": {"network": "host"}}, ValueError, "ports of the kernel"),
        ({"polcy": {}}, ValueError, "there is no polcy"),
        ({"required": True}, ValueError, "transport_encryption"),
        ({"policy": {"limits": {"memry": "1GiB"}}}, stockade.PolicyError, "memry"),
    ],
)
def test_start_that_fails_says_why_and_leaves_nothing(kernel, tmp_path, monkeypatch, config, error, why):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    encryption = "required" if config.pop("required", False) else "disabled"
    manager = KernelManager(kernel_name=kernel(**config), transport_encryption=encryption)
    with pytest.raises(error, match=why):
        manager.start_kernel()
    assert not manager.has_kernel and not list(tmp_path.glob("stockade-kernel-*"))
