"""The searches: small overlays, scripts of clients, and possible faults.

A client takes the actions of its script in order, at any time. The actions in ``before`` come first, and have settled
when the search begins. A client that ``awaits`` continues only when all its requests in force are confirmed, as the
network client does. Any of the ``faults`` may strike at any time, ``fault_budget`` of them in total.
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
from octopia.settings import Algorithm


class CrashOf(msgspec.Struct, frozen=True, tag=True):
    """A broker crashes, and is restarted later."""

    broker: BrokerId


class CutOf(msgspec.Struct, frozen=True, tag=True):
    """A link is cut, and is healed later."""

    low: BrokerId
    high: BrokerId


class ResendOver(msgspec.Struct, frozen=True, tag=True):
    """A broker resends frames that a neighbour has not acknowledged in time."""

    sender: BrokerId
    receiver: BrokerId


class GraceOf(msgspec.Struct, frozen=True, tag=True):
    """The grace period of a recovering broker ends before its recovery."""

    broker: BrokerId


class KillOf(msgspec.Struct, frozen=True, tag=True):
    """A client dies, and returns under its name after its session has ended."""

    client: str


class ImpostorOf(msgspec.Struct, frozen=True, tag=True):
    """A second broker briefly greets a neighbour under a broker's name, with a newer or an older incarnation."""

    broker: BrokerId
    neighbour: BrokerId
    is_newer: bool


Fault: TypeAlias = CrashOf | CutOf | ResendOver | GraceOf | KillOf | ImpostorOf


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """A client, its host broker, and its actions."""

    name: str
    broker: BrokerId
    script: tuple[ClientRequest, ...]
    before: tuple[ClientRequest, ...] = ()
    awaits: bool = False

    @property
    def actions(self) -> tuple[ClientRequest, ...]:
        """All its actions, from the beginning."""
        return self.before + self.script


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """The definition of a search: the overlay is the product of ``tree`` and ``clusters``.

    A ``queue_capacity`` of 0 leaves queues unbounded, and a ``window_bytes`` of 0 makes windows wide. With
    ``client_sessions``, clients have sessions and credit, as on the network.
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
    algorithm: Algorithm = Algorithm.DYNAMIC


def advertise(handle: int = 0, offer: str = "x > 0") -> AdvertiseRequest:
    """Return a request to advertise."""
    return AdvertiseRequest(handle, parse_filter(offer))


def unadvertise(handle: int = 0) -> UnadvertiseRequest:
    """Return a request to withdraw an advertisement."""
    return UnadvertiseRequest(handle)


def subscribe(handle: int = 0, interest: str = "x > 0") -> SubscribeRequest:
    """Return a request to subscribe."""
    return SubscribeRequest(handle, parse_filter(interest))


def unsubscribe(handle: int = 0) -> UnsubscribeRequest:
    """Return a request to withdraw a subscription."""
    return UnsubscribeRequest(handle)


def publish(number: int, x: int = 1) -> PublishRequest:
    """Return a request to publish; ``number`` identifies the publication in its scenario."""
    return PublishRequest(number, Publication({"x": x}, str(number).encode()), 0.0)


def find_scenario(name: str) -> Scenario:
    """Return the scenario with this name."""
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
        "advertising races with subscribing and unsubscribing, and everything is withdrawn at the end",
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
        "the secondary broker of the publisher's region crashes while a client subscribes",
        (_PUBLISHER, Client("S", B1, (subscribe(),))),
        (CrashOf(A1),),
        tree="path:2",
    ),
    Scenario(
        "host",
        "the host broker of the publisher crashes while a client subscribes",
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
        "frames that are not acknowledged in time are resent",
        (_PUBLISHER, Client("S", B1, (unsubscribe(0), subscribe(1)), before=(subscribe(0),))),
        (ResendOver(A0, A1), ResendOver(A1, A0), ResendOver(A1, B1)),
        fault_budget=2,
        tree="path:2",
    ),
    Scenario(
        "return",
        "a publisher dies while a full queue holds its publications back, and returns under its name",
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
        "a second broker uses the name of the publisher's host broker briefly, with a newer incarnation",
        (_PUBLISHER, Client("S", B0, (), before=(subscribe(),)), Client("T", A1, (), before=(subscribe(),))),
        (ImpostorOf(A0, B0, is_newer=True), ImpostorOf(B0, A0, is_newer=True)),
        tree="path:2",
    ),
    Scenario(
        "old-impostor",
        "a second broker uses the name of the publisher's host broker briefly, with an older incarnation",
        (_PUBLISHER, Client("S", B0, (), before=(subscribe(),)), Client("T", A1, (), before=(subscribe(),))),
        (ImpostorOf(A0, B0, is_newer=False), ImpostorOf(B0, A0, is_newer=False)),
        tree="path:2",
    ),
    Scenario(
        "bits",
        "a secondary broker's update of its bit is resent while the bit changes",
        (_PUBLISHER, Client("S", A1, (unsubscribe(), subscribe(1)), before=(subscribe(),))),
        (ResendOver(A1, A0),),
        tree="a",
    ),
)

_DEEP = (
    Scenario(
        "crowd",
        "two publications race with two subscribers that subscribe and unsubscribe",
        (
            Client("P", A0, (publish(0), publish(1), unadvertise()), before=(advertise(),)),
            Client("S", C1, (unsubscribe(), subscribe(1), unsubscribe(1)), before=(subscribe(),)),
            Client("T", A1, (subscribe(), unsubscribe())),
            Client("U", C0, (subscribe(),)),
        ),
    ),
    Scenario(
        "any-fault",
        "any broker on the path crashes, or any link is cut, while subscriptions change",
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
"""Scenarios that can be searched completely in seconds."""

DEEP: dict[str, Scenario] = {each.name: each for each in _DEEP}
"""Scenarios with millions of states."""

SCENARIOS: dict[str, Scenario] = ORDINARY | DEEP
