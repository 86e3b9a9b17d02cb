"""What several tests share: filters and publications in few letters, brokers driven by hand, scenarios from text."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from octopia.broker import Broker, BrokerSettings, Detail, Effects, OctopiaBroker, Told, Verdict
from octopia.content import Publication, Value, parse_filter
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, PublicationId, SubscriptionId
from octopia.overlay import Scot, parse_tree
from octopia.protocol.messages import (
    Advertise,
    AdvertiseRequest,
    ClientRequest,
    Deliver,
    Message,
    Publish,
    PublishRequest,
    Subscribe,
    SubscribeRequest,
)
from octopia.scenario import Scenario, read_scenario
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.record import Hop
from octopia.simulator.run import Run, run_scenario
from octopia.tomlfile import Table
from octopia.trace import Deliveries, Row

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

at = BrokerId.parse


def pub(**attributes: Value) -> Publication:
    """Make a publication."""
    return Publication(attributes)


def make_settings(
    algorithm: str = "dynamic",
    tau: float = 10.0,
    window_ms: float = 50.0,
    hop_limit: int = 255,
    queue_capacity: int = 0,
    detail: Detail = Detail.OFF,
    *,
    confirmations: bool = False,
    slice_max: int = 500,
) -> BrokerSettings:
    """Make the settings of a broker from whatever a test cares about; others keep to the paper's messages."""
    routing = RoutingSettings(Algorithm(algorithm), tau, window_ms, confirmations)
    return BrokerSettings(
        routing,
        hop_limit=hop_limit,
        queue_capacity=queue_capacity,
        slice_max=slice_max,
        detail=detail,
    )


def make_broker(
    name: str, tree: str = "a-b, b-c", clusters: int = 3, incarnation: int = 1, **settings: Any
) -> OctopiaBroker:
    """Make one broker of an overlay; without further words it is a middle one of three regions and clusters."""
    neighbourhood = Scot(parse_tree(tree), clusters).neighbourhood(at(name))
    return OctopiaBroker(neighbourhood, make_settings(**settings), incarnation)


def advertise(host: str, number: int, text: str) -> Advertise:
    """Make an advertisement as the host broker sends it."""
    return Advertise(AdvertisementId(at(host), 1, number), parse_filter(text))


def subscribe(host: str, number: int, text: str) -> Subscribe:
    """Make a subscription as it travels through the host cluster."""
    return Subscribe(SubscriptionId(at(host), 1, number), parse_filter(text))


def publish(host: str, number: int, civ: Any = None, hop: int = 1, **attributes: Value) -> Publish:
    """Make a publication on its way."""
    return Publish(PublicationId(at(host), 1, number), pub(**attributes), civ, hop, 0.0)


def offer(handle: int, text: str, *, ordered: bool = False) -> AdvertiseRequest:
    """Make a publisher's request to advertise."""
    return AdvertiseRequest(handle, parse_filter(text), ordered)


def want(handle: int, text: str) -> SubscribeRequest:
    """Make a subscriber's request to subscribe."""
    return SubscribeRequest(handle, parse_filter(text))


def say(sequence: int, **attributes: Value) -> PublishRequest:
    """Make a publisher's request to publish."""
    return PublishRequest(sequence, pub(**attributes), 0.0)


def take_all(broker: Broker, peer: str | Peer, now_ms: float = 0.0) -> list[Message]:
    """Take everything that waits for a neighbour (by its name) or a client."""
    target = at(peer) if isinstance(peer, str) else peer
    if isinstance(target, ClientId):
        return mail_of(broker, target)
    taken: list[Message] = []
    while (message := broker.take(target, now_ms)) is not None:
        taken.append(message)
    return taken


_MAIL: dict[int, tuple[Broker, dict[ClientId, tuple[list[Message], list[Message]]]]] = {}
"""The replies of brokers that tests have not looked at, by broker and client: answers, then deliveries."""


def mail_of(broker: Broker, client: ClientId) -> list[Message]:
    """Take the replies for a client, as a node would send them: answers first."""
    _, boxes = _MAIL.setdefault(id(broker), (broker, {}))
    for entry in broker.drain_for_clients():
        if isinstance(entry, Told):
            boxes.setdefault(entry.client, ([], []))[0].append(entry.reply)
            continue
        copy = entry.copy
        for each, handles in entry.plan:
            delivery = Deliver(copy.id, copy.publication, handles, copy.hop, copy.published_ms)
            boxes.setdefault(each, ([], []))[1].append(delivery)
    answers, deliveries = boxes.pop(client, ([], []))
    return answers + deliveries


def client_at(broker: Broker, name: str) -> ClientId:
    """Return the client of that name at a broker."""
    return next(each for each in broker.state.clients if each.name == name)


def sent_by(broker: OctopiaBroker, now_ms: float = 0.0) -> dict[str, list[Message]]:
    """Take everything that waits for neighbours; those with nothing are left out."""
    hood = broker.state.neighbourhood
    neighbours = (*hood.primary_neighbours, *hood.secondary_neighbours)
    return {str(each): taken for each in neighbours if (taken := take_all(broker, each, now_ms))}


def join(broker: Broker, name: str, *requests: ClientRequest) -> ClientId:
    """Attach a client and let it ask for things."""
    client = ClientId(name)
    assert broker.attach(client, 0.0).violation is None
    if requests:
        assert broker.receive(client, requests, 0.0).violation is None
    return client


class HandDriven:
    """An overlay of brokers between which nothing moves unless a test says so."""

    def __init__(self, tree: str, clusters: int, **settings: Any):
        self.scot = Scot(parse_tree(tree), clusters)
        self.brokers = {str(each): make_broker(str(each), tree, clusters, **settings) for each in self.scot.brokers}
        self.homes: dict[str, str] = {}
        self.carried: list[tuple[str, str, Message]] = []
        self._links = sorted(
            (str(one), str(other))
            for low, high in (*self.scot.alinks, *self.scot.ilinks)
            for one, other in ((low, high), (high, low))
        )

    def ask(self, client: str, broker: str, *requests: ClientRequest) -> Effects:
        """Let a client, attached on its first word, ask something of its host broker."""
        if client not in self.homes:
            self.homes[client] = broker
            join(self.brokers[broker], client)
        return self.brokers[broker].receive(ClientId(client), requests, 0.0)

    def carry(self, source: str, target: str) -> list[Message]:
        """Bring all that waits at ``source`` for ``target`` there."""
        batch = take_all(self.brokers[source], target)
        self.carried += [(source, target, message) for message in batch]
        if batch:
            assert self.brokers[target].receive(at(source), batch, 0.0).violation is None
        return batch

    def settle(self) -> None:
        """Carry until nothing is left to carry."""
        while True:
            carried = [self.carry(*link) for link in self._links]
            if not any(carried):
                return

    def received(self, client: str) -> list[Message]:
        """Take what waits for a client."""
        return take_all(self.brokers[self.homes[client]], ClientId(client))

    def force(self, source: str, target: str, *, congested: bool = True, queue_length: int | None = None) -> None:
        """Force the verdict about both directions of a link."""
        verdict = Verdict.CONGESTED if congested else Verdict.FREE
        self.brokers[source].force(at(target), verdict, queue_length, 0.0)
        self.brokers[target].force(at(source), verdict, queue_length, 0.0)


@dataclasses.dataclass(frozen=True, slots=True)
class FakeView:
    """What routing may see of a broker of region ``b``, made up: queue lengths, and which links are congested."""

    lengths: dict[str, int] = dataclasses.field(default_factory=dict)
    full: tuple[str, ...] = ()

    def ilink(self, cluster: int) -> BrokerId:
        """Return the secondary neighbour in ``cluster``."""
        return BrokerId("b", cluster)

    def congested(self, link: BrokerId) -> bool:
        """Tell whether a link was declared congested."""
        return str(link) in self.full

    def queue_length(self, link: BrokerId) -> int:
        """Return the made-up length of a queue."""
        return self.lengths.get(str(link), 0)


def scenario_from(text: str, directory: Path = Path()) -> Scenario:
    """Read a scenario from TOML text."""
    return read_scenario(Table(tomllib.loads(text), "scenario.toml"), "scenario", directory)


def run_text(text: str, **options: Any) -> Run:
    """Run a scenario given as TOML text, with every invariant checked after every step."""
    return run_scenario(scenario_from(text), check=True, **options)


def hop_text(hop: Hop) -> str:
    """Write a hop as the worked examples do: ``b.3>b.1[0001]``, or ``b.3>b.1[0000 c:1010]``."""
    return str(hop)


def hops_of(run: Run, publication: int) -> list[str]:
    """Return the hops of one publication."""
    return [hop_text(hop) for hop in run.recorder.hops if hop.publication == publication]


def received_by(run: Run, publication: int) -> list[str]:
    """Return the clients that received a publication, sorted."""
    return sorted(each.client for each in run.recorder.deliveries if each.publication == publication)


async def turn() -> None:
    """Wait until the event loop has gone round once."""
    loop = asyncio.get_running_loop()
    gone_round = loop.create_future()
    loop.call_soon(gone_round.set_result, None)
    await gone_round


class RowList:
    """A trace sink that keeps rows in memory."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def write(self, row: Row) -> None:
        self.rows.append(row)

    def deliver(self, batch: Deliveries) -> None:
        self.rows += batch.rows()

    def close(self) -> None:
        """Do nothing: the rows are in memory."""


def load_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a program of ``benchmarks`` for one test."""
    spec = importlib.util.spec_from_file_location(f"benchmark_of_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
