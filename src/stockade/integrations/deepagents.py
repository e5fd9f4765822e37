"""A backend for deepagents: an agent's shell and files in a living sandbox. ``pip install 'stockade[deepagents]'``."""

from __future__ import annotations

import errno
import posixpath

from stockade.api.sessions.files import FileRefused
from stockade.core.errors import JobError
from stockade.integrations.living import DEFAULT_POLICY, LivingSandbox, lowered, remark, status_of
from stockade.policy.guarantees import Guarantee

try:
    from deepagents.backends.protocol import (
        FILE_NOT_FOUND,
        INVALID_PATH,
        IS_DIRECTORY,
        PERMISSION_DENIED,
        ExecuteResponse,
        FileDownloadResponse,
        FileUploadResponse,
    )
    from deepagents.backends.sandbox import BaseSandbox
except ModuleNotFoundError as error:
    hint = "install it with: pip install 'stockade[deepagents]'"
    raise ModuleNotFoundError(f"{error}; {hint}", name=error.name) from error

__all__ = ["DEFAULT_POLICY", "StockadeBackend"]

_WORDS = {
    errno.ENOENT: FILE_NOT_FOUND,
    errno.EACCES: PERMISSION_DENIED,
    errno.EPERM: PERMISSION_DENIED,
    errno.EISDIR: IS_DIRECTORY,
    errno.ENOTDIR: INVALID_PATH,
    errno.ENAMETOOLONG: INVALID_PATH,
    errno.ELOOP: INVALID_PATH,
    errno.EROFS: f"{PERMISSION_DENIED}: only the working folder (see pwd) and /tmp can be written",
}
_LONGEST = 1 << 20
"""Bytes of output for a model. Reads of the framework's own, which come as output too, have half of that at most."""
_BOTH_STREAMS = 'exec 2>&1; exec sh -c "$0"'


class StockadeBackend(BaseSandbox):
    """The shell and the files of an agent, in a living sandbox, for ``create_deep_agent(backend=...)``.

    ``sandbox`` is a ``stockade.Sandbox``, or another object with its methods. Whoever made it closes it.
    """

    def __init__(self, sandbox: LivingSandbox) -> None:
        self.sandbox = sandbox

    @property
    def id(self) -> str:
        """The name of the sandbox."""
        return self.sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a line of shell. The output names a limit that ended it, and what to do about that.

        ``timeout`` is in seconds; the policy's wall time bounds it, and holds without it.
        """
        seconds = lowered(self.sandbox, Guarantee.WALL_TIME, timeout or None)
        output = int(lowered(self.sandbox, Guarantee.OUTPUT, _LONGEST) or _LONGEST)
        try:
            result = self.sandbox.run_command(["sh", "-c", _BOTH_STREAMS, command], timeout=seconds, output=output)
        except JobError as error:  # a command that cannot be one, such as one with a NUL
            return ExecuteResponse(output=f"stockade: {error}", exit_code=126)
        text = "\n".join(filter(None, (result.stdout, result.stderr, remark(result))))
        return ExecuteResponse(output=text, exit_code=status_of(result), truncated=result.stdout_truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files whole, with the folders above them. Each answer has the reason if its file was not written."""
        return [FileUploadResponse(path=path, error=self._written(path, content)) for path, content in files]

    def _written(self, path: str, content: bytes) -> str | None:
        if not posixpath.isabs(path):
            return str(INVALID_PATH)
        try:
            self.sandbox.files.write(path, content)
        except (OSError, FileRefused, JobError) as error:
            return _reason(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read regular files whole. Each answer has the content, or the reason."""
        return [self._read(path) for path in paths]

    def _read(self, path: str) -> FileDownloadResponse:
        if not posixpath.isabs(path):
            return FileDownloadResponse(path=path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path=path, content=self.sandbox.files.read_bytes(path))
        except (OSError, FileRefused, JobError) as error:
            return FileDownloadResponse(path=path, error=_reason(error))


def _reason(error: Exception) -> str:
    """Return the error as the framework names it, or its own text."""
    known: str | None = _WORDS.get(error.errno or 0) if isinstance(error, OSError) else None
    return known or str(error)
