"""Advertisements as intervals: whether an encoded publication conforms to those of its publisher.

Plain Python that Cython compiles, like ``blocks``. A declared attribute becomes an interval of numbers, a set of
strings and two booleans. Where these do not describe the predicates fully, the answer is unknown, and ``conforms``
evaluates the filter.
"""

from __future__ import annotations

from array import array
from typing import Any

from octopia.content import bits, encoded
from octopia.content.encoded import IS_COMPILED
from octopia.content.filters import Disjunction, Filter
from octopia.content.publications import Publication
from octopia.content.relations import conforms
from octopia.ids import AdvertisementId
from octopia.matching.names import Names
from octopia.matching.value_sets import ValueSet, value_set_of

NO = 0
YES = 1
UNKNOWN = -1

# How a declared attribute accepts numbers and strings; LISTED stands for the strings of a set.
NEVER = 0
ALWAYS = 1
BETWEEN = 2
LISTED = 3
UNCLEAR = 4

FALSE = 0xC2
TRUE = 0xC3
FLOAT32 = 0xCA
FLOAT64 = 0xCB
EXACT = 1 << 53
"""Every integer up to this one is exactly a double."""

READS_BYTES = IS_COMPILED
"""True if encoded attributes are read; as plain Python, decoding them is faster."""


class Offer:
    """One filter of an advertisement, attribute by attribute."""

    def __init__(self, declared: Filter) -> None:
        value_sets = [value_set_of(predicates) for predicates in declared.by_attribute.values()]
        self.alone = Disjunction((declared,))
        self.names = Names()
        self.names.set_all(list(declared.by_attribute))
        self.texts = [_listed(each) for each in value_sets]
        self.kept: dict[str, Any] = {
            "numbers": array("q", map(_numbers, value_sets)),
            "strings": array("q", map(_strings, value_sets)),
            "booleans": array("q", [each.takes_false | each.takes_true << 1 for each in value_sets]),
            "lows": array("d", [each.low for each in value_sets]),
            "highs": array("d", [each.high for each in value_sets]),
        }
        self.numbers = bits.longs(self.kept["numbers"])
        self.strings = bits.longs(self.kept["strings"])
        self.booleans = bits.longs(self.kept["booleans"])
        self.lows = bits.doubles(self.kept["lows"])
        self.highs = bits.doubles(self.kept["highs"])

    def announces(self, data: bytes) -> int:
        """Return whether encoded attributes conform to this filter: YES, NO or UNKNOWN."""
        span = data
        end = len(data)
        left = encoded.entries(span, 0, end)
        if left < 0:
            return UNKNOWN
        at = encoded.first_entry(span, 0)
        answer = YES
        while left:
            left -= 1
            length = encoded.name_length(span, at, end)
            if length < 0:
                return UNKNOWN
            at = encoded.string_start(span, at)
            index = self.names.find(span, at, length, end)
            if index < 0:
                return NO
            at += length
            if at >= end:
                return UNKNOWN
            if encoded.is_string(span[at]):
                length = encoded.string_length(span, at, end)
                if length < 0:
                    return UNKNOWN
                at = encoded.string_start(span, at)
                takes = self.takes_string(index, span, at, length, end)
            else:
                length = encoded.number_bytes(span, at, end)
                if length < 0:
                    return UNKNOWN
                takes = self.takes_number(index, span, at)
            if takes == NO:
                return NO
            if takes == UNKNOWN:
                answer = UNKNOWN
            at += length
        return answer

    def takes_string(self, index: int, span: bytes, at: int, length: int, end: int) -> int:
        """Return whether an attribute may have the string at an offset."""
        strings = self.strings[index]
        if strings == LISTED:
            texts = self.texts[index]
            return YES if texts.find(span, at, length, end) >= 0 else NO
        if strings == UNCLEAR:
            return UNKNOWN
        return YES if strings == ALWAYS else NO

    def takes_number(self, index: int, span: bytes, at: int) -> int:
        """Return whether an attribute may have the number or boolean at an offset."""
        tag = span[at]
        if tag in (FALSE, TRUE):
            return self.booleans[index] >> (tag == TRUE) & 1
        if tag == FLOAT64:
            number = bits.double_at(span, at + 1)
        elif tag == FLOAT32:
            number = bits.single_at(span, at + 1)
        else:
            whole = encoded.integer_at(span, at)
            # Intervals say nothing about integers that are not doubles, even if no double is accepted.
            if whole < -EXACT or whole > EXACT:
                return UNKNOWN
            number = whole
        if self.numbers[index] == NEVER:
            return NO
        if self.numbers[index] == UNCLEAR:
            return UNKNOWN
        return YES if self.lows[index] <= number <= self.highs[index] else NO


class Offers:
    """The advertisements of one publisher."""

    def __init__(self, advertised: dict[AdvertisementId, Disjunction]) -> None:
        self.ids = sorted(advertised)
        self.contents = [advertised[each] for each in self.ids]
        self.offers = [tuple(map(Offer, content.filters)) if READS_BYTES else () for content in self.contents]

    def conforming(self, publication: Publication) -> list[AdvertisementId]:
        """Return the advertisements to which a publication conforms, sorted by id."""
        found = []
        for index in range(len(self.ids)):
            if self.is_conforming(index, publication):
                found.append(self.ids[index])  # noqa: PERF401 - Cython compiles the loop
        return found

    def is_conforming(self, index: int, publication: Publication) -> bool:
        """Return whether a publication conforms to one of the advertisements."""
        data = publication._encoded_attributes
        if not (data and READS_BYTES):
            return conforms(self.contents[index], publication)
        for offer in self.offers[index]:
            answer = offer.announces(data)
            if answer == YES or (answer == UNKNOWN and conforms(offer.alone, publication)):
                return True
        return False


def _numbers(values: ValueSet) -> int:
    """Return how a value set accepts numbers."""
    if not values.takes_number:
        return NEVER
    return BETWEEN if values.is_exact else UNCLEAR


def _strings(values: ValueSet) -> int:
    """Return how a value set accepts strings."""
    if not values.takes_string:
        return NEVER
    if not values.asks_string:
        return ALWAYS
    return UNCLEAR if values.texts is None else LISTED


def _listed(values: ValueSet) -> Any:
    """Return the strings of a value set that lists them."""
    texts = Names()
    if values.takes_string and values.texts is not None:
        texts.set_all(list(values.texts))
    return texts
