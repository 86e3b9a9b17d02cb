"""The broker's side of operators: answers to their commands.

``client.operators`` is the other side. Brokers accept operators with a token of that role, or, if they have no tokens,
from their own machine only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from octopia.algorithms import Inspection
from octopia.content import Publication
from octopia.errors import PeerError, UsageError
from octopia.ids import BrokerId
from octopia.node import Permissions
from octopia.overlay import LinkShape
from octopia.protocol import Answer, CloseCode, Command, Verb, WireItem
from octopia.protocol.handshake import REASON_LENGTH_MAX
from octopia.runtime.inspecting import list_civs, list_clients, list_tables
from octopia.settings import Limit
from octopia.transport import Connection
from octopia.transport.settings import DELAY_LIMIT_MS

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer

IDLE_S = 60.0
"""The time without a command after which the connection of a client that asks is closed."""
_FOR_CLIENTS = (Verb.PING, Verb.OVERLAY)


class Desk:
    """The broker's side of an operator's connection; ``permissions`` are those of its token, if it needs one.

    A client may ask what it needs for its own work: the addresses of brokers, and whether anybody wants what it
    publishes. Its connections of this kind are few, and do not stay open without a command.
    """

    def __init__(self, server: BrokerServer, connection: Connection, permissions: Permissions | None = None):
        self._server = server
        self.permissions = permissions
        self._idle: asyncio.TimerHandle | None = None
        if self.client_holder:
            server.admission.desk_opened(self.client_holder)
            self._expect_command(connection)

    @property
    def client_holder(self) -> str:
        """The holder of the token if it is that of a client, otherwise an empty string."""
        return "" if self.permissions is None or self.permissions.is_operator else self.permissions.holder

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Answer each command."""
        for item in items:
            if not isinstance(item, Command):
                self._server.refuse(connection, CloseCode.VIOLATION, f"expected a Command, got {type(item).__name__}")
                return
            connection.send([answer(self._server, item, self.permissions)])
        if self.client_holder:
            self._expect_command(connection)

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing: answers are few."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Forget the connection: brokers keep no other state of operators."""
        self._server.forget_guest(connection)
        if self._idle is not None:
            self._idle.cancel()
            self._server.admission.desk_closed(self.client_holder)

    def _expect_command(self, connection: Connection) -> None:
        if self._idle is not None:
            self._idle.cancel()
        reason = f"expected a command within {IDLE_S:g} s"
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(IDLE_S, connection.close, CloseCode.TIMEOUT, reason)


def _refusal_of(permissions: Permissions, command: Command) -> str:
    """Return why the holder of a token may not send a command, or an empty string."""
    if permissions.is_operator or command.verb in _FOR_CLIENTS:
        return ""
    if command.verb is not Verb.WANTED:
        return f"expected the token of an operator, got {permissions.holder}, which is that of a client"
    return permissions.refusal_to_publish(Publication(command.attributes))


def answer(server: BrokerServer, command: Command, permissions: Permissions | None = None) -> Answer:
    """Carry out a command if it is permitted, and return the report or the problem."""
    try:
        if permissions is not None and (refusal := _refusal_of(permissions, command)):
            return Answer(problem=refusal)
        return _carry_out(server, command)
    except UsageError as error:
        return Answer(problem=str(error)[:REASON_LENGTH_MAX])


def _carry_out(server: BrokerServer, command: Command) -> Answer:
    match command.verb:
        case Verb.REPORT:
            return Answer(report_on(server))
        case Verb.OVERLAY:
            return Answer(_describe_overlay(server))
        case Verb.THROTTLE | Verb.CUT | Verb.HEAL:
            return _change_link(server, command)
        case Verb.PING:
            return Answer({"id": str(server.id), "incarnation": server.incarnation})
        case Verb.CLIENTS:
            return Answer(list_clients(server, command))
        case Verb.TABLES:
            return Answer(list_tables(server, command))
        case Verb.CIVS:
            return Answer(list_civs(server))
        case Verb.ROUTE:
            return _route(server, command)
        case Verb.WATCH:
            server.watches.begin(command.payload, command.seconds)
            return Answer()
        case Verb.WATCHED:
            return Answer({"steps": server.watches.steps(command.payload)})
        case Verb.UNWATCH:
            server.watches.end(command.payload)
            server.carry_out()
            return Answer()
        case Verb.WANTED:
            return Answer({"wanted": Inspection(server.broker).is_wanted(Publication(command.attributes))})


def _describe_overlay(server: BrokerServer) -> dict[str, Any]:
    tree = server.overlay.scot.tree
    return {
        "name": server.overlay.name,
        "tree": ", ".join(f"{low}-{high}" for low, high in tree.edges) or tree.regions[0],
        "clusters": server.overlay.scot.clusters,
        "brokers": {str(broker): (address.host, address.port) for broker, address in server.addresses.items()},
        "problems": server.problems(),
    }


def _change_link(server: BrokerServer, command: Command) -> Answer:
    peer = BrokerId.parse(command.broker) if command.broker else None
    if peer is None or peer not in server.lines:
        neighbours = ", ".join(map(str, server.lines))
        return Answer(problem=f"expected a neighbour of {server.id} ({neighbours}), got {command.broker or 'none'}")
    line = server.lines[peer]
    if command.verb is not Verb.THROTTLE and server.overlay.routing.algorithm.is_tid:
        return Answer(problem="expected a link that may fail, got one of TID-based routing, which does not recover")
    if command.verb is Verb.CUT:
        line.cut()
    elif command.verb is Verb.HEAL:
        line.heal()
    elif (command.delay_ms or 0.0) >= DELAY_LIMIT_MS:
        got = f"got {command.delay_ms:g}: a link that is silent for longer counts as broken"
        return Answer(problem=f"expected a delay below {DELAY_LIMIT_MS:g} ms, {got}")
    else:
        server.set_shape(peer, LinkShape(command.rate, command.delay_ms))
    shape = line.shaper.shape
    ends = {"from": str(server.id), "to": str(peer)}
    return Answer({**ends, "rate": shape.rate, "delay_ms": shape.delay_ms, "cut": line.is_cut})


def _route(server: BrokerServer, command: Command) -> Answer:
    if command.algorithm is None:
        return Answer(problem=f"expected an algorithm ({', '.join(server.broker.algorithms)}), got none")
    server.broker.route_by(command.algorithm)
    return Answer({"id": str(server.id), "routing": str(server.broker.algorithm)})


def report_on(server: BrokerServer) -> dict[str, Any]:
    """Return the report of a broker."""
    broker = server.broker
    counters = broker.counters
    now_ms = server.now_ms()
    congested = {peer: status.congested for peer, status in broker.link_status_table(now_ms).items()}
    counted = broker.link_counters(now_ms)
    return {
        "id": str(server.id),
        "incarnation": server.incarnation,
        "ready": broker.accepts_data,
        "routing": str(broker.algorithm),
        "algorithms": [str(each) for each in broker.algorithms],
        "clients": len(server.node.clients),
        "published": broker.published,
        "delivered": counters.delivered,
        "delays": server.delays.to_json(),
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
                "cut": server.lines[peer].is_cut,
                "queue": broker.waits_for(peer),
                "congested": congested[peer],
                "sent": counted[peer].sent,
                "rerouted": counted[peer].rerouted,
                "congested_ms": round(counted[peer].congested_ms, 3),
                "dropped": counted[peer].dropped,
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
