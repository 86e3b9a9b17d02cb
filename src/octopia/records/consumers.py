"""The consumers of a spool: each has a name, and an offset before which it has committed all rows."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from octopia.errors import DamagedData, UsageError
from octopia.records.files import sync_folder, wait_for_lock, write_whole

_FOLDER = "consumers"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SUFFIX = ".json"


class Committed(msgspec.Struct, frozen=True):
    """The offset of the first row that a consumer has not committed."""

    offset: int


class Consumers:
    """The consumers of the spool in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder / _FOLDER

    def committed(self, name: str) -> int | None:
        """Return the offset that a consumer has committed, or None if it is new."""
        path = self._path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Committed).offset
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            raise DamagedData(f"expected the offset of a consumer in {path}, got something else: remove it") from None

    def commit(self, name: str, offset: int) -> None:
        """Note that a consumer no longer needs rows before an offset; it never moves back."""
        path = self._path(name)
        with wait_for_lock(self._folder):  # Several readers may use one name.
            before = self.committed(name)
            if before is None or offset > before:
                write_whole(path, msgspec.json.encode(Committed(offset)))

    def remove(self, name: str) -> None:
        """Remove a consumer: no row is retained for it."""
        path = self._path(name)
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_folder(path.parent)

    def names(self) -> list[str]:
        """Return the names of all consumers, in order."""
        return sorted(each.name.removesuffix(_SUFFIX) for each in self._folder.glob(f"*{_SUFFIX}"))

    def least_committed(self) -> int | None:
        """Return the offset before which no consumer needs a row, or None without consumers."""
        offsets = [self.committed(name) for name in self.names()]
        return min((each for each in offsets if each is not None), default=None)

    def _path(self, name: str) -> Path:
        if not _NAME.match(name):
            raise UsageError(
                f"expected a consumer name of letters, digits, dots, dashes and underscores, got {name[:100]!r}"
            )
        return self._folder / f"{name}{_SUFFIX}"
