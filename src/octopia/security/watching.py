"""Files that are read again when they change, so that brokers need no restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from octopia.errors import UsageError

T = TypeVar("T")

LOOK_S = 0.02
"""The minimum time between two checks of the files, since many connections may arrive at once.

It is shorter than the time in which a command starts, so that a token that was revoked before is refused.
"""


class Watched(Generic[T]):
    """A value made from files. While they cannot be read, the last value stays, and ``problem`` says why.

    The first reading raises what ``read`` raises.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], T], clock: Callable[[], float]):
        self._paths = paths
        self._read = read
        self._clock = clock
        self._looked_s = clock()
        self._seen = self._stamps()
        self._value = read()
        self.problem = ""

    def get(self) -> T:
        """Return the value, from the files as they are now, or were 20 ms ago."""
        now_s = self._clock()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            seen = self._stamps()
            if seen != self._seen:
                self._seen = seen
                self._read_again()
        return self._value

    def _read_again(self) -> None:
        try:
            self._value = self._read()
            self.problem = ""
        except UsageError as error:
            self.problem = str(error)

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple([_stamp(path) for path in self._paths])


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
