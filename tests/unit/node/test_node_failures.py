"""Errors of our own in handling one peer: its link is closed, and the effects meant for others are carried out.

A session or a table is made to raise; everything else must go on as if nothing had happened.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from node_support import CLIENT_LINKS, LINKS, Rig, codes, full, make_node, numbers, plain, written_to

from octopia.broker import exchanging, limits
from octopia.broker.tables import Prt
from octopia.node import NodeSettings, Ready
from octopia.protocol import Ack, CloseCode, Grant
from octopia.protocol.messages import Confirmed, CutOff, Publish, Subscribe, Unsubscribe
from support import at, offer, say, subscribe, want


class Bug(Exception):
    """An error that nobody has thought of."""


def fail(*_: Any, **__: Any) -> NoReturn:
    """Raise."""
    raise Bug("it was made to fail")


def met(**options: Any) -> Rig:
    """Return a rig with all neighbours, where a.0 and c.0 want x, and so does the client S; P publishes."""
    rig = Rig(**options)
    rig.meet("a.0", "c.0", "b.1", "b.2")
    for name in ("a.0", "c.0"):
        rig.tell(name, subscribe(name, 0, "x > 0"))
    rig.join("S", want(0, "x > 0"))
    rig.join("P", offer(0, "x > 0"))
    rig.settle()
    return rig


def acknowledged(ready: Ready, rig: Rig, name: str) -> bool:
    """Return whether a peer is told that everything it sent was accepted."""
    accepted = rig.session(name).accepted
    return any(
        isinstance(item, Ack) and item.accepted == accepted
        for peer, items in ready.writes
        if peer == rig.peer(name)
        for item in items
    )


def check_failure(ready: Ready, name: str) -> None:
    """Check that exactly one failure is reported, and that it closes the link of this peer alone."""
    assert [(str(each.peer), type(each.error)) for each in ready.failures] == [(name, Bug)]
    assert codes(ready.closes) == [(name, CloseCode.INTERNAL)]
    assert ready.closes[0].reason == "an internal error: Bug"


class TestSession:
    @pytest.mark.parametrize("victim", ["a.0", "c.0", "S"])
    def test_that_cannot_send(self, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        for name in ("send", "begin_output"):
            monkeypatch.setattr(rig.session(victim), name, fail)
        rig.tell("P", say(0, x=1))
        ready = rig.node.ready(0.0)
        check_failure(ready, victim)
        for name in {"a.0", "c.0", "S"} - {victim}:
            assert numbers(written_to(ready, rig.peer(name))) == [0]
        assert acknowledged(ready, rig, "P")
        rig.broker.check()

    def test_that_cannot_take_its_credit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.tell("b.2", plain(11))
        rig.settle()
        monkeypatch.setattr(rig.session("b.1"), "placed", fail)
        rig.cut("c.0")
        ready = rig.node.ready(0.0)
        check_failure(ready, "b.1")
        assert not rig.session("b.2").owes_credit
        assert acknowledged(ready, rig, "b.2")

    def test_that_cannot_take_credit_for_room_that_was_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = full()
        for number, name in enumerate(["b.1", "b.2", "a.0"], 10):
            rig.tell(name, plain(number))
        rig.settle()
        monkeypatch.setattr(rig.session("b.1"), "placed", fail)
        rig.unstick("c.0")
        failures = []
        for _ in range(10):
            for name in ("a.0", "b.1", "b.2", "c.0"):
                rig.hand_over(name)
            ready = rig.node.ready(0.0)
            failures += ready.failures
            for peer, items in ready.writes:
                rig.reach(str(peer), items)  # type: ignore[arg-type]
        assert [str(each.peer) for each in failures] == ["b.1"]
        assert not rig.session("b.2").owes_credit
        assert not rig.session("a.0").owes_credit
        assert numbers(rig.told("c.0")) == [0, 1, 10, 11, 12]
        rig.broker.check()

    @pytest.mark.parametrize("victim", ["a.0", "c.0", "S", "P"])
    def test_that_cannot_be_drained(self, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        monkeypatch.setattr(rig.session(victim), "drain", fail)
        rig.tell("P", say(0, x=1))
        ready = rig.node.ready(0.0)
        check_failure(ready, victim)
        for name in {"a.0", "c.0", "S"} - {victim}:
            assert numbers(written_to(ready, rig.peer(name))) == [0]

    @pytest.mark.parametrize("victim", ["a.0", "P"])
    def test_that_cannot_receive(self, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        monkeypatch.setattr(rig.session(victim), "receive", fail)
        rig.tell("c.0", plain(5))
        rig.tell(victim, say(0, x=1) if victim == "P" else plain(6))
        ready = rig.node.ready(0.0)
        check_failure(ready, victim)
        assert numbers(written_to(ready, rig.ids["S"])) == [5]
        assert acknowledged(ready, rig, "c.0")

    @pytest.mark.parametrize("victim", ["a.0", "S"])
    def test_that_cannot_wake(self, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        rig.join("gone", want(0, "x > 0"))
        rig.cut("gone")
        rig.node.clients[rig.ids["gone"]].expires_ms = 100.0
        monkeypatch.setattr(rig.session(victim), "wake", fail)
        rig.node.wake(100.0)
        ready = rig.node.ready(100.0)
        check_failure(ready, victim)
        assert rig.ids["gone"] not in rig.node.clients
        for name in {"a.0", "c.0", "b.1", "b.2", "S", "P"} - {victim}:
            assert acknowledged(ready, rig, name), f"{name} gets its heartbeat"

    def test_that_cannot_say_the_last_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met(node=make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, client_queue_limit=2)))
        rig.join("T", want(0, "x > 0"))
        for name in ("S", "T"):
            rig.node.pause(rig.ids[name])
        rig.tell("a.0", plain(0), plain(1))
        rig.settle()
        victim, other = rig.ids["S"], rig.ids["T"]
        monkeypatch.setattr(rig.session("S"), "send", fail)
        rig.tell("a.0", plain(2))
        ready = rig.node.ready(0.0)
        assert [str(each.peer) for each in ready.failures] == ["S"]
        assert ("T", CloseCode.TOO_SLOW) in codes(ready.closes)
        assert written_to(ready, other) == [CutOff(3)]
        assert {str(peer) for peer in rig.node.clients} == {"P"}
        assert victim not in rig.node.clients
        assert numbers(written_to(ready, at("c.0"))) == [2]
        assert [type(each) for each in written_to(ready, at("c.0")) if not isinstance(each, Publish)] == [
            Unsubscribe,
            Unsubscribe,
        ]
        assert acknowledged(ready, rig, "a.0")


class TestBroker:
    def test_that_fails_in_the_middle_of_a_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        monkeypatch.setattr(Prt, "match_many", fail)
        rig.tell("a.0", subscribe("a.0", 5, "y > 0"), plain(0), subscribe("a.0", 6, "y > 0"))
        ready = rig.node.ready(0.0)
        check_failure(ready, "a.0")
        forwarded = [each for each in written_to(ready, at("c.0")) if isinstance(each, Subscribe)]
        assert [each.id.number for each in forwarded] == [5]

    def test_that_fails_over_one_peer_serves_the_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        rig.tell("c.0", plain(5))
        with monkeypatch.context() as patch:
            patch.setattr(Prt, "match_many", fail)
            rig.tell("a.0", plain(0))
        rig.tell("b.1", plain(6))
        ready = rig.node.ready(0.0)
        check_failure(ready, "a.0")
        assert numbers(written_to(ready, rig.ids["S"])) == [5, 6]
        for name in ("c.0", "b.1"):
            assert acknowledged(ready, rig, name)


def test_a_link_that_failed_is_sound_again_over_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = met()
    with monkeypatch.context() as patch:
        patch.setattr(rig.session("b.1"), "accept_data", fail)
        rig.node.receive(at("b.1"), [Ack(0, Grant(1, 1000, ()))], 0.0)
        check_failure(rig.node.ready(0.0), "b.1")
    rig.cut("b.1")
    rig.connect("b.1")
    rig.tell("b.1", plain(7))
    rig.settle()
    rig.tell("b.1", plain(8))
    rig.settle()
    assert numbers(rig.told("c.0"))[-1] == 8


def test_a_failure_in_the_middle_of_a_batch_costs_the_peer_no_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications of the batch are gone with the link; the next connection has the whole window all the same."""
    rig = met()
    with monkeypatch.context() as patch:
        patch.setattr(Prt, "match_many", fail)
        rig.tell("b.1", *(plain(number) for number in range(10)))
        check_failure(rig.node.ready(0.0), "b.1")
    rig.cut("b.1")
    rig.connect("b.1")
    rig.settle()
    assert not rig.session("b.1").owes_credit
    rig.tell("b.1", *(plain(number) for number in range(20, 30)))
    rig.settle()
    assert rig.ends["b.1"].classes & 1


def test_a_violation_in_the_middle_of_a_batch_costs_no_credit_either() -> None:
    rig = met()
    rig.tell("b.1", Confirmed("subscription", 0), *(plain(number) for number in range(10)))
    assert codes(rig.node.ready(0.0).closes) == [("b.1", CloseCode.VIOLATION)]
    rig.cut("b.1")
    rig.connect("b.1")
    rig.settle()
    assert not rig.session("b.1").owes_credit


class TestLongWork:
    """Work outside a batch: a failure is reported, and the rest of the work is done."""

    def test_of_a_client_that_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met(slice_max=2)
        rig.tell("S", *(want(handle, f"x > {handle}") for handle in range(1, 6)))
        rig.settle()
        sizes, remove, removed = rig.broker.table_sizes(), Prt.remove, []

        def fail_once(prt: Prt, subscription: Any) -> Any:
            removed.append(subscription)
            return fail() if len(removed) == 2 else remove(prt, subscription)

        monkeypatch.setattr(Prt, "remove", fail_once)
        rig.node.detach(rig.ids["S"], 0.0)
        failures = []
        for _ in range(4):
            failures += rig.node.ready(0.0).failures
            rig.node.wake(0.0)
        assert [(str(each.peer), type(each.error)) for each in failures] == [("S", Bug)]
        assert not rig.node.is_behind
        assert len(removed) == 6
        assert rig.broker.table_sizes()["prt"] == sizes["prt"] - 5

    @pytest.mark.parametrize("victim", ["a.0", "c.0"])
    def test_of_another_peer(self, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met(slice_max=2)
        rig.tell("S", *(want(handle, f"x > {handle}") for handle in range(1, 6)))
        rig.settle()
        rig.cut(victim)
        rig.meet(victim)
        rig.node.ready(0.0)
        monkeypatch.setattr(exchanging, "send_part", fail)
        rig.tell("P", say(0, x=9))
        ready = rig.node.ready(0.0)
        check_failure(ready, victim)
        assert acknowledged(ready, rig, "P")

    def test_at_a_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        rig.cut("a.0")
        rig.node.ready(0.0)
        monkeypatch.setattr(limits, "enforce", fail)
        rig.node.broker.wake(1.0)
        rig.tell("P", say(0, x=9))
        ready = rig.node.ready(1.0)
        assert [(str(each.peer), type(each.error)) for each in ready.failures] == [("b.0", Bug)]
        assert not ready.closes
        assert numbers(written_to(ready, rig.peer("c.0"))) == [0]

    def test_of_a_link_that_came_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = met()
        rig.cut("a.0")
        monkeypatch.setattr(exchanging, "greet", fail)
        rig.connect("a.0")
        rig.hand_over("a.0")
        check_failure(rig.node.ready(0.0), "a.0")
