"""Commands of operators to running brokers: reports, addresses, and the shape of links.

An operator connects like a client and sends one command after another. Brokers accept operators from their own machine
only.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from octopia.addresses import Address
from octopia.errors import NetworkError, PeerError, RequestRefused, Unavailable
from octopia.ids import BrokerId
from octopia.overlay import LinkShape
from octopia.protocol import Answer, CloseCode, Command, Opening, Role, Verb, WireItem
from octopia.settings import Limit
from octopia.transport import Connection
from octopia.transport.settings import DELAY_LIMIT_MS

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer

ANSWER_S = 5.0
"""The time limit for an answer to an operator."""


class Desk:
    """The broker's side of an operator's connection."""

    def __init__(self, server: BrokerServer):
        self._server = server

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Answer each command."""
        for item in items:
            if not isinstance(item, Command):
                self._server.refuse(connection, CloseCode.VIOLATION, f"expected a Command, got {type(item).__name__}")
                return
            connection.send([_answer(self._server, item)])

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing: answers are few."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Do nothing: brokers keep no state of operators."""
        self._server.forget_guest(connection)


def _answer(server: BrokerServer, command: Command) -> Answer:
    match command.verb:
        case Verb.REPORT:
            return Answer(report_on(server))
        case Verb.OVERLAY:
            return Answer(_describe_overlay(server))
        case Verb.THROTTLE:
            return _throttle(server, command)


def _describe_overlay(server: BrokerServer) -> dict[str, Any]:
    tree = server.overlay.scot.tree
    return {
        "name": server.overlay.name,
        "tree": ", ".join(f"{low}-{high}" for low, high in tree.edges) or tree.regions[0],
        "clusters": server.overlay.scot.clusters,
        "brokers": {str(broker): (address.host, address.port) for broker, address in server.addresses.items()},
        "problems": server.problems(),
    }


def _throttle(server: BrokerServer, command: Command) -> Answer:
    peer = BrokerId.parse(command.broker) if command.broker else None
    if peer is None or peer not in server.lines:
        neighbours = ", ".join(map(str, server.lines))
        return Answer(problem=f"expected a neighbour of {server.id} ({neighbours}), got {command.broker or 'none'}")
    if (command.delay_ms or 0.0) >= DELAY_LIMIT_MS:
        return Answer(problem=f"expected a delay below {DELAY_LIMIT_MS:g} ms, after which a link counts as broken")
    server.set_shape(peer, LinkShape(command.rate, command.delay_ms))
    shape = server.lines[peer].shaper.shape
    return Answer({"from": str(server.id), "to": str(peer), "rate": shape.rate, "delay_ms": shape.delay_ms})


def report_on(server: BrokerServer) -> dict[str, Any]:
    """Return the report of a broker."""
    broker = server.broker
    counters = broker.counters
    congested = {peer: status.congested for peer, status in broker.link_status_table(server.now_ms()).items()}
    return {
        "id": str(server.id),
        "incarnation": server.incarnation,
        "ready": broker.accepts_data,
        "clients": len(server.node.clients),
        "limits": _limits_of(server),
        "tables": broker.table_sizes(),
        "sent": {str(kind): count for kind, count in counters.sent.items()},
        "losses": {
            str(cause): {"publications": counters.lost[cause], "occasions": times}
            for cause, times in counters.occasions.items()
            if times
        },
        "cases": {str(case): count for case, count in counters.cases.items()},
        "rerouted": counters.detours + sum(counters.cases.values()),
        "stranded": broker.stranded,
        "links": {
            str(peer): {
                "kind": str(server.overlay.scot.link_kind(server.id, peer)),
                "up": link.is_up,
                "open": link.carries_data,
                "queue": broker.waits_for(peer),
                "congested": congested[peer],
                "dropped": link.session.dropped_unacknowledged if link.session is not None else 0,
                "rate": server.lines[peer].shaper.shape.rate,
                "delay_ms": server.lines[peer].shaper.shape.delay_ms,
            }
            for peer, link in server.node.links.items()
        },
    }


def _limits_of(server: BrokerServer) -> dict[str, dict[str, float]]:
    """Return each limit with its use: for a rate, the number of clients that it holds back now."""
    node, admission = server.node, server.admission
    subscriptions, advertisements = server.broker.most_issued()
    used = {
        Limit.CLIENTS: len(node.clients),
        Limit.SUBSCRIPTIONS: subscriptions,
        Limit.ADVERTISEMENTS: advertisements,
        Limit.PUBLICATION_RATE: node.held_back(Limit.PUBLICATION_RATE),
        Limit.BYTE_RATE: node.held_back(Limit.BYTE_RATE),
        Limit.ADDRESS: admission.most_from_one_address,
        Limit.GREETING: admission.greeting,
        Limit.MEMORY: node.held_bytes,
    }
    limits, reached = server.overlay.limits, server.limits_reached
    return {limit.value: {"limit": limit.of(limits), "used": used[limit], "reached": reached[limit]} for limit in Limit}


def is_connected(report: dict[str, Any]) -> bool:
    """Return whether a broker accepts publications and all of its links are up."""
    return bool(report["ready"]) and all(link["up"] for link in report["links"].values())


class _Asker:
    """The operator's side of a connection, which waits for one answer at a time."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.answers: asyncio.Queue[Answer | None] = asyncio.Queue()
        self.reason: PeerError | None = None

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        for item in items:
            if isinstance(item, Opening) and not self.opened.done():
                connection.opened()
                self.opened.set_result(item.sender)
            elif isinstance(item, Answer):
                self.answers.put_nowait(item)

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing: commands are few."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        self.reason = reason
        self.answers.put_nowait(None)
        if not self.opened.done():
            self.opened.set_exception(reason or Unavailable("the connection was closed before the broker answered"))


async def ask(address: Address, *commands: Command) -> list[dict[str, Any]]:
    """Send commands to a broker, and return its reports."""
    loop, asker = asyncio.get_running_loop(), _Asker()
    try:
        _, connection = await loop.create_connection(lambda: Connection(asker), address.host, address.port)
    except OSError as error:
        raise Unavailable(
            f"no broker answers at {address} ({error.strerror or error}): is one running? Start one with `octopia up`"
        ) from None
    connection.expect_opening()
    connection.send([Opening(Role.OPERATOR, "operator")])
    try:
        await asker.opened
        connection.send(commands)
        return [_report(await asyncio.wait_for(asker.answers.get(), ANSWER_S), asker) for _ in commands]
    except TimeoutError:
        raise Unavailable(f"the broker at {address} does not answer") from None
    finally:
        connection.close(CloseCode.DONE)


def _report(answer: Answer | None, asker: _Asker) -> dict[str, Any]:
    if answer is None:
        raise asker.reason or Unavailable("the broker closed the connection")
    if answer.problem:
        raise RequestRefused(answer.problem)
    return answer.report


@dataclasses.dataclass(frozen=True, slots=True)
class OverlayStatus:
    """The state of a running overlay: the reports of the brokers that answered, and why the others did not."""

    name: str
    tree: str
    clusters: int
    brokers: tuple[str, ...]
    reports: dict[str, dict[str, Any]]
    problems: dict[str, str]

    @property
    def is_whole(self) -> bool:
        """True if all brokers run and are connected to all of their neighbours."""
        return not self.problems and all(map(is_connected, self.reports.values()))


async def ask_overlay(anybody: Address) -> tuple[dict[str, Any], dict[str, Address]]:
    """Ask one broker for its overlay; return the answer, and the addresses of all brokers by name."""
    (overlay,) = await ask(anybody, Command(Verb.OVERLAY))
    return overlay, {name: Address(*place) for name, place in overlay["brokers"].items()}


async def ask_status(anybody: Address) -> OverlayStatus:
    """Ask one broker for its overlay, and then all brokers for their reports."""
    overlay, addresses = await ask_overlay(anybody)
    reports: dict[str, dict[str, Any]] = {}
    known, problems = overlay["problems"], dict[str, str]()

    async def collect(broker: str, address: Address) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                [reports[broker]] = await ask(address, Command(Verb.REPORT))
        except (NetworkError, TimeoutError):
            problems[broker] = known.get(broker, "not running")
        except PeerError as error:
            problems[broker] = known.get(broker, str(error))

    await asyncio.gather(*(collect(broker, address) for broker, address in addresses.items()))
    return OverlayStatus(overlay["name"], overlay["tree"], overlay["clusters"], tuple(addresses), reports, problems)
