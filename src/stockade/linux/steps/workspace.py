"""Steps of a workspace: the job's own files, a project of the host, and the descriptors for collection."""

from __future__ import annotations

import fcntl
import os

from stockade.linux import copying, mounts, overlay
from stockade.linux.steps.base import Steps, write_all, write_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class WorkspaceSteps(Steps):
    """Steps that show a workspace to the guest and hand out the folders to collect."""

    def do_overlay(self, source: str, hidden: Sequence[str], most_bytes: int | None) -> None:
        """Show the host's folder ``source`` at its own path, while writes go to the scratch space.

        Some file systems cannot show another owner's files as the guest's, such as the overlay that a container lives
        in. The guest then gets a copy with the same owners that it would see through the overlay.
        """
        origin = mounts.open_beneath(self._host, source, follow=False)
        place = self._place(source, directory=True)
        guest = overlay.Guest(self._uid, self._gid, self._proc) if self._privileged else None
        try:
            upper = overlay.mount(origin, self._scratch, place, guest)
        except overlay.OwnerError as error:
            self._copy_instead(source, hidden, most_bytes, error)
            return
        finally:
            os.close(origin)
            os.close(place)
        if self._hand_out is not None:
            self._hand_out([upper])
        os.close(upper)

    def _copy_instead(
        self, source: str, hidden: Sequence[str], most_bytes: int | None, reason: overlay.OwnerError
    ) -> None:
        top = mounts.open_beneath(self._host, source, follow=False)
        owner = os.fstat(top)
        os.close(top)

        def own(fd: int, status: os.stat_result) -> None:
            uid = self._uid if status.st_uid == owner.st_uid else status.st_uid
            os.fchown(fd, uid, self._gid if status.st_gid == owner.st_gid else status.st_gid)

        try:
            self._copy(source, source, hidden, most_bytes, own)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{source} is copied, since its file system cannot show it with the guest as owner "
                f"({reason.strerror}), and the copy failed: {error.strerror}",
            ) from None

    def do_read_overlay(self, source: str) -> None:
        """Show the host's folder ``source`` read-only at its own path, without its sockets and named pipes."""
        origin = mounts.open_beneath(self._host, source, follow=False)
        place = self._place(source, directory=True)
        try:
            overlay.attach_read_only(origin, self._scratch, place)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{source} cannot be shown through an overlay ({error.strerror}); name it in filesystem.read as well",
            ) from None
        finally:
            os.close(origin)
            os.close(place)

    def do_copy(self, source: str, target: str, hidden: Sequence[str], most_bytes: int | None) -> None:
        """Copy the host's folder ``source`` without the ``hidden`` paths, and give all of the copy to the guest.

        The copy goes into the scratch space and is shown at ``target``. In an instance without a root of its own, it
        goes to ``target`` itself.
        """
        self._copy(source, target, hidden, most_bytes, lambda fd, _status: self._give(fd))

    def _copy(
        self,
        source: str,
        target: str,
        hidden: Sequence[str],
        most_bytes: int | None,
        own: Callable[[int, os.stat_result], None],
    ) -> None:
        top = self._host if self._host >= 0 else os.open("/", os.O_PATH | os.O_CLOEXEC)
        found = mounts.open_beneath(top, source, follow=False)
        origin = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        folder = self._fresh_folder(target)
        manifest = os.memfd_create("stockade", os.MFD_CLOEXEC)
        copier = copying.Copier(frozenset(hidden), most_bytes, own)
        write_all(os.dup(manifest), copier.copy(origin, folder))
        os.fchmod(folder, os.fstat(found).st_mode & 0o777 | 0o700)
        self._give(folder)
        if self._hand_out is not None:
            self._hand_out([folder, manifest])
        for fd in (found, origin, folder, manifest):
            os.close(fd)

    def do_hide(self, folder: str, names: Sequence[tuple[str, bool]]) -> None:
        """Cover each of ``names`` in ``folder`` with something empty. Each name comes with whether it is a folder."""
        place = "/" if self._scratch < 0 else f"/proc/self/fd/{self._scratch}"
        os.close(os.open(f"{place}/.file", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
        os.mkdir(f"{place}/.folder", 0o555)
        covers = [os.open(f"{place}/{name}", os.O_PATH | os.O_CLOEXEC) for name in (".file", ".folder")]
        for name, is_folder in names:
            try:
                target = mounts.open_beneath(self._root, f"{folder}/{name}", follow=False)
                try:
                    mounts.bind(covers[is_folder], target, f"{folder}/{name}", mounts.ATTR_RDONLY)
                finally:
                    os.close(target)
            except FileNotFoundError:
                continue  # removed since the search: nothing can be mounted on a name that is gone
        for fd in covers:
            os.close(fd)

    def do_protect(self, folder: str, names: Sequence[str]) -> None:
        """Make each of ``names`` in ``folder`` read-only.

        Parent folders become mounts as well. Otherwise the guest could rename one, and create another in its place.
        """
        on_the_way = {part for name in names for part in _parents(name)}
        for name in (*sorted(on_the_way), *names):
            path = f"{folder}/{name}" if name else folder
            origin = mounts.open_beneath(self._root, path, follow=False)
            mounts.bind(origin, origin, path, 0 if name in on_the_way else mounts.ATTR_RDONLY)
            os.close(origin)

    def do_stdin_file(self, content: bytes) -> None:
        """Make a file with ``content`` the guest's standard input. Nobody can change it, and it has no name."""
        fd = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        write_on(fd, content)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        # Before Linux 6.7, a sealed file can be mapped shared only through a descriptor without the right to write.
        read_only = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(read_only, 0, inheritable=True)
        os.close(read_only)
        os.close(fd)

    def do_chdir(self, path: str) -> None:
        """Start the guest in ``path``."""
        os.chdir(path)

    def do_job_folder(self, path: str) -> None:
        """Create the folder of the job's own files, and keep a writable mount of it that the guest never sees."""
        os.mkdir(path)
        self._set_owner(path, 0o755, owned=True)
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._job = mounts.copy(place)
        os.close(place)

    def do_job_file(self, name: str, content: bytes) -> None:
        """Write a file into the job's folder."""
        prepared, fd = self._source_file
        if name == prepared:
            write_on(fd, content)
            return
        folder, _, _ = name.rpartition("/")
        if folder:
            os.mkdir(folder, 0o755, dir_fd=self._job)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=self._job)
        write_all(fd, content)

    def do_collect_from(self, path: str, on_host: bool = False) -> None:
        """Hand out the folder at ``path``. Its content at the end of the guest is collected.

        ``on_host`` takes the folder as it is on the host, without the mounts that cover parts of it for the guest.
        """
        if on_host and self._host >= 0:
            folder = mounts.open_beneath(self._host, path, follow=False)
        else:
            folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if self._hand_out is not None:
            self._hand_out([folder])
        os.close(folder)

    def _fresh_folder(self, target: str) -> int:
        if self._scratch < 0:
            os.mkdir(target, 0o700)
            return os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.mkdir("copy", 0o700, dir_fd=self._scratch)
        folder = os.open("copy", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._scratch)
        place = self._place(target, directory=True)
        mounts.bind(folder, place, target, mounts.ATTR_NOSUID | mounts.ATTR_NODEV)
        os.close(place)
        return folder

    def _give(self, fd: int) -> None:
        if self._privileged:
            os.fchown(fd, self._uid, self._gid)


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
