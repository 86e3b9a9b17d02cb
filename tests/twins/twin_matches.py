"""Matching: the links and subscriptions that publications match, out of 1 to 2,000, and their advertisements.

Both twins also compare their index with the scan.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from encoded_attributes import draw_encoded

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, Value, like
from octopia.content.limits import OPERAND_LENGTH_MAX
from octopia.content.publications import scanned
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import INDEX, SCAN
from octopia.wire.decoding import REFUSALS, decode_content
from octopia.wire.encoding import prepare

SIZES = (1, 2, 5, 20, 63, 64, 65, 200, 500, 2_000)
PUBLICATIONS = 25
HERE = BrokerId("a", 0)
LINKS: tuple[Peer, ...] = (BrokerId("b", 0), BrokerId("c", 0), BrokerId("a", 1), ClientId("p"), ClientId("q"))
MANY_LINKS: tuple[Peer, ...] = (*(BrokerId(f"r{number}", 0) for number in range(90)), *LINKS)
"""More than a word has bits."""
SHORT_NAMES = ("x", "y", "price", "a name of more than eight bytes", "é")
MANY_NAMES = tuple(f"attribute_{number}" for number in range(400))
BORDERS = (-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1)
FLOATS = (-float("inf"), -1e300, -(2.0**63), -0.0, 0.0, 5e-324, 0.1, 1.0, 2.0**53, 2.0**63, 1e300, float("inf"))
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "b",
    "IBM",
    "ä",
    "日本",
    "\U0010ffff",
    "\x00",
    "t" * 255,
    "t" * 4096,
    "t" * 4095 + "u",
    "t" * 8192,
)
ORDERINGS = (Operator.GT, Operator.GE, Operator.LT, Operator.LE)


class Drawer:
    """Draws values, filters and publications over some names."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.names = MANY_NAMES if seed % 3 == 2 else SHORT_NAMES
        self.links = MANY_LINKS if seed % 4 == 3 else LINKS

    def number(self) -> int | float:
        chance = self.chance
        return chance.choice(
            (chance.choice(BORDERS), chance.choice(FLOATS), chance.randrange(10), chance.random() * 10)
        )

    def value(self) -> Value:
        return self.chance.choice((self.number(), self.number(), self.chance.choice(TEXTS), True, False))

    def operand(self) -> Value:
        value = self.value()
        return value[:OPERAND_LENGTH_MAX] if isinstance(value, str) else value

    def predicate(self) -> Predicate:
        chance = self.chance
        name, text = chance.choice(self.names), chance.choice(TEXTS)
        short = text[:20]
        match chance.randrange(10):
            case 0 | 1 | 2:
                return Predicate(name, chance.choice(ORDERINGS), self.number())
            case 3:
                low, high = sorted((self.number(), self.number()))
                return Predicate(name, Operator.BETWEEN, (low, high))
            case 4 | 5:
                return Predicate(name, chance.choice((Operator.EQ, Operator.EQ, Operator.NE)), self.operand())
            case 6:
                values = tuple(dict.fromkeys((short, chance.choice(TEXTS)[:20], 5, chance.choice(BORDERS))))
                return Predicate(name, chance.choice((Operator.IN, Operator.NOT_IN)), values)
            case 7:
                return Predicate(name, chance.choice((Operator.PREFIX, Operator.NOT_PREFIX)), short)
            case 8:
                return like(name, chance.choice(("%b%", "_b", "t%t", "%M", f"{short[:2]}%")))
            case _:
                return Predicate(name, chance.choice((Operator.EXISTS, Operator.ABSENT)))

    def interest(self) -> Disjunction:
        count = self.chance.choice((1, 1, 1, 2))
        return Disjunction(
            tuple(Filter(tuple(self.predicate() for _ in range(self.chance.randint(1, 3)))) for _ in range(count))
        )

    def offer(self) -> Disjunction:
        """Draw an advertisement that declares most names."""
        declared = [Predicate(name, Operator.EXISTS) for name in self.names[:60] if self.chance.random() < 0.95]
        return Disjunction((Filter((*declared, *(self.predicate() for _ in range(self.chance.randrange(2))))),))

    def publication(self) -> Publication | None:
        """Draw a publication with attributes, with prepared bytes, or as received bytes; None if these are wrong."""
        chance = self.chance
        kind = chance.randrange(4)
        if kind == 3:
            encoded = draw_encoded(chance)
            try:
                return scanned(encoded, b"") or decode_content(encoded, b"")
            except REFUSALS:
                return None
        count = chance.choice((1, 2, 4, len(self.names[:60])))
        made = Publication({name: self.value() for name in chance.sample(self.names[:60], min(count, len(self.names)))})
        if kind:
            prepare(made)
        return (scanned(made.encoded_attributes, b"") or made) if kind == 2 else made


def lines(seed: int) -> Iterator[str]:
    """Yield all matches of an index that changes in between."""
    drawer = Drawer(seed)
    chance = drawer.chance
    index, scan = INDEX.subscriptions(), SCAN.subscriptions()
    offers, offers_by_scan = INDEX.advertisements(), SCAN.advertisements()
    known: list[SubscriptionId] = []
    number = 0
    for size in (SIZES[seed % len(SIZES)], SIZES[seed * 7 % len(SIZES)] // 2):
        while len(known) > size:
            gone = known.pop(chance.randrange(len(known)))
            yield f"removed {index.remove(gone)} {scan.remove(gone)}"
        while len(known) < size:
            number += 1
            wanted, link = drawer.interest(), chance.choice(drawer.links)
            known.append(SubscriptionId(HERE, 1, number))
            yield f"added {index.add(known[-1], wanted, link)} {scan.add(known[-1], wanted, link)}"
        for _ in range(5):
            number += 1
            offer, link = drawer.offer(), chance.choice(LINKS)
            offers.add(AdvertisementId(HERE, 1, number), offer, link)
            offers_by_scan.add(AdvertisementId(HERE, 1, number), offer, link)
        batch = [each for _ in range(PUBLICATIONS) if (each := drawer.publication()) is not None]
        together = index.match_many(batch)
        for publication, found in zip(batch, together, strict=True):
            alone, expected = index.match(publication), scan.match(publication)
            yield f"{found.links} {found.local} {found.numbers.hex()} {publication!r}"
            yield f"{alone.links} {alone.local} {alone.numbers.hex()}"
            assert (found.links, sorted(found.local)) == (expected.links, sorted(expected.local)), publication
            for link in LINKS[3:]:
                conforming = offers.conforming(publication, link)
                assert conforming == offers_by_scan.conforming(publication, link), publication
                yield f"conforms to {conforming} {offers.conformity_with(link)(publication)}"
        offer, wanted = drawer.offer(), drawer.interest()
        yield f"{index.intersecting(offer)} {index.any_intersecting(offer)} {offers.intersected_by(wanted)}"
