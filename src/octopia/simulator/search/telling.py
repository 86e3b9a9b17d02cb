"""Transitions in words, for people who read the way to a violation."""

from __future__ import annotations

from octopia.protocol import Ack, Frame, Hello, Item
from octopia.protocol.messages import Message, Version
from octopia.simulator.search.model import CUT, Kind, Model, State, Transition
from octopia.simulator.search.scenarios import CrashOf, CutOf, Fault, GraceOf, ImpostorOf, KillOf, ResendOver

_TOLD = (
    "id",
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
)
"""The fields of messages that matter to a reader."""


def tell(model: Model, state: State, transition: Transition) -> str:
    """Say in words what happens in a transition."""
    which = transition.which
    match transition.kind:
        case Kind.ARRIVE:
            sender, receiver = model.channels[which]
            return f"{sender} > {receiver}  {_tell_item(model.stations.items[state.channels[which][0]])}"
        case Kind.ACT:
            client = model.scenario.clients[which]
            return f"{client.name} at {client.broker}  {_tell_message(client.actions[state.scripts[which]])}"
        case Kind.RETURN:
            client = model.scenario.clients[which]
            return f"{client.name} comes back to {client.broker}"
        case Kind.NOTICE:
            broker, peer = model.channels[which]
            return f"{broker} notices that it has lost {peer}"
        case Kind.CONNECT:
            low, high = model.links[which]
            return f"{low} - {high}  {'is healed' if state.links[which] == CUT else 'has a new connection'}"
        case Kind.RESTART:
            return f"{model.brokers[which]} is started again"
        case Kind.FAULT:
            return _tell_fault(model.scenario.faults[which])


def _tell_fault(fault: Fault) -> str:
    match fault:
        case CrashOf():
            return f"{fault.broker} crashes"
        case CutOf():
            return f"{fault.low} - {fault.high}  is cut"
        case ResendOver():
            return f"{fault.sender} > {fault.receiver}  what is not acknowledged is written again"
        case GraceOf():
            return f"{fault.broker} ends its grace period"
        case KillOf():
            return f"{fault.client} dies"
        case ImpostorOf():
            age = "newer" if fault.is_newer else "older"
            return f"{fault.neighbour} is greeted by a second {fault.broker}, with a {age} incarnation"


def _tell_item(item: Item) -> str:
    match item:
        case Frame():
            return f"{item.sequence}: {_tell_message(item.message)}"
        case Ack():
            return f"Ack of {item.accepted}{'' if item.grant.window_bytes else ', no credit'}"
        case Hello():
            return f"Hello of incarnation {item.incarnation}, accepted {item.accepted}"


def _tell_message(message: Message) -> str:
    values = [getattr(message, name) for name in getattr(message, "__struct_fields__", ()) if name in _TOLD]
    return " ".join([type(message).__name__, *(_tell_value(each) for each in values if each is not None)])


def _tell_value(value: object) -> str:
    match value:
        case bool():
            return "complete" if value else "incomplete"
        case tuple():
            return f"[{', '.join(map(_tell_value, value))}]"
        case Version():
            return f"v{value.incarnation}.{value.number}"
        case _:
            return str(value)
