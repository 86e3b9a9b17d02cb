"""The reader of one connection: bytes in as they arrive, whole items out."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping

from octopia.errors import BadFrame
from octopia.protocol import WireItem
from octopia.wire import relaying
from octopia.wire.decoding import DECODERS, LENGTH_MIN, REFUSALS
from octopia.wire.format import LENGTH_BYTES, START, Kind, Limits

_unpack_start = START.unpack_from
_START_BYTES = START.size
_EXPLANATION_MAX = 300  # some errors quote the received bytes


@functools.lru_cache(maxsize=16)
def _length_max(limits: Limits) -> Mapping[int, int]:
    """Return the maximum length per kind of frame; cached, since every new connection needs it."""
    publication, control = limits.publication_bytes_max, limits.control_bytes_max
    return {kind: publication if Kind(kind).is_publication else control for kind in LENGTH_MIN}


class Reader:
    """A decoder of the bytes that arrive over one connection.

    ``limits`` may be changed between two reads, for example once the other end has identified itself. The reader keeps
    at most one incomplete frame, and none that exceeds the limits. Nothing can be read after a BadFrame.
    """

    def __init__(self, limits: Limits = Limits()):  # noqa: B008 (it is frozen)
        self.limits = limits
        self._rest = bytearray()
        self._needed = _START_BYTES
        self._failure: BadFrame | None = None

    @property
    def limits(self) -> Limits:
        """The current maximum length of frames."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self._length_max = _length_max(limits)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[WireItem]:
        """Add received bytes, and return an iterator over the whole items; it raises BadFrame at a malformed one."""
        items: list[WireItem] = []
        try:
            self.read(data, items)
        except BadFrame as error:
            return itertools.chain(items, _raise(error))
        return iter(items)

    def read(self, data: bytes | bytearray | memoryview, items: list[WireItem]) -> None:
        """Add received bytes, and append the whole items; raise BadFrame at a malformed one, after those before it."""
        if self._failure is not None:
            raise self._failure
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._needed:
                return
            data = bytes(rest)
            self._rest = bytearray()
        else:
            data = bytes(data)
        size, at, kind = len(data), 0, 0
        limits, self._needed = self._limits, _START_BYTES
        try:
            while True:
                if relaying.IS_COMPILED:
                    at = relaying.read(data, at, limits.publication_bytes_max, limits.control_bytes_max, items)
                if size - at < _START_BYTES:
                    break
                length, kind = _unpack_start(data, at)
                if kind not in LENGTH_MIN or not LENGTH_MIN[kind] <= length <= self._length_max[kind]:
                    raise self._misfit(kind, length)
                end = at + LENGTH_BYTES + length
                if end > size:
                    self._needed = end - at
                    break
                items.append(DECODERS[kind](data, at, end))
                at = end
        except REFUSALS as error:
            self._failure = _explained(error, kind)
            raise self._failure from error
        if at < size:
            self._rest += data[at:]

    def _misfit(self, kind: int, length: int) -> BadFrame:
        if kind not in LENGTH_MIN:
            return BadFrame(f"expected a kind of frame from {min(Kind)} to {max(Kind)}, got {kind}")
        least, most = LENGTH_MIN[kind], self._length_max[kind]
        return BadFrame(f"expected a length of {least} to {most} bytes, got {length}")


def _raise(error: BadFrame) -> Iterator[WireItem]:
    raise error
    yield


def _explained(error: Exception, kind: int) -> BadFrame:
    place = f"in a frame of kind {Kind(kind).name.lower()}" if kind in LENGTH_MIN else "at the start of a frame"
    sentence = str(error)[:_EXPLANATION_MAX]
    if isinstance(error, BadFrame):
        return BadFrame(f"{sentence}, {place}")
    return BadFrame(f"expected well-formed content {place}, but: {sentence}")
