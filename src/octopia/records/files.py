"""Atomic writes of files and new folders, which survive a crash, and locks on folders."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from octopia.errors import UsageError

_LOCK = "lock"


def lock_folder(folder: Path, kind: str) -> BinaryIO:
    """Create a folder if it is missing, and lock it until the returned file is closed.

    ``kind`` is a noun for the error if another process has the lock, such as "a spool".
    """
    lock = _lock_file(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise UsageError(
            f"expected {kind} that no other process writes to, got {folder}: stop the other process first"
        ) from None
    return lock


def wait_for_lock(folder: Path) -> BinaryIO:
    """Lock a folder as ``lock_folder`` does, after waiting for the process that has the lock."""
    lock = _lock_file(folder)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _lock_file(folder: Path) -> BinaryIO:
    try:
        make_folder(folder)
        return (folder / _LOCK).open("a+b")
    except OSError as error:
        raise UsageError(f"expected a folder that can be written, got {folder}: {error.strerror}") from None


def make_folder(folder: Path) -> None:
    """Create a folder and its parents if they are missing, and wait until they are durable."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write or replace a file atomically, and wait until it is durable."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
