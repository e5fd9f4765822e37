"""``stockade images`` pulls images of containers and builds those of machines. A run never does either."""

from __future__ import annotations

from pathlib import Path

import click

from stockade.cli.interrupts import interruptible
from stockade.cli.mistakes import Group
from stockade.cli.reporting import Command, json_option, print_json

_EXAMPLES = """\b
Examples:
  stockade images pull python:3.12-slim
  stockade run --image python:3.12-slim script.py
  stockade images build microvm
  stockade run --backend microvm script.py
"""


@click.group(cls=Group, epilog=_EXAMPLES)
def images() -> None:
    """Pull container images, and build the machine for microvm."""


@images.command("pull", cls=Command, short_help="Pull the image NAME, and print its digest.")
@click.argument("image", metavar="NAME")
@click.option("--backend", type=click.Choice(("docker", "podman")), default="docker", help="Whose engine pulls it.")
@json_option
def _pull(image: str, backend: str, as_json: bool) -> int:
    """Have the container engine pull the image NAME from its registry, and print the digest.

    The engine is that of DOCKER_HOST, for podman that of CONTAINER_HOST, or the usual one.
    """
    from stockade.backends.docker import engine
    from stockade.backends.podman import engine as podman

    socket = podman.default_socket() if backend == "podman" else engine.default_socket()
    digest = engine.pull(socket, image)
    if as_json:
        print_json({"image": image, "digest": digest, "engine": socket})
    else:
        click.echo(digest)
    return 0


@images.command("build", cls=Command, short_help="Build the machine of the backend microvm.")
@click.argument("backend", type=click.Choice(("microvm",)))
@click.option("--memory", type=click.IntRange(384, 8192), default=512, help="MiB of memory of the machine.")
@click.option(
    "--packages",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="/",
    help="Folder in which Debian's kernel package (linux-image-*-cloud-amd64) is unpacked, if it is not installed.",
)
@json_option
def _build(backend: str, memory: int, packages: Path, as_json: bool) -> int:
    """Boot a machine from the host's own kernel package and interpreter once, and save it.

    Every run then starts from a copy. A new version of stockade or of QEMU needs a new build.
    """
    from stockade.backends.microvm import build

    with interruptible():
        built = build.build(memory, packages, lambda text: click.echo(f"{backend}: {text}", err=True))
    if as_json:
        print_json({"state": built.state, "memory_mib": built.memory, "kernel": built.kernel, "qemu": built.version})
    else:
        click.echo(built.state)
    return 0
