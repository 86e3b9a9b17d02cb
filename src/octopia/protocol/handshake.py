"""The first and the last frame of a connection: the identity of each end, and the reason for closing."""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias

import msgspec

REASON_LENGTH_MAX = 1000
NAME_LENGTH_MAX = 255
RETRY_MS_MAX = 10_000
TOKEN_LENGTH_MAX = 1000
CLIENT_SESSIONS_MAX = 1 << 20
"""The number of client sessions of one start of a broker; their incarnations begin with this multiple of its own."""

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)]


class Role(enum.StrEnum):
    """The role of one end of a connection."""

    BROKER = "broker"
    CLIENT = "client"
    OPERATOR = "operator"


class Overflow(enum.StrEnum):
    """The choice of a subscriber that reads too slowly: lose its connection, or lose the oldest publications."""

    DISCONNECT = "disconnect"
    DROP_OLDEST = "drop_oldest"


class CloseCode(enum.StrEnum):
    """The reason why a connection is closed, for programs. The values are part of the wire format."""

    DONE = "done"
    SHUTDOWN = "shutdown"
    BAD_FRAME = "bad_frame"
    VIOLATION = "violation"
    WRONG_OVERLAY = "wrong_overlay"
    WRONG_BROKER = "wrong_broker"
    NAME_TAKEN = "name_taken"
    NOT_ALLOWED = "not_allowed"
    ACCESS_DENIED = "access_denied"
    TLS_REQUIRED = "tls_required"
    LIMIT = "limit"
    TOO_SLOW = "too_slow"
    TIMEOUT = "timeout"
    BUSY = "busy"
    REPLACED = "replaced"
    FENCED = "fenced"
    INTERNAL = "internal"


class Opening(msgspec.Struct, frozen=True, tag=True):
    """The first frame in each direction: the sender, and the broker that it wants to reach.

    ``sender`` is a broker's id or a client's name. ``fingerprint`` identifies the overlay, in hex; clients do not know
    it and leave it empty. ``broker`` is the intended receiver; empty means any. ``overflow`` is for clients. A broker
    that ``confirms`` answers advertisements and subscriptions once they are in force. Other brokers send no answer:
    a request to them is done when its frame is acknowledged. ``token`` is for clients and operators.
    """

    role: Role
    sender: Name
    fingerprint: Name = ""
    broker: Name = ""
    overflow: Overflow = Overflow.DISCONNECT
    confirms: bool = False
    token: Annotated[str, msgspec.Meta(max_length=TOKEN_LENGTH_MAX)] = ""


class Closing(msgspec.Struct, frozen=True, tag=True):
    """The last frame in a direction: a code for programs and a reason for people, cut if it is long.

    To a broker that is fenced, ``incarnation`` is that of the newer one. A client that a busy broker does not admit may
    come back after ``retry_ms``.
    """

    code: CloseCode
    reason: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)] = ""
    incarnation: Annotated[int, msgspec.Meta(ge=0)] = 0
    retry_ms: Annotated[int, msgspec.Meta(ge=0, le=RETRY_MS_MAX)] = 0
