"""Scenario files: an overlay and the events on it, for every driver (reference: ``docs/scenario-files.md``).

A scenario is read and checked completely before anything runs: an unknown key, an invalid filter or an unknown broker
raises ``InvalidFile`` with the place in the file. Checks that need a running broker, such as whether a publication
conforms to its advertisements, are left to the broker.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from octopia.broker.interface import Verdict
from octopia.content import Disjunction, Publication, Value, parse_filter
from octopia.errors import InvalidFile, OctopiaError
from octopia.ids import BrokerId
from octopia.overlay.files import (
    LinkShape,
    Overlay,
    read_broker,
    read_link_ends,
    read_link_shape,
    read_neighbours,
    read_overlay,
    read_routing,
)
from octopia.settings import PAPER_ROUTING, Algorithm, RoutingSettings
from octopia.tomlfile import Table, read_toml

_T = TypeVar("_T")

_AS_IT_IS = LinkShape()


@dataclasses.dataclass(frozen=True, slots=True)
class AdvertiseItem:
    """A client advertises; ``id`` is the name of the advertisement in the scenario."""

    client: str
    id: str
    text: str
    offer: Disjunction
    ordered: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SubscribeItem:
    """A client subscribes."""

    client: str
    id: str
    text: str
    interest: Disjunction


@dataclasses.dataclass(frozen=True, slots=True)
class UnadvertiseItem:
    """A client withdraws an advertisement, by its name in the scenario."""

    client: str
    id: str


@dataclasses.dataclass(frozen=True, slots=True)
class UnsubscribeItem:
    """A client withdraws a subscription, by its name in the scenario."""

    client: str
    id: str


@dataclasses.dataclass(frozen=True, slots=True)
class PublishItem:
    """A client publishes ``count`` times, ``every_ms`` apart."""

    client: str
    publication: Publication
    count: int = 1
    every_ms: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class LinkChange:
    """New settings for directions of links; None leaves a setting unchanged."""

    directions: tuple[tuple[BrokerId, BrokerId], ...]
    verdict: Verdict | None = None
    queue_length: int | None = None
    shape: LinkShape = _AS_IT_IS


@dataclasses.dataclass(frozen=True, slots=True)
class CrashItem:
    """A broker crashes and loses its state."""

    broker: BrokerId


@dataclasses.dataclass(frozen=True, slots=True)
class RestartItem:
    """A crashed broker restarts without state; its clients reconnect, and advertise and subscribe again."""

    broker: BrokerId


@dataclasses.dataclass(frozen=True, slots=True)
class CutItem:
    """A link stops carrying anything; its ends detect the silence."""

    link: tuple[BrokerId, BrokerId]


@dataclasses.dataclass(frozen=True, slots=True)
class HealItem:
    """A link that was cut works again."""

    link: tuple[BrokerId, BrokerId]


@dataclasses.dataclass(frozen=True, slots=True)
class SlowItem:
    """A client accepts at most ``rate`` publications per second from now on."""

    client: str
    rate: float


FaultItem: TypeAlias = CrashItem | RestartItem | CutItem | HealItem
Item: TypeAlias = (
    AdvertiseItem | SubscribeItem | UnadvertiseItem | UnsubscribeItem | PublishItem | LinkChange | SlowItem | FaultItem
)


class LinkModel(enum.StrEnum):
    """The model of links: without sessions (never failing), with sessions, or with sessions if faults need them."""

    IDEAL = "ideal"
    SESSION = "session"
    AUTO = "auto"


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatorSettings:
    """The ``[simulator]`` table: the environment of brokers in virtual time.

    ``drop``, ``duplicate`` and ``reorder`` are the probabilities of these faults for each frame, below the sessions.
    Without a ``window_bytes``, the window is that of the profile.
    """

    profile: str = "unit"
    seed: int = 0
    links: LinkModel = LinkModel.AUTO
    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    queue_capacity: int = 0
    window_bytes: int | None = None
    client_queue_limit: int = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An event: at its time, or, without a time, after everything before it has settled.

    ``at_ms`` counts from the start of the events, ``after_ms`` from the last moment when everything had settled.
    """

    item: Item
    at_ms: float | None = None
    after_ms: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client, its host broker, and its advertisements and subscriptions before the events begin."""

    name: str
    broker: BrokerId
    items: tuple[AdvertiseItem | SubscribeItem, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """The contents of a scenario file."""

    name: str
    overlay: Overlay
    routing: RoutingSettings
    clients: tuple[ClientSpec, ...]
    links: tuple[LinkChange, ...]
    events: tuple[Event, ...]
    simulator: SimulatorSettings = dataclasses.field(default_factory=SimulatorSettings)

    def with_algorithm(self, algorithm: Algorithm) -> Scenario:
        """Return the same scenario with another algorithm."""
        return dataclasses.replace(self, routing=dataclasses.replace(self.routing, algorithm=algorithm))


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file."""
    return read_scenario(read_toml(path), path.stem, path.parent)


def read_scenario(top: Table, name: str, directory: Path) -> Scenario:
    """Read a scenario from the top table of a file in ``directory``."""
    return _Reader(top, directory).scenario(name)


class _Reader:
    """Reads one scenario, and remembers the ids in it, which must be distinct."""

    def __init__(self, top: Table, directory: Path):
        self._top = top
        overlay_table = top.table("overlay")
        if overlay_table is None:
            raise top.error("expected an [overlay] table, got none")
        self._overlay = read_overlay(overlay_table, directory, PAPER_ROUTING)
        self._directory = directory
        self._places: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def scenario(self, default_name: str) -> Scenario:
        top = self._top
        clients = tuple(self._client(table) for table in top.tables("client"))
        links = tuple(self._link_change(table) for table in top.tables("link"))
        events = tuple(self._event(table) for table in top.tables("event"))
        scenario = Scenario(
            name=top.text("name", default_name),
            overlay=self._overlay,
            routing=read_routing(top.table("routing"), self._overlay.routing),
            clients=clients,
            links=links,
            events=events,
            simulator=self._simulator(top.table("simulator")),
        )
        top.finish()
        return scenario

    def _simulator(self, table: Table | None) -> SimulatorSettings:
        default = SimulatorSettings()
        if table is None:
            return default
        profile = table.text("profile", default.profile)
        return SimulatorSettings(
            # The path of a profile is relative to the scenario file, like that of an overlay.
            profile=str(self._directory / profile) if profile.endswith(".toml") else profile,
            seed=table.integer("seed", default.seed),
            links=table.choice("links", LinkModel, default.links),
            drop=_probability(table, "drop"),
            duplicate=_probability(table, "duplicate"),
            reorder=_probability(table, "reorder"),
            queue_capacity=table.integer("queue_capacity", default.queue_capacity, minimum=0),
            window_bytes=table.integer("window_bytes", default.window_bytes, minimum=1),
            client_queue_limit=table.integer("client_queue_limit", default.client_queue_limit, minimum=1),
        )

    def _client(self, table: Table) -> ClientSpec:
        name = table.text("name")
        if not name or name in self._numbers:
            raise table.error(f'expected a unique, non-empty client name, got "{name}"')
        self._numbers[name] = 0
        broker = read_broker(table, "broker", self._overlay.scot)
        ordered = table.boolean("ordered", default=False)
        advertised = [
            self._advertise(table, f"advertise number {number}", name, text, ordered)
            for number, text in enumerate(table.texts("advertise"), start=1)
        ]
        subscribed = [
            self._subscribe(table, f"subscribe number {number}", name, text)
            for number, text in enumerate(table.texts("subscribe"), start=1)
        ]
        return ClientSpec(name, broker, (*advertised, *subscribed))

    def _event(self, table: Table) -> Event:
        at_ms = table.number("at_ms", None, minimum=0)
        after_ms = table.number("after_ms", None, minimum=0)
        if at_ms is not None and after_ms is not None:
            raise table.error("expected at_ms or after_ms, got both")
        kinds = [key for key in _EVENT_KINDS if table.has(key)]
        if len(kinds) != 1:
            got = " and ".join(kinds) or "none of them"
            raise table.error(f"expected one of {', '.join(_EVENT_KINDS)}, got {got}")
        return Event(_EVENT_KINDS[kinds[0]](self, table), at_ms, after_ms)

    def _publish_event(self, table: Table) -> PublishItem:
        attributes = table.raw("publish")
        if not isinstance(attributes, dict):
            raise table.wrong("publish", "a table of attributes")
        flat: dict[str, Value] = {}
        for attribute, value in _flattened(attributes):
            if attribute in flat:
                raise table.error(f'expected every attribute once in publish, got "{attribute}" twice')
            flat[attribute] = value
        publication = _located(table, "publish", lambda: Publication(flat))
        return PublishItem(
            self._known_client(table),
            publication,
            count=table.integer("count", 1, minimum=1),
            every_ms=table.number("every_ms", 0.0, minimum=0),
        )

    def _advertise_event(self, table: Table) -> AdvertiseItem:
        client, given = self._known_client(table), table.text("id", None)
        ordered = table.boolean("ordered", default=False)
        return self._advertise(table, "advertise", client, table.text("advertise"), ordered, given)

    def _subscribe_event(self, table: Table) -> SubscribeItem:
        client, given = self._known_client(table), table.text("id", None)
        return self._subscribe(table, "subscribe", client, table.text("subscribe"), given)

    def _unadvertise_event(self, table: Table) -> UnadvertiseItem:
        return UnadvertiseItem(self._known_client(table), table.text("unadvertise"))

    def _unsubscribe_event(self, table: Table) -> UnsubscribeItem:
        return UnsubscribeItem(self._known_client(table), table.text("unsubscribe"))

    def _link_event(self, table: Table) -> LinkChange:
        link = table.table("link")
        assert link is not None
        return self._link_change(link)

    def _slow_event(self, table: Table) -> SlowItem:
        return SlowItem(self._known_client(table), table.number("slow", above=0))

    def _crash_event(self, table: Table) -> CrashItem:
        return CrashItem(read_broker(table, "crash", self._overlay.scot))

    def _restart_event(self, table: Table) -> RestartItem:
        return RestartItem(read_broker(table, "restart", self._overlay.scot))

    def _cut_event(self, table: Table) -> CutItem:
        return CutItem(read_neighbours(table, "cut", self._overlay.scot))

    def _heal_event(self, table: Table) -> HealItem:
        return HealItem(read_neighbours(table, "heal", self._overlay.scot))

    def _advertise(
        self, table: Table, key: str, client: str, text: str, ordered: bool, given: str | None = None
    ) -> AdvertiseItem:
        offer = _located(table, key, lambda: parse_filter(text))
        return AdvertiseItem(client, self._name(table, client, given), text, offer, ordered)

    def _subscribe(self, table: Table, key: str, client: str, text: str, given: str | None = None) -> SubscribeItem:
        interest = _located(table, key, lambda: parse_filter(text))
        return SubscribeItem(client, self._name(table, client, given), text, interest)

    def _name(self, table: Table, client: str, given: str | None) -> str:
        """Return the id of a client's next advertisement or subscription: the one ``given``, or the default."""
        number = self._numbers[client]
        self._numbers[client] += 1
        name = f"{client}/{number}" if given is None else given
        if name in self._places:
            raise table.error(f'expected a unique id, got "{name}", which is already used in {self._places[name]}')
        self._places[name] = table.place
        return name

    def _known_client(self, table: Table) -> str:
        client = table.text("client")
        if client not in self._numbers:
            known = ", ".join(self._numbers) or "(none)"
            raise table.error(f'expected client to be one of {known}, got "{client}"')
        return client

    def _link_change(self, table: Table) -> LinkChange:
        settings = ("congested", "queue_length", "rate", "delay_ms")
        if not [key for key in settings if table.has(key)]:
            raise table.error(f"expected one of {', '.join(settings)}, got none")
        return LinkChange(
            directions=read_link_ends(table, self._overlay.scot),
            verdict=_verdict(table),
            queue_length=table.integer("queue_length", None, minimum=0),
            shape=read_link_shape(table),
        )


_EVENT_KINDS: dict[str, Callable[[_Reader, Table], Item]] = {
    "publish": _Reader._publish_event,
    "subscribe": _Reader._subscribe_event,
    "advertise": _Reader._advertise_event,
    "unsubscribe": _Reader._unsubscribe_event,
    "unadvertise": _Reader._unadvertise_event,
    "link": _Reader._link_event,
    "slow": _Reader._slow_event,
    "crash": _Reader._crash_event,
    "restart": _Reader._restart_event,
    "cut": _Reader._cut_event,
    "heal": _Reader._heal_event,
}


def _verdict(table: Table) -> Verdict | None:
    match table.raw("congested", None):
        case None:
            return None
        case True:
            return Verdict.CONGESTED
        case False:
            return Verdict.FREE
        case "auto":
            return Verdict.AUTO
        case _:
            raise table.wrong("congested", 'true, false or "auto"')


def _probability(table: Table, key: str) -> float:
    value = table.number(key, 0.0, minimum=0)
    if value >= 1:
        raise table.wrong(key, "a probability of at least 0 and below 1")
    return value


def _flattened(attributes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the attributes of a publication; the keys of nested tables become dotted names."""
    for key, value in attributes.items():
        if isinstance(value, dict) and value:
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _located(table: Table, key: str, read: Callable[[], _T]) -> _T:
    """Call ``read``; add the place in the file to an error that it raises."""
    try:
        return read()
    except InvalidFile:
        raise
    except OctopiaError as error:
        raise InvalidFile(f"{table.place}, {key}: {error}") from None
