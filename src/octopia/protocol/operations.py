"""Commands from operators to running brokers, and their answers."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import msgspec

from octopia.protocol.handshake import REASON_LENGTH_MAX, Name


class Verb(enum.StrEnum):
    """The commands that a broker accepts from an operator."""

    REPORT = "report"
    OVERLAY = "overlay"
    THROTTLE = "throttle"


class Command(msgspec.Struct, frozen=True, tag=True):
    """An operator's command; ``broker`` is the other end of the link to throttle.

    A ``rate`` is in publications per second, and 0 lifts the limit. None leaves a value unchanged.
    """

    verb: Verb
    broker: Name = ""
    rate: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None


class Answer(msgspec.Struct, frozen=True, tag=True):
    """A broker's answer to an operator: a report, or the problem."""

    report: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)] = ""
