"""Replacement of credential files while brokers read them, perhaps as another user."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from octopia.errors import UsageError


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically; it keeps the owner, the group and the mode of an existing one, or gets ``mode``.

    Raise UsageError if it cannot be written. That includes an owner that cannot be kept: a broker that runs as this
    owner could not read the new file, and would go on with the old content.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            _take_over(path, file.fileno())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except (OSError, UsageError) as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"expected a file that can be written at {path}, got: {error.strerror}") from None


def _take_over(path: Path, new: int) -> None:
    """Give a new file the owner, the group and the mode of the one that it replaces."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    made = os.fstat(new)
    if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(new, old.st_uid, old.st_gid)
        except PermissionError:
            raise UsageError(
                f"expected to keep the owner of {path} (user {old.st_uid}, group {old.st_gid}), got no permission: "
                "run the command as this user or as root"
            ) from None
    os.fchmod(new, old.st_mode & 0o777)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one command at a time read and replace a file; others wait. The lock is on its folder."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"expected a file that can be written at {path}, got: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
