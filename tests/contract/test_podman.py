"""The podman backend under the conformance suite and the forty programs, with a service of the tests' own.

``make podman`` runs all of it. Otherwise the receipts run: after the request, the code is the docker backend's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stockade.backends.podman.backend import Podman
from stockade.testing import BackendContract
from stockade.testing.receipts import ReceiptsContract
from tests.contract import test_docker
from tests.support.docker_engine import IMAGE

if TYPE_CHECKING:
    from tests.support.docker_engine import Daemon

pytestmark = pytest.mark.alone  # beside the other tests of podman, which share its service
PARTS: Any = (BackendContract,) if test_docker.WHOLE else (ReceiptsContract,)


@pytest.mark.needs("podman")
class TestPodman(test_docker.InContainer, *PARTS):
    start_seconds = 4.0

    @pytest.fixture(autouse=True)
    def _engine(self, podman_service: Daemon) -> None:
        type(self).backend = Podman(image=IMAGE, socket=podman_service.socket, prewarm=0)


if test_docker.WHOLE:

    @pytest.mark.needs("podman")
    def test_forty_programs_are_the_same_in_podman(podman_service: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET", "s")
        test_docker.check_programs(Podman(image=IMAGE, socket=podman_service.socket, prewarm=0))
