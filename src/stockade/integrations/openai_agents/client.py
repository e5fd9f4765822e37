"""The client that makes sandboxes for the OpenAI Agents SDK."""

from __future__ import annotations

import uuid
from typing import Any, Literal

from agents.sandbox import Manifest
from agents.sandbox.session import Dependencies, SandboxSession, SandboxSessionState
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot

from stockade.api.asynchronous.sandbox import AsyncSandbox
from stockade.api.options import overlaid
from stockade.backends.shared.guest_environment import WORKSPACE
from stockade.integrations.living import DEFAULT_POLICY
from stockade.integrations.openai_agents.session import StockadeSandboxSession, StockadeSandboxSessionState

__all__ = ["DEFAULT_POLICY", "StockadeSandboxClient", "StockadeSandboxClientOptions"]
_LIFETIME = 3600.0


class StockadeSandboxClientOptions(BaseSandboxClientOptions):
    """The options of one session. ``exposed_ports`` are ports of its servers that you will connect to."""

    type: Literal["stockade"] = "stockade"
    exposed_ports: tuple[int, ...] = ()


class StockadeSandboxClient(BaseSandboxClient[StockadeSandboxClientOptions | None]):
    """Makes a living sandbox for each session: ``SandboxRunConfig(client=StockadeSandboxClient())``.

    ``policy`` and ``options`` are those of ``stockade.Sandbox.create``. They are the client's alone: no state of a
    session that comes back from storage can change them.
    """

    backend_id = "stockade"
    supports_default_options = True

    def __init__(
        self,
        policy: Any = None,
        *,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
        **options: Any,
    ) -> None:
        if options.get("workspace") is not None:
            raise TypeError("workspace=: the manifest says what is in the workspace; give it a LocalDir of the folder")
        self._policy = overlaid(DEFAULT_POLICY if policy is None else policy, {})
        if self._policy.filesystem.workspace != "empty":
            raise ValueError("filesystem.workspace: the manifest says what is in the workspace, so leave it 'empty'")
        self._options = {"max_lifetime": _LIFETIME, **options}
        self._instrumentation = instrumentation or Instrumentation()
        self._dependencies = dependencies
        self._open: dict[str, AsyncSandbox] = {}

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: StockadeSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Return a session. Its sandbox starts with the session."""
        session_id = uuid.uuid4()
        state = StockadeSandboxSessionState(
            session_id=session_id,
            manifest=self._validate_manifest_for_create(manifest or Manifest()),
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            exposed_ports=options.exposed_ports if options else (),
        )
        return self._session(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Return a session that goes on with the sandbox of ``state`` if it still lives, or else with its snapshot."""
        if not isinstance(state, StockadeSandboxSessionState):
            raise TypeError(f"resume: the state of a stockade session, not {type(state).__name__}")
        state.assert_path_grants_rebound()
        return self._session(state)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End the sandbox of a session."""
        inner = session._inner
        if not isinstance(inner, StockadeSandboxSession):
            raise TypeError(f"delete: a session of this client, not one over {type(inner).__name__}")
        await inner.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Return the state of which ``payload`` is the data."""
        return self._deserialize_session_state_payload(payload, StockadeSandboxSessionState)

    def _session(self, state: StockadeSandboxSessionState) -> SandboxSession:
        _check(state.manifest)
        inner = StockadeSandboxSession(state, self._create, self._open)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def _create(self) -> AsyncSandbox:
        return await AsyncSandbox.create(self._policy, **self._options)


def _check(manifest: Manifest) -> None:
    """Refuse what a sandbox cannot have, before one starts."""
    if manifest.root != WORKSPACE:
        raise ValueError(f"manifest root {manifest.root!r}: the workspace of a sandbox is {WORKSPACE}")
    if manifest.users or manifest.groups:
        raise ValueError("manifest users and groups: a sandbox has one user, without rights; leave them out")
    if next(iter(manifest.mount_targets()), None) is not None:
        raise ValueError("manifest mounts: a sandbox has no rights to mount; give it the files as entries")
    granted = next((grant for grant in manifest.extra_path_grants if grant.host_path is not None), None)
    if granted is not None:
        raise ValueError(f"host path of {granted.path!r}: show it by the policy of the client, filesystem.read")
