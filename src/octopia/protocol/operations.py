"""Commands from operators to running brokers, and their answers."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import msgspec

from octopia.content.limits import PUBLICATION_ATTRIBUTES_MAX
from octopia.content.values import Value
from octopia.protocol.handshake import REASON_LENGTH_MAX, Name
from octopia.settings import Algorithm

ROWS_MAX = 10_000
"""The number of rows in one answer."""


_Attributes = Annotated[dict[Name, Value], msgspec.Meta(max_length=PUBLICATION_ATTRIBUTES_MAX)]


class Verb(enum.StrEnum):
    """The commands that a broker accepts from an operator."""

    REPORT = "report"
    OVERLAY = "overlay"
    CLIENTS = "clients"
    CIVS = "civs"
    THROTTLE = "throttle"
    PING = "ping"
    CUT = "cut"
    HEAL = "heal"
    TABLES = "tables"
    WANTED = "wanted"
    WATCH = "watch"
    WATCHED = "watched"
    UNWATCH = "unwatch"
    ROUTE = "route"


class Command(msgspec.Struct, frozen=True, tag=True):
    """An operator's command; ``broker`` is the other end of the link to throttle, cut or heal.

    A ``rate`` is in publications per second, and 0 lifts the limit. None leaves a value unchanged. ``client`` selects
    the rows of one client, ``hosted`` those of all clients of the broker, and ``rows`` is their maximum number.
    ``attributes`` are those of a publication: is it wanted, and which rows match it? ``payload`` is that of a
    publication to watch, for ``seconds``. ``algorithm`` is the one to route by.
    """

    verb: Verb
    broker: Name = ""
    rate: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    client: Name = ""
    rows: Annotated[int, msgspec.Meta(ge=1, le=ROWS_MAX)] = 1_000
    attributes: _Attributes = msgspec.field(default_factory=dict)
    payload: Annotated[bytes, msgspec.Meta(max_length=64)] = b""
    seconds: float = 0.0
    algorithm: Algorithm | None = None
    hosted: bool = False


class Answer(msgspec.Struct, frozen=True, tag=True):
    """A broker's answer to an operator: a report, or the problem."""

    report: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)] = ""
