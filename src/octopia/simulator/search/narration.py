"""Descriptions of transitions, for the path to a violation."""

from __future__ import annotations

from octopia.protocol import Ack, Frame, Hello, Item
from octopia.protocol.messages import Data, Message, Version
from octopia.simulator.search.model import CUT, Kind, Model, State, Transition
from octopia.simulator.search.scenarios import CrashOf, CutOf, Fault, GraceOf, ImpostorOf, KillOf, ResendOver

_SHOWN = (
    "id",
    "cause",
    "count",
    "advertisements",
    "subscriptions",
    "unconfirmed",
    "wanted",
    "unwanted",
    "version",
    "stored",
    "complete",
    "handle",
    "sequence",
    "publication_civ",
    "detour",
    "congested",
    "down_alinks",
    "down_ilinks",
)
"""The fields of messages that matter to a reader."""


def describe(model: Model, state: State, transition: Transition) -> str:
    """Return a description of a transition."""
    which = transition.which
    match transition.kind:
        case Kind.ARRIVE:
            sender, receiver = model.channels[which]
            return f"{sender} > {receiver}  {_describe_item(model.stations.items[state.channels[which][0]])}"
        case Kind.ACT:
            client = model.scenario.clients[which]
            return f"{client.name} at {client.broker}  {_describe_message(client.actions[state.scripts[which]])}"
        case Kind.RETURN:
            client = model.scenario.clients[which]
            return f"{client.name} returns to {client.broker}"
        case Kind.NOTICE:
            broker, peer = model.channels[which]
            return f"{broker} notices that it has lost {peer}"
        case Kind.CONNECT:
            low, high = model.links[which]
            return f"{low} - {high}  {'is healed' if state.links[which] == CUT else 'has a new connection'}"
        case Kind.RESTART:
            return f"{model.brokers[which]} is restarted"
        case Kind.FAULT:
            return _describe_fault(model.scenario.faults[which])


def _describe_fault(fault: Fault) -> str:
    match fault:
        case CrashOf():
            return f"{fault.broker} crashes"
        case CutOf():
            return f"{fault.low} - {fault.high}  is cut"
        case ResendOver():
            return f"{fault.sender} > {fault.receiver}  resends unacknowledged frames"
        case GraceOf():
            return f"{fault.broker} reaches the end of its grace period"
        case KillOf():
            return f"{fault.client} dies"
        case ImpostorOf():
            age = "newer" if fault.is_newer else "older"
            return f"{fault.neighbour} is greeted by a second {fault.broker}, with a {age} incarnation"


def _describe_item(item: Item) -> str:
    match item:
        case Frame():
            return f"{item.sequence}: {_describe_message(item.message)}"
        case Ack():
            return f"Ack of {item.accepted}{'' if item.grant.window_bytes else ', no credit'}"
        case Hello():
            return f"Hello of incarnation {item.incarnation}, accepted {item.accepted}"


def _describe_message(message: Message) -> str:
    fields = message.__match_args__ if isinstance(message, Data) else getattr(message, "__struct_fields__", ())
    values = [getattr(message, name) for name in fields if name in _SHOWN]
    return " ".join([type(message).__name__, *(_describe_value(each) for each in values if each is not None)])


def _describe_value(value: object) -> str:
    match value:
        case bool():
            return "complete" if value else "incomplete"
        case tuple():
            return f"[{', '.join(map(_describe_value, value))}]"
        case Version():
            return f"v{value.incarnation}.{value.number}"
        case _:
            return str(value)
