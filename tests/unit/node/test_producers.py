"""Producers: a node takes each of their publications once, over all of their sessions."""

from __future__ import annotations

import pytest
from node_support import Rig, numbers

from octopia.node import producers
from octopia.protocol.messages import Produced, ProduceRequest, PublishRequest, Refused, Repeated
from support import offer, say, want


def rig_with_subscriber() -> Rig:
    rig = Rig()
    rig.join("S", want(0, "x >= 0"))
    rig.join("P", offer(0, "x >= 0"))
    return rig


def values(rig: Rig) -> list[object]:
    return [each.publication.attributes["x"] for each in rig.told("S") if hasattr(each, "publication")]


def answers(rig: Rig, name: str = "P") -> list[object]:
    return [each for each in rig.told(name) if isinstance(each, Produced | Repeated | Refused)]


def publish(rig: Rig, *sequences: int, name: str = "P") -> None:
    rig.tell(name, *(say(number, x=number) for number in sequences))
    rig.settle()


def test_a_new_producer_has_published_nothing():
    rig = rig_with_subscriber()
    rig.tell("P", ProduceRequest("sink"))
    rig.settle()
    assert answers(rig) == [Produced("sink", 0)]
    publish(rig, 1, 2)
    assert values(rig) == [1, 2]


def test_what_was_published_before_is_dropped_and_told():
    rig = rig_with_subscriber()
    rig.tell("P", ProduceRequest("sink"))
    publish(rig, 1, 2, 3)
    publish(rig, 2, 3, 4)
    publish(rig, 1)
    assert values(rig) == [1, 2, 3, 4]
    assert answers(rig) == [Produced("sink", 0), Repeated(2, 4), Repeated(1, 4)]


def test_another_session_goes_on():
    rig = rig_with_subscriber()
    rig.tell("P", ProduceRequest("sink"))
    publish(rig, 1, 2, 3)
    rig.join("Q", offer(0, "x >= 0"), ProduceRequest("sink"))
    publish(rig, 3, 4, name="Q")
    assert answers(rig, "Q") == [Produced("sink", 3), Repeated(1, 4)]
    assert values(rig) == [1, 2, 3, 4]


def test_publications_before_the_request_in_one_batch_count_for_nobody():
    rig = rig_with_subscriber()
    rig.tell("P", say(7, x=7), ProduceRequest("sink"), say(1, x=1), ProduceRequest("other"), say(1, x=11))
    rig.settle()
    assert values(rig) == [7, 1, 11]
    assert answers(rig) == [Produced("sink", 0), Produced("other", 0)]


def test_others_are_not_screened():
    rig = rig_with_subscriber()
    publish(rig, 1, 1)
    assert values(rig) == [1, 1]


def test_the_credit_of_dropped_publications_returns():
    rig = rig_with_subscriber()
    rig.tell("P", ProduceRequest("sink"))
    publish(rig, 1)
    for _ in range(3000):
        rig.tell("P", say(1, x=1))
        rig.settle()
        assert rig.ends["P"].classes & 1, "without credit nothing more could be sent"
    assert values(rig) == [1]


def test_a_refused_publication_has_had_its_turn():
    rig = rig_with_subscriber()
    rig.tell("P", ProduceRequest("sink"))
    rig.settle()
    rig.tell("P", PublishRequest(1, say(1, y=1).publication, 0.0))
    rig.settle()
    publish(rig, 1)
    refused, repeated = answers(rig)[1:]
    assert isinstance(refused, Refused)
    assert repeated == Repeated(1, 1)
    assert numbers(rig.told("S")) == []


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(producers, "MOST", 3)
    known: dict[str, int] = {}
    for name in "abc":
        producers.screen(known, name, [say(5, x=5)])
    assert producers.begin(known, "a") == 5
    assert producers.begin(known, "d") == 0
    assert known == {"c": 5, "a": 5, "d": 0}


def test_a_holder_with_many_names_does_not_displace_others():
    known: dict[str, int] = {}
    for number in range(50):
        producers.screen(known, f"sink/{number}", [say(7, x=7)])
    for number in range(3 * producers.MOST):
        producers.begin(known, f"greedy/{number}")
        assert len(known) <= producers.MOST
    assert [producers.begin(known, f"sink/{number}") for number in range(50)] == [7] * 50
    # Its last ones are remembered.
    assert f"greedy/{3 * producers.MOST - 1}" in known


def test_holders_with_many_names_have_equal_shares(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(producers, "MOST", 10)
    names = ["a/1", *(f"b/{number}" for number in range(5)), *(f"c/{number}" for number in range(4))]
    known = dict.fromkeys(names, 1)
    producers.begin(known, "d/1")
    assert list(known) == [
        "a/1",
        *(f"b/{number}" for number in range(1, 5)),
        *(f"c/{number}" for number in range(4)),
        "d/1",
    ]
