"""The index matches encoded attributes as the scan matches what the decoder makes of them."""

from __future__ import annotations

import random

import pytest
from encoded_attributes import NAMES, TEXTS, draw_encoded

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication
from octopia.content.publications import scanned
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import INDEX, SCAN
from octopia.wire.decoding import REFUSALS, decode_content

HERE = BrokerId("a", 0)
LINKS: tuple[Peer, ...] = (BrokerId("b", 0), BrokerId("c", 0), ClientId("p"), ClientId("q"))
BOUNDS = (-1, 0, 0.5, 1, 5, 5.0, 127, 2**53, 2**53 + 1, 2**62, float("-inf"))


def predicate(chance: random.Random) -> Predicate:
    name = chance.choice(NAMES)
    low, high = chance.choice(BOUNDS), chance.choice(BOUNDS)
    text = chance.choice(TEXTS)
    return chance.choice(
        (
            Predicate(name, chance.choice((Operator.GT, Operator.GE, Operator.LT, Operator.LE, Operator.NE)), low),
            Predicate(name, Operator.BETWEEN, (min(low, high), max(low, high))),
            Predicate(name, Operator.EQ, chance.choice((text, low, True, False))),
            Predicate(name, Operator.IN, (text, chance.choice(TEXTS), 5)),
            Predicate(name, Operator.PREFIX, text),
            Predicate(name, Operator.EXISTS),
            Predicate(name, Operator.ABSENT),
        )
    )


def disjunction(chance: random.Random, least: int, most: int) -> Disjunction:
    count = chance.randint(least, most)
    return Disjunction((Filter(tuple(predicate(chance) for _ in range(count))),))


def offer(chance: random.Random) -> Disjunction:
    """Return an advertisement that declares most names, and constrains some."""
    filters = []
    for _ in range(chance.choice((1, 1, 2))):
        declared = [Predicate(name, Operator.EXISTS) for name in NAMES if chance.random() < 0.95]
        filters.append(Filter((*declared, *(predicate(chance) for _ in range(chance.choice((0, 1, 2)))))))
    return Disjunction(tuple(filters))


def received(encoded: bytes) -> Publication | None:
    try:
        return scanned(encoded, b"") or decode_content(encoded, b"")
    except REFUSALS:
        return None


def compare_all(seeds: range) -> None:
    chance = random.Random(seeds.start)
    subscriptions, by_scan = INDEX.subscriptions(), SCAN.subscriptions()
    offers, offers_by_scan = INDEX.advertisements(), SCAN.advertisements()
    for number in range(60):
        wanted, link = disjunction(chance, 1, 2), LINKS[number % 4]
        for subscribed in (subscriptions, by_scan):
            subscribed.add(SubscriptionId(HERE, 1, number), wanted, link)
        offered = offer(chance)
        for advertised in (offers, offers_by_scan):
            advertised.add(AdvertisementId(HERE, 1, number), offered, link)
    matched = conforming = 0
    for seed in seeds:
        encoded = draw_encoded(random.Random(seed))
        publication = received(encoded)
        if publication is None:
            continue
        expected, found = by_scan.match(decode_content(encoded, b"")), subscriptions.match(publication)
        assert (found.links, sorted(found.local)) == (expected.links, sorted(expected.local)), encoded
        matched += bool(expected.local)
        if seed % 4 == 0:
            own = offers_by_scan.conforming(decode_content(encoded, b""), LINKS[2])
            assert offers.conforming(publication, LINKS[2]) == own, encoded
            conforming += bool(own)
    assert matched > len(seeds) / 10
    assert conforming > len(seeds) / 400


def test_fuzzed_attributes_match_as_decoded_ones() -> None:
    compare_all(range(1_500))


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 300_000, 30_000))
def test_very_many_fuzzed_attributes_match_as_decoded_ones(start: int) -> None:
    compare_all(range(start, start + 30_000))
