"""Permissions at a node: what a client may advertise, publish, subscribe to and see."""

from __future__ import annotations

import pytest
from node_support import Rig

from octopia.content import Publication, Value, parse_filter
from octopia.node import Permissions
from octopia.node.permissions import EVERYTHING
from octopia.protocol import Grant, Hello, Overflow
from octopia.protocol.messages import Deliver, Message, Produced, ProduceRequest, Refused
from support import offer, publish, say, want

FEED = Permissions("feed", advertise=parse_filter("symbol = 'IBM' AND price > 0"))
READER = Permissions("reader", read=parse_filter("symbol IN ('IBM', 'SAP')"), hide=("account",))


def admitted(rig: Rig, name: str, permissions: Permissions | None, *messages: Message) -> list[Message]:
    """Let a client with permissions greet a node and say something; return what it is told."""
    rig.join(name)
    link = rig.node.clients[rig.ids[name]]
    link.permissions = permissions
    rig.tell(name, *messages)
    rig.settle()
    return rig.told(name)


def refused(told: list[Message]) -> list[str]:
    return [each.reason for each in told if isinstance(each, Refused)]


@pytest.mark.parametrize(
    "wider", ["price > 0", "symbol = 'IBM'", "symbol = 'IBM' AND price > -1", "symbol = 'SAP' AND price > 1", "TRUE"]
)
def test_an_advertisement_beyond_the_filter_is_refused(wider: str):
    rig = Rig()
    [reason] = refused(admitted(rig, "P", FEED, offer(0, wider)))
    assert reason.startswith("the token feed may advertise only what is within (symbol = 'IBM' AND price > 0): add ")
    assert rig.node.broker.table_sizes()["clt"] == 0


@pytest.mark.parametrize(
    ("wider", "lacking"),
    [("price > 0", "symbol = 'IBM'"), ("symbol = 'IBM'", "price > 0"), ("TRUE", "symbol = 'IBM' AND price > 0")],
)
def test_the_reason_says_what_an_advertisement_lacks(wider: str, lacking: str):
    [reason] = refused(admitted(Rig(), "P", FEED, offer(0, wider)))
    assert reason.endswith(f": add {lacking}")


@pytest.mark.parametrize(
    ("attributes", "end"),
    [
        ({"symbol": "IBM", "price": -1}, "expected price > 0, got price = -1"),
        ({"symbol": "IBM"}, "expected price > 0, got no price"),
        ({"symbol": "SAP", "price": 1}, "expected symbol = 'IBM', got symbol = 'SAP'"),
    ],
)
def test_the_reason_names_the_condition_that_a_publication_fails(attributes: dict[str, Value], end: str):
    reason = FEED.refusal_to_publish(Publication(attributes))
    assert reason == f"the token feed may publish only what matches (symbol = 'IBM' AND price > 0): {end}"
    assert FEED.refusal_to_publish(Publication({"symbol": "IBM", "price": 1})) == ""


def test_reasons_are_bounded():
    large = "x" * 3_000
    held = Permissions("held", advertise=parse_filter(f"a = '{large}'"))
    assert len(held.refusal_to_publish(Publication({"a": large + "y"}))) < 700
    [reason] = refused(admitted(Rig(), "P", held, offer(0, "a = 'z'")))
    assert len(reason) < 700


def test_a_narrower_advertisement_is_accepted():
    rig = Rig()
    told = admitted(rig, "P", FEED, offer(0, "symbol = 'IBM' AND price > 5 AND volume IS NOT NULL"))
    assert refused(told) == []
    assert rig.node.broker.table_sizes()["clt"] == 1


def test_a_publication_that_conforms_but_does_not_match_the_filter_is_refused_and_takes_no_credit():
    """Declared attributes may be missing from a publication, but not those that the permission asks for."""
    rig = Rig()
    said = [offer(0, "symbol = 'IBM' AND price > 5"), say(1, price=6), say(2, symbol="IBM", price=6)]
    told = admitted(rig, "P", FEED, *said)
    assert [each.number for each in told if isinstance(each, Refused)] == [1]
    assert rig.node.broker.counters.refused == 1
    [entry] = rig.node.broker.state.clt
    session = rig.node.clients[rig.ids["P"]].session
    assert session is not None
    assert not session.owes_credit
    assert entry.offer == parse_filter("symbol = 'IBM' AND price > 5")


def test_a_subscription_is_narrowed_by_the_read_filter():
    rig = Rig()
    told = admitted(rig, "S", READER, want(0, "price > 100"))
    assert refused(told) == []
    [entry] = rig.node.broker.state.prt
    assert entry.interest == parse_filter("price > 100 AND symbol IN ('IBM', 'SAP')")


@pytest.mark.parametrize("text", ["account = 'x'", "price > 1 OR account IS NULL", "account IS NOT NULL AND price > 1"])
def test_a_filter_on_a_hidden_attribute_is_refused(text: str):
    rig = Rig()
    [reason] = refused(admitted(rig, "S", READER, want(0, text)))
    assert reason == "expected a filter without attributes that the token hides, got account"
    assert rig.node.broker.table_sizes()["prt"] == 0


def test_a_filter_that_is_too_large_with_the_read_filter_is_refused():
    many = " OR ".join(f"x = {n} AND y = {n}" for n in range(24))
    wide = Permissions("wide", read=parse_filter(many))
    [reason] = refused(admitted(Rig(), "S", wide, want(0, many.replace("x", "z"))))
    assert reason.startswith("the filter is too large together with the read filter of the token")


def test_without_filters_nothing_is_allowed():
    rig = Rig()
    nothing = Permissions("nobody")
    told = admitted(rig, "N", nothing, offer(0, "x > 0"), want(1, "x > 0"))
    assert refused(told) == ["the token nobody may not publish", "the token nobody may not read"]
    rig.meet("a.0", "c.0", "b.1", "b.2")
    rig.tell("a.0", publish("a.0", 0, x=1))
    rig.settle()
    assert not any(isinstance(each, Deliver) for each in rig.told("N"))


def delivered(rig: Rig, name: str) -> list[Deliver]:
    return [each for each in rig.told(name) if isinstance(each, Deliver)]


def test_hidden_attributes_are_removed_from_the_deliveries_of_one_client_only():
    rig = Rig()
    rig.meet("a.0", "c.0", "b.1", "b.2")
    admitted(rig, "R", READER, want(0, "TRUE"))
    admitted(rig, "S", None, want(0, "TRUE"))
    silent = Permissions("silent", read=EVERYTHING, hide=("account",), hide_payload=True)
    admitted(rig, "Q", silent, want(0, "TRUE"))
    whole = Publication({"symbol": "IBM", "account": "x", "price": 1}, b"secret")
    copy = publish("a.0", 0, symbol="IBM")
    rig.tell("a.0", type(copy)(copy.id, whole, None, 0, 0.0))
    rig.settle()
    [seen] = delivered(rig, "R")
    assert seen.publication == Publication({"symbol": "IBM", "price": 1}, b"secret")
    assert [each.publication for each in delivered(rig, "S")] == [whole]
    assert [each.publication for each in delivered(rig, "Q")] == [Publication({"symbol": "IBM", "price": 1})]
    assert seen.size_bytes < copy.size_bytes + whole.size


def test_a_publication_of_which_nothing_is_left_is_not_delivered():
    rig = Rig()
    rig.meet("a.0", "c.0", "b.1", "b.2")
    admitted(rig, "R", Permissions("r", read=EVERYTHING, hide=("account",)), want(0, "TRUE"))
    rig.tell("a.0", publish("a.0", 0, account="x"), publish("a.0", 1, account="x", y=1))
    rig.settle()
    assert [dict(each.publication.attributes) for each in delivered(rig, "R")] == [{"y": 1}]


def test_a_slow_client_with_hidden_attributes_is_cut_off_like_any_other():
    rig = Rig()
    rig.meet("a.0", "c.0", "b.1", "b.2")
    admitted(rig, "R", Permissions("r", read=EVERYTHING, hide=("account",)), want(0, "TRUE"))
    rig.node.pause(rig.ids["R"])
    limit = rig.node._settings.client_queue_limit
    copies = [publish("a.0", n, x=1) for n in range(limit + 1)]
    for start in range(0, len(copies), 10):
        rig.tell("a.0", *copies[start : start + 10])
        rig.settle()
    assert rig.node.client_named("R") is None
    assert rig.node.lost_by_slow_clients == limit + 1


# Names.


def admit(rig: Rig, name: str, incarnation: int, permissions: Permissions | None) -> object:
    hello = Hello(incarnation, 0, 0, Grant(1, 1000, ()))
    return rig.node.admit(name, Overflow.DISCONNECT, hello, rig.now_ms, permissions)


def test_nobody_takes_over_the_session_of_another_holder():
    rig = Rig()
    client = admit(rig, "C", 1, FEED)
    assert client is not None
    rig.node.disconnect(client, 0.0)
    assert admit(rig, "C", 1, READER) is None
    assert admit(rig, "C", 2, READER) is None
    assert admit(rig, "C", 1, None) is None
    assert admit(rig, "C", 1, FEED) == client


def test_a_session_does_not_outlive_a_change_of_permissions():
    rig = Rig()
    first = admit(rig, "C", 1, FEED)
    second = admit(rig, "C", 1, Permissions("feed", advertise=parse_filter("symbol = 'SAP'")))
    assert second is not None
    assert second != first


def test_holders_of_different_tokens_share_no_producer():
    rig = Rig()
    anything = [Permissions(name, advertise=EVERYTHING) for name in ("one", "two")]
    admitted(rig, "P", anything[0], ProduceRequest("loader"), offer(0, "x > 0"), say(7, x=1))
    [produced] = [each for each in admitted(rig, "Q", anything[1], ProduceRequest("loader")) if type(each) is Produced]
    assert produced == Produced("loader", 0)
