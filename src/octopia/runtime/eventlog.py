"""The event log of a broker process: one ``key=value`` line per event, with a limit on repeated lines.

An attacker must not be able to fill a disk. Events of one kind from one source, an address or a client, are written up
to ``LINES_PER_MINUTE`` times per minute. The others are counted, and the count is written as ``suppressed`` when the
minute ends: the lines and the counts add up to the events. ``format_line`` and ``RateLimit`` read no clock.
``JsonFormatter`` writes the same fields as JSON objects.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import logging
import re
import time
from collections.abc import Callable, Iterator

from octopia.ids import ClientId, Peer
from octopia.protocol import CloseCode

log = logging.getLogger("octopia")

LINES_PER_MINUTE = 5
"""The number of lines per minute for events of one kind from one source."""
SOURCES_MAX = 1_000
"""The number of sources whose lines are counted apart; all others share one count per kind of event."""
PERIOD_S = 60.0
VALUE_LENGTH_MAX = 500
"""The length at which a value is cut."""

_FIELDS = "octopia_fields"
"""The name under which a record of the log carries the fields of its event."""
_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+")


class EventKind(enum.StrEnum):
    """The kinds of events in the log."""

    BAD_FRAME = "bad_frame"
    VIOLATION = "violation"
    REFUSED = "refused"
    FENCED = "fenced"
    LIMIT_REACHED = "limit_reached"
    TOO_SLOW = "too_slow"
    CONNECTED = "connected"
    CONNECTION_LOST = "connection_lost"
    UNREACHABLE = "unreachable"
    INTERNAL_ERROR = "internal_error"
    PUBLICATIONS_LOST = "publications_lost"
    STALE_CREDENTIALS = "stale_credentials"
    WORKER_DIED = "worker_died"
    WORKER_RESTARTED = "worker_restarted"


EVENT_OF = {
    CloseCode.VIOLATION: EventKind.VIOLATION,
    CloseCode.FENCED: EventKind.FENCED,
    CloseCode.TOO_SLOW: EventKind.TOO_SLOW,
}
"""The events of connections that a broker closes; all other codes refuse the connection."""


Field = str | int | None
"""The value of a field; None is a number that nobody knows."""


def format_line(kind: EventKind, **fields: Field) -> str:
    """Return one line; values are quoted only where needed, and empty ones are left out."""
    pairs = [f"event={kind}", *(f"{key}={_quoted(value)}" for key, value in fields.items() if value != "")]
    return " ".join(pairs)


def _cut(value: str) -> str:
    return value if len(value) <= VALUE_LENGTH_MAX else f"{value[:VALUE_LENGTH_MAX]}…"


def _quoted(value: Field) -> str:
    value = "unknown" if value is None else _cut(str(value))
    if _PLAIN.fullmatch(value) and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=not value.isprintable())


def fields_of(peer: Peer) -> dict[str, str]:
    """Return the field that names the other end of a link."""
    return {"client": peer.name} if isinstance(peer, ClientId) else {"neighbour": str(peer)}


def host_of(address: str) -> str:
    """Return the address of a machine without its port."""
    return address.rpartition(":")[0] or address


@dataclasses.dataclass(slots=True)
class _Period:
    """A minute of one source: the lines written in it, and the events left out."""

    ends_s: float
    written: int = 0
    suppressed: int = 0


Key = tuple[EventKind, str]


class RateLimit:
    """The lines that each source may still write in its current minute."""

    def __init__(self) -> None:
        self._periods: dict[Key, _Period] = {}

    def allows(self, key: Key, now_s: float) -> bool:
        """Count an event, and return whether its line may be written."""
        if key not in self._periods and len(self._periods) >= SOURCES_MAX:
            key = (key[0], "")
        period = self._periods.get(key)
        if period is None:
            period = self._periods[key] = _Period(now_s + PERIOD_S)
        if period.written < LINES_PER_MINUTE:
            period.written += 1
            return True
        period.suppressed += 1
        return False

    def ended(self, now_s: float) -> Iterator[tuple[Key, int]]:
        """Forget the minutes that have ended, and yield the number of events that each has left out."""
        for key in [key for key, period in self._periods.items() if period.ends_s <= now_s]:
            suppressed = self._periods.pop(key).suppressed
            if suppressed:
                yield key, suppressed

    @property
    def next_end_s(self) -> float:
        """The end of the oldest minute."""
        return min((period.ends_s for period in self._periods.values()), default=float("inf"))


class EventLog:
    """The events of one broker, or of the parent of all workers; ``owner`` are the fields that every line has."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, **owner: str):
        self._clock = clock
        self._owner = owner
        self._limit = RateLimit()
        self._next_end_s = float("inf")

    def note(
        self,
        kind: EventKind,
        source: str,
        level: int = logging.WARNING,
        error: BaseException | None = None,
        /,
        **fields: Field,
    ) -> None:
        """Write the line of an event, unless its source has written enough; ``error`` adds its traceback."""
        if not log.isEnabledFor(level):
            return
        self.flush()
        now_s = self._clock()
        if self._limit.allows((kind, source), now_s):
            self._write(level, kind, fields, error)
        self._next_end_s = min(self._next_end_s, now_s + PERIOD_S)

    def flush(self, *, is_over: bool = False) -> None:
        """Write the counts of suppressed events for the minutes that have ended, or for all at the end."""
        now_s = float("inf") if is_over else self._clock()
        if now_s < self._next_end_s:
            return
        for (kind, source), suppressed in self._limit.ended(now_s):
            self._write(logging.WARNING, kind, {"source": source, "suppressed": suppressed})
        self._next_end_s = self._limit.next_end_s

    def _write(self, level: int, kind: EventKind, fields: dict[str, Field], error: BaseException | None = None) -> None:
        said = {**self._owner, **fields}
        log.log(level, "%s", format_line(kind, **said), exc_info=error, extra={_FIELDS: {"event": str(kind), **said}})


class JsonFormatter(logging.Formatter):
    """Formats an event as a JSON object with its fields, and any other record with its message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; values are cut and empty ones left out, as in ``format_line``."""
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        fields = getattr(record, _FIELDS, None) or {"event": "message", "message": record.getMessage()}
        line: dict[str, Field] = {"time": when.replace("+00:00", "Z"), "level": record.levelname.lower()}
        line |= {key: _cut(each) if isinstance(each, str) else each for key, each in fields.items() if each != ""}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
