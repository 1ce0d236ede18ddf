"""A small disk of the test's own, which can be filled to the last byte and freed again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.live import needs


class SmallDisk:
    """A file system in memory, mounted where the user that runs PostgreSQL gets to."""

    def __init__(self, megabytes: int) -> None:
        # PostgreSQL does not run as root, and a user's folders are closed to others.
        self.place = Path(tempfile.mkdtemp(prefix="queueapp-disk-", dir="/var/tmp"))
        options = f"size={megabytes}m,mode=0711"
        mount = ["mount", "-t", "tmpfs", "-o", options, "queueapp-disk", str(self.place)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            self.place.rmdir()
            needs.lacking("no right to mount a file system (run as root)")
        self._ballast = self.place / "ballast"

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.place)
        return found.f_bavail * found.f_frsize

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("ab", buffering=0) as ballast:
            # Most of it at once; others may take some of the rest meanwhile.
            os.posix_fallocate(ballast.fileno(), 0, max(self.free_bytes - 2**20, 1))
            ballast.seek(0, os.SEEK_END)
            for size in (2**16, 2**12):
                with contextlib.suppress(OSError):
                    while ballast.write(bytes(size)):
                        pass

    def free(self) -> None:
        """Give back what ``fill`` took."""
        self._ballast.unlink()

    def close(self) -> None:
        """Unmount it; nothing may run there any more."""
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)
        self.place.rmdir()
