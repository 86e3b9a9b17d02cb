"""What the ends of a connection say besides the items of a session: who they are, and why they go."""

from __future__ import annotations

import enum
from typing import Annotated, Any, TypeAlias

import msgspec

from octopia.broker import Overflow
from octopia.link import Item

REASON_LENGTH_MAX = 1000
NAME_LENGTH_MAX = 255
TOKEN_LENGTH_MAX = 4096

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)]


class Role(enum.StrEnum):
    """What an end of a connection is."""

    BROKER = "broker"
    CLIENT = "client"
    OPERATOR = "operator"


class CloseCode(enum.StrEnum):
    """Why a connection is closed, for programs; the values go over the wire and stay as they are."""

    DONE = "done"
    SHUTDOWN = "shutdown"
    BAD_FRAME = "bad_frame"
    VIOLATION = "violation"
    WRONG_OVERLAY = "wrong_overlay"
    WRONG_BROKER = "wrong_broker"
    NAME_TAKEN = "name_taken"
    NOT_ALLOWED = "not_allowed"
    TOO_SLOW = "too_slow"
    TIMEOUT = "timeout"
    REPLACED = "replaced"


class Opening(msgspec.Struct, frozen=True, tag=True):
    """The first frame in each direction: who speaks, and to whom.

    ``sender`` is a broker's id as text or a client's name. ``fingerprint`` is that of the overlay, in hex; clients do
    not know it and leave it empty. ``broker`` is the one that is meant; empty means any. ``overflow`` and ``token`` are
    for clients. A broker that ``confirms`` answers advertisements and subscriptions when they are in force; from
    others no answer comes, and a request is done when its frame is acknowledged.
    """

    role: Role
    sender: Name
    fingerprint: Name = ""
    broker: Name = ""
    overflow: Overflow = Overflow.DISCONNECT
    token: Annotated[str, msgspec.Meta(max_length=TOKEN_LENGTH_MAX)] = ""
    confirms: bool = False


class Closing(msgspec.Struct, frozen=True, tag=True):
    """The last frame in a direction: why the connection is closed, with a reason for people, cut if it is long."""

    code: CloseCode
    reason: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)] = ""


class Verb(enum.StrEnum):
    """What an operator may ask of a broker."""

    REPORT = "report"
    WHERE = "where"
    THROTTLE = "throttle"


class Command(msgspec.Struct, frozen=True, tag=True):
    """What an operator asks: ``broker`` is who it is about, or the other end of a link.

    A ``rate`` is in publications per second, and 0 for no limit; None leaves it as it is.
    """

    verb: Verb
    broker: Name = ""
    rate: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None


class Answer(msgspec.Struct, frozen=True, tag=True):
    """What a broker answers an operator: a report, or the problem."""

    report: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)] = ""


WireItem: TypeAlias = Opening | Closing | Command | Answer | Item
"""All that travels over a connection."""
