"""``stockade images`` pulls container images. A run never does: what it runs in is what somebody has pulled before."""

from __future__ import annotations

import click

from stockade.cli.mistakes import Group
from stockade.cli.reporting import Command, json_option, print_json

_EXAMPLES = """\b
Examples:
  stockade images pull python:3.12-slim
  stockade run --image python:3.12-slim script.py
"""


@click.group(cls=Group, epilog=_EXAMPLES)
def images() -> None:
    """Pull container images for --image and image=."""


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
