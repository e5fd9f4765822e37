"""The launch of a guest in a machine: the native backend's, for the host that the machine is."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stockade.backends.base import planned
from stockade.backends.native.backend import Native, launch
from stockade.languages import registry as languages
from stockade.languages.base import JOB_FOLDER, in_image
from stockade.planning.facts import HostFacts
from stockade.policy.model import Policy
from stockade.runs.job import Job

if TYPE_CHECKING:
    from stockade.core.launch import Launch

SETUP_SECONDS = 120.0
"""An emulated machine on a busy host takes its time."""
_BEYOND = 1 << 16
"""Output past the limit that the machine passes on, so that the warden outside sees the limit met."""


def encoded(launch: Launch) -> bytes:
    """Return the fields of the message that begins the run inside. Limits on time and output end it from outside."""
    output = launch.watch.output_bytes
    watch = launch.watch.adding(
        wall_seconds=None,
        cpu_seconds=None,
        output_bytes=None if output is None else output + _BEYOND,
        kill_on_output=False,
        setup_seconds=SETUP_SECONDS,
        live=True,
    )
    inside = launch.adding(watch=watch, warm=b"", eager=False, host_uid=None)
    return marshal.dumps({**inside.as_wire(), "steps": inside.steps, "caller": 0, "stdin": True}, 4)


def empty_job(facts: Mapping[str, Any]) -> bytes:
    """Return the launch of an empty Python program in a machine with these ``facts``."""
    plan = planned(Native(), Policy(), HostFacts.from_probe(facts))
    job = Job(source=b"pass", language="python", interpreter=in_image("python", None))
    return encoded(launch(plan, job, languages.find("python").command(job, plan, JOB_FOLDER)))
