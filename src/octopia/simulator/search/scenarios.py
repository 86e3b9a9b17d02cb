"""What is searched: small overlays, scripts of clients, and the faults that may strike.

A client does what its script says, in order, at any time; what stands in ``before`` is done first, and has settled when
the search begins. One that ``awaits`` goes on only when all that it has in force is confirmed, as the clients of the
network do. Any of the ``faults`` may strike, at any time, ``fault_budget`` of them in all.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import msgspec

from octopia.content import Publication, parse_filter
from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientRequest,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)


class CrashOf(msgspec.Struct, frozen=True, tag=True):
    """A broker crashes, and will be started again."""

    broker: BrokerId


class CutOf(msgspec.Struct, frozen=True, tag=True):
    """A link is cut, and will be healed."""

    low: BrokerId
    high: BrokerId


class ResendOver(msgspec.Struct, frozen=True, tag=True):
    """A broker writes again what a neighbour has not acknowledged in time."""

    sender: BrokerId
    receiver: BrokerId


class GraceOf(msgspec.Struct, frozen=True, tag=True):
    """The grace period of a recovering broker ends before its recovery."""

    broker: BrokerId


class KillOf(msgspec.Struct, frozen=True, tag=True):
    """A client dies, and comes back under its name after its session has ended."""

    client: str


class ImpostorOf(msgspec.Struct, frozen=True, tag=True):
    """For a moment, a second broker greets a neighbour under a broker's name, with a newer or an older incarnation."""

    broker: BrokerId
    neighbour: BrokerId
    is_newer: bool


Fault: TypeAlias = CrashOf | CutOf | ResendOver | GraceOf | KillOf | ImpostorOf


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """A client, its host broker, and what it does."""

    name: str
    broker: BrokerId
    script: tuple[ClientRequest, ...]
    before: tuple[ClientRequest, ...] = ()
    awaits: bool = False

    @property
    def actions(self) -> tuple[ClientRequest, ...]:
        """All that it does, from the beginning."""
        return self.before + self.script


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """A search: the overlay is the product of ``tree`` and ``clusters``.

    A ``queue_capacity`` and a ``window_bytes`` of 0 leave queues unbounded and windows wide. With ``client_sessions``
    clients have sessions and credit, as on the network.
    """

    name: str
    about: str
    clients: tuple[Client, ...]
    faults: tuple[Fault, ...] = ()
    fault_budget: int = 1
    tree: str = "path:3"
    clusters: int = 2
    queue_capacity: int = 0
    window_bytes: int = 0
    client_sessions: bool = False


def advertise(handle: int = 0, offer: str = "x > 0") -> AdvertiseRequest:
    """Make the request to advertise."""
    return AdvertiseRequest(handle, parse_filter(offer))


def unadvertise(handle: int = 0) -> UnadvertiseRequest:
    """Make the request to withdraw an advertisement."""
    return UnadvertiseRequest(handle)


def subscribe(handle: int = 0, interest: str = "x > 0") -> SubscribeRequest:
    """Make the request to subscribe."""
    return SubscribeRequest(handle, parse_filter(interest))


def unsubscribe(handle: int = 0) -> UnsubscribeRequest:
    """Make the request to withdraw a subscription."""
    return UnsubscribeRequest(handle)


def publish(number: int, x: int = 1) -> PublishRequest:
    """Make the request to publish; ``number`` tells the publications of a scenario apart."""
    return PublishRequest(number, Publication({"x": x}, str(number).encode()), 0.0)


def find_scenario(name: str) -> Scenario:
    """Return the scenario of that name."""
    if name not in SCENARIOS:
        raise UsageError(f"expected one of {', '.join(SCENARIOS)}, got {name!r}")
    return SCENARIOS[name]


A0, A1, B0, B1, C0, C1 = (BrokerId(region, cluster) for region in "abc" for cluster in (0, 1))

_PUBLISHER = Client("P", A0, (publish(0),), before=(advertise(),))
_SUBSCRIBED = Client("S", C1, (), before=(subscribe(),))
_CHANGING = Client("S", C1, (unsubscribe(), subscribe(1)), before=(subscribe(),))

_ORDINARY = (
    Scenario(
        "control",
        "advertising races with subscribing and unsubscribing, and everything is withdrawn again",
        (
            Client("P", A0, (advertise(), unadvertise())),
            Client("S", C1, (subscribe(), unsubscribe())),
            Client("T", A1, (subscribe(),)),
        ),
    ),
    Scenario(
        "publish",
        "a publication races with subscriptions of the other cluster that come and go",
        (
            _PUBLISHER,
            Client("S", C1, (unsubscribe(),), before=(subscribe(),)),
            Client("T", B1, (subscribe(), unsubscribe())),
        ),
    ),
    Scenario(
        "crash",
        "the inner broker between a subscriber and the host region crashes while a publication is made",
        (_PUBLISHER, _SUBSCRIBED),
        (CrashOf(B1),),
    ),
    Scenario(
        "line",
        "the inner broker of a plain path crashes while subscriptions change",
        (_PUBLISHER, Client("S", C0, (subscribe(1),), before=(subscribe(),))),
        (CrashOf(B0),),
        clusters=1,
    ),
    Scenario(
        "secondary",
        "the secondary broker of the publisher's region crashes while a subscription is withdrawn",
        (_PUBLISHER, _SUBSCRIBED, Client("T", B1, (unsubscribe(),), before=(subscribe(),))),
        (CrashOf(A1),),
    ),
    Scenario(
        "recovering",
        "the secondary broker of the publisher's region crashes while somebody subscribes",
        (_PUBLISHER, Client("S", B1, (subscribe(),))),
        (CrashOf(A1),),
        tree="path:2",
    ),
    Scenario(
        "host",
        "the host broker of the publisher crashes while somebody subscribes",
        (_PUBLISHER, Client("S", C1, (subscribe(),))),
        (CrashOf(A0),),
    ),
    Scenario(
        "cut",
        "the link between the publisher's host broker and its secondary is cut while subscriptions change",
        (_PUBLISHER, _CHANGING),
        (CutOf(A0, A1),),
    ),
    Scenario(
        "cut-alink",
        "a link of the subscriber's cluster is cut while a subscription is withdrawn and another is made",
        (_PUBLISHER, _CHANGING),
        (CutOf(A1, B1),),
    ),
    Scenario(
        "resend",
        "frames that are not acknowledged in time are written again",
        (_PUBLISHER, Client("S", B1, (unsubscribe(0), subscribe(1)), before=(subscribe(0),))),
        (ResendOver(A0, A1), ResendOver(A1, A0), ResendOver(A1, B1)),
        fault_budget=2,
        tree="path:2",
    ),
    Scenario(
        "return",
        "a publisher dies while a full queue holds its publications back, and comes back under its name",
        (
            Client("P", A0, (publish(0), publish(1), publish(2), publish(3)), before=(advertise(),)),
            Client("S", B0, (), before=(subscribe(),)),
        ),
        (KillOf("P"),),
        tree="path:2",
        clusters=1,
        queue_capacity=1,
        window_bytes=1,
        client_sessions=True,
    ),
    Scenario(
        "impostor",
        "a second broker uses the name of the publisher's host broker for a moment, with a newer incarnation",
        (_PUBLISHER, Client("S", B0, (), before=(subscribe(),)), Client("T", A1, (), before=(subscribe(),))),
        (ImpostorOf(A0, B0, is_newer=True), ImpostorOf(B0, A0, is_newer=True)),
        tree="path:2",
    ),
    Scenario(
        "old-impostor",
        "a second broker uses the name of the publisher's host broker for a moment, with an older incarnation",
        (_PUBLISHER, Client("S", B0, (), before=(subscribe(),)), Client("T", A1, (), before=(subscribe(),))),
        (ImpostorOf(A0, B0, is_newer=False), ImpostorOf(B0, A0, is_newer=False)),
        tree="path:2",
    ),
    Scenario(
        "bits",
        "what a secondary broker says of its bit is written again while the bit changes",
        (_PUBLISHER, Client("S", A1, (unsubscribe(), subscribe(1)), before=(subscribe(),))),
        (ResendOver(A1, A0),),
        tree="a",
    ),
)

_DEEP = (
    Scenario(
        "crowd",
        "two publications race with two subscribers that change their minds",
        (
            Client("P", A0, (publish(0), publish(1), unadvertise()), before=(advertise(),)),
            Client("S", C1, (unsubscribe(), subscribe(1), unsubscribe(1)), before=(subscribe(),)),
            Client("T", A1, (subscribe(), unsubscribe())),
            Client("U", C0, (subscribe(),)),
        ),
    ),
    Scenario(
        "any-fault",
        "any broker on the way crashes, or any link is cut, while subscriptions change",
        (_PUBLISHER, _CHANGING, Client("T", A1, (subscribe(),))),
        (CrashOf(A0), CrashOf(A1), CrashOf(B1), CrashOf(C1), CutOf(A0, A1), CutOf(A1, B1), CutOf(B1, C1)),
    ),
    Scenario(
        "two-faults",
        "an inner broker crashes, and a link to it or beside it is cut before it has recovered",
        (_PUBLISHER, _SUBSCRIBED),
        (CrashOf(B1), CutOf(A1, B1), CutOf(B1, C1), CutOf(A0, A1)),
        fault_budget=2,
    ),
    Scenario(
        "two-crashes",
        "two neighbours crash, each while the other may be recovering",
        (_PUBLISHER, _SUBSCRIBED),
        (CrashOf(A1), CrashOf(B1)),
        fault_budget=2,
    ),
    Scenario(
        "grace",
        "a broker crashes, and its grace period is over before it has recovered",
        (_PUBLISHER, _SUBSCRIBED, Client("T", A1, (subscribe(),))),
        (CrashOf(B1), GraceOf(B1)),
        fault_budget=2,
    ),
)

ORDINARY: dict[str, Scenario] = {each.name: each for each in _ORDINARY}
"""Scenarios that are searched to the end in seconds."""

DEEP: dict[str, Scenario] = {each.name: each for each in _DEEP}
"""Scenarios with millions of states."""

SCENARIOS: dict[str, Scenario] = ORDINARY | DEEP
