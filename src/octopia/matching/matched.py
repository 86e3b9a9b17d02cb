"""Matches: the results of the index, and the loop over publications that produces them.

Plain Python that Cython compiles, like ``blocks``. Many publications match the same links, so the match of a set of
links without local subscriptions is made once and cached.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from octopia.content import bits
from octopia.content.publications import Publication
from octopia.ids import BrokerId
from octopia.matching.blocks import Block, Column
from octopia.matching.names import Names
from octopia.matching.probes import Probe, match

CACHED = 256
"""The number of cached sets of links."""

MOST_OTHERS = 4096
"""The number of cached sets of links of a broker with 64 neighbours or more."""

MULTIPLIER = 0x9E3779B97F4A7C15
MASK = 0xFFFFFFFFFFFFFFFF
ONE = 1


class Match:
    """The matches of a publication: neighbours sorted by id, and numbers of local subscriptions in any order.

    The numbers are those that ``Subscriptions.add`` returned. ``numbers`` holds them as bytes, so that a broker can use
    them as a key.
    """

    __slots__ = ("links", "numbers")

    def __init__(self, links: tuple[BrokerId, ...], local: Sequence[int]) -> None:
        self.links = links
        self.numbers = array("q", local).tobytes() if local else b""

    @property
    def local(self) -> tuple[int, ...]:
        """The numbers of local subscriptions."""
        return tuple(memoryview(self.numbers).cast("q"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Match):
            return NotImplemented
        return self.links == other.links and self.numbers == other.numbers

    def __hash__(self) -> int:
        return hash((self.links, self.numbers))

    def __repr__(self) -> str:
        return f"Match(links={self.links!r}, local={self.local!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Match, (self.links, self.local)


def make_match(links: tuple[BrokerId, ...], numbers: bytes) -> Match:
    """Return a match with numbers that are bytes already."""
    match = Match.__new__(Match)
    match.links = links
    match.numbers = numbers
    return match


class Matcher:
    """Matches publications against all slots of an index."""

    def __init__(self, blocks: list[Block], columns: list[Column]) -> None:
        self.probe = Probe()
        self.blocks = blocks
        self.columns = columns
        self.names = Names()
        self.has_repeats = False
        self.kept = array("Q", bytes(8 * CACHED))
        self.masks = bits.words(self.kept)
        self.expect_groups([None], 0)

    def expect_groups(self, groups: list[BrokerId | None], links: int) -> None:
        """Set the link of each group, None for local clients, and the number of links that have slots."""
        self.groups = groups
        self.cached: list[Any] = [None] * CACHED
        self.others: dict[bytes, Match] = {}
        self.probe.expect_groups(len(groups), links)

    def match_many(self, publications: list[Publication], doubtful: list[int]) -> list[Match]:
        """Return the ``match`` of each publication; append to ``doubtful`` the positions of those that are."""
        found: list[Match] = []
        for publication in publications:
            found.append(self.match(publication))
            if self.probe.is_doubtful:
                doubtful.append(len(found) - 1)
        return found

    def match(self, publication: Publication) -> Match:
        """Return the links and local subscriptions that match a publication.

        If the probe ``is_doubtful`` afterwards, filters whose bounds are not doubles may have been missed.
        """
        if self.names.count < len(self.columns):
            self.names.set_all([each.name for each in self.columns])
        match(self.probe, self.columns, self.names, publication, self.blocks)
        found = self.links_only()
        if self.probe.found_count:
            if self.has_repeats:
                self.probe.drop_repeats()
            return make_match(found.links, bits.longs_to_bytes(self.probe.found, self.probe.found_count))
        return found

    def links_only(self) -> Match:
        """Return the match of the links that the last question found, without local subscriptions."""
        if self.probe.groups > 64:
            return self.make_links()
        # The highest bits of the product depend on all bits of the mask.
        slot = (self.probe.mask * MULTIPLIER & MASK) >> 56
        found: Match | None = self.cached[slot]
        if found is None or self.masks[slot] != self.probe.mask:
            found = self.make_links()
            self.cached[slot] = found
            self.masks[slot] = self.probe.mask
        return found

    def make_links(self) -> Match:
        """Make or look up the match of any set of links."""
        hits = self.probe.hit_groups()
        found = self.others.get(hits)
        if found is None:
            links = [link for group, link in enumerate(self.groups) if link is not None and hits[group]]
            found = make_match(tuple(sorted(links)), b"")
            if len(self.others) >= MOST_OTHERS:
                self.others.clear()
            self.others[hits] = found
        return found
