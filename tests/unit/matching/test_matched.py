"""Matches, tables of names, and the moment at which few subscriptions get an index."""

from __future__ import annotations

import pickle
from array import array

import pytest

from octopia.content import Publication, parse_filter
from octopia.ids import BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX, IndexSubscriptions, Match, index
from octopia.matching.names import Names

B, C = BrokerId("b", 0), BrokerId("c", 0)
HERE = BrokerId("a", 0)


def test_a_match_is_a_value():
    match = Match((B, C), [3, 1])
    assert match.local == (3, 1)
    assert match.numbers == array("q", [3, 1]).tobytes()
    assert match == Match((B, C), (3, 1)) != Match((B, C), (1, 3))
    assert match != Match((B,), (3, 1))
    assert hash(match) == hash(Match((B, C), (3, 1)))
    assert pickle.loads(pickle.dumps(match)) == match
    assert str(match.local) in repr(match)
    assert Match((), ()).numbers == b""


def test_names_are_found_among_many():
    names = Names()
    assert names.number_of("a") == -1
    known = [f"{'x' * (number % 20)}{number}" for number in range(128)] + ["é", "名"]
    names.set_all(known)
    assert [names.number_of(each) for each in known] == list(range(len(known)))
    assert names.number_of("y1") == names.number_of("") == names.number_of("x" * 100) == -1


def test_the_same_links_are_the_same_match():
    subscriptions = INDEX.subscriptions()
    for number in range(100):
        interest = parse_filter(f"x >= {number}")
        subscriptions.add(SubscriptionId(HERE, 1, number), interest, (B, C)[number % 2])
    matched = subscriptions.match_many([Publication({"x": each}) for each in (0, 0.5, 1, 50, "text")])
    assert [each.links for each in matched] == [(B,), (B,), (B, C), (B, C), ()]
    assert matched[0].links is matched[1].links
    assert matched[2].links is matched[3].links


def test_more_than_sixty_four_neighbours():
    subscriptions = INDEX.subscriptions()
    links = [BrokerId(f"r{number:03}", 0) for number in range(100)]
    for number, link in enumerate(links):
        subscriptions.add(SubscriptionId(HERE, 1, number), parse_filter(f"x >= {number}"), link)
    for value in (-1, 0, 62, 63, 64, 65, 99, 65, 0):
        assert subscriptions.match(Publication({"x": value})).links == tuple(links[: value + 1])


def test_a_number_is_found_once_for_several_filters():
    subscriptions = INDEX.subscriptions()
    for number in range(60):
        interest = parse_filter(f"x > {number} OR y > {number} OR z > 0")
        subscriptions.add(SubscriptionId(HERE, 1, number), interest, ClientId("p"))
    assert sorted(subscriptions.match(Publication({"x": 10, "y": 20})).local) == list(range(20))
    assert sorted(subscriptions.match(Publication({"x": 10, "z": 20})).local) == list(range(60))


def test_few_subscriptions_get_an_index_when_they_are_matched_often(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "FEW", 8)
    monkeypatch.setattr(index, "PATIENCE", 3)
    subscriptions = INDEX.subscriptions()
    assert isinstance(subscriptions, IndexSubscriptions)
    subscriptions.add(SubscriptionId(HERE, 1, 0), parse_filter("x > 0"), B)
    for _ in range(3):
        assert subscriptions.match(Publication({"x": 1})).links == (B,)
    assert not subscriptions.size_bytes()
    assert [each.links for each in subscriptions.match_many([Publication({"x": each}) for each in (1, 0)])] == [
        (B,),
        (),
    ]
    assert subscriptions.size_bytes()
    subscriptions.remove(SubscriptionId(HERE, 1, 0))
    assert subscriptions.match(Publication({"x": 1})).links == ()
    subscriptions.add(SubscriptionId(HERE, 1, 1), parse_filter("x > 0"), C)
    assert subscriptions.match(Publication({"x": 1})).links == (C,)
