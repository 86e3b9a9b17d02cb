"""The fast engine of the truth: many subscriptions matched against batches of publications, with NumPy.

A ``Matcher`` takes filters in their normal form. A batch is cut into slices of about 2,000 publications. In a slice,
each predicate is a row of bits (see ``bitmaps``), a filter is the AND of its predicates, and a subscription is the OR
of its filters. Filters with a predicate that no publication of the slice satisfies are dropped first. The others are
computed in blocks of subscriptions, so the memory is bounded and fits into the cache.

This module uses no Spark: Arrow in, pairs of arrays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.content.filters import Disjunction, Filter
from octopia.content.language import parse_filter
from octopia.errors import InvalidData, InvalidFilter
from octopia.pipeline.bitmaps import Bitmaps, PredicateSet
from octopia.pipeline.ranks import WORD, Positions, Words, packed

Numbers: TypeAlias = npt.NDArray[np.int64]
Pairs: TypeAlias = tuple[Numbers, Numbers]
"""The numbers of publications, and of the subscriptions that they match."""

KEY = "number"
"""The column with the number of a publication; all others are attributes."""
ROWS_MAX = 2048
"""The number of publications per slice."""
BLOCK = 256
"""The number of subscriptions per block; with ``ROWS_MAX`` it bounds the number of pairs per chunk."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One predicate on the same attribute for each of some conjunctions, in order."""

    attribute: str
    conjunctions: Positions
    predicates: Positions


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A layer with its bitmaps on a slice, for the conjunctions that can still match."""

    bits: Words
    conjunctions: Positions
    first: Positions
    second: Positions


class Matcher:
    """Finds the matches of a fixed set of subscriptions, given by number and filter text."""

    def __init__(self, filters: Iterable[tuple[int, str]], parse: Callable[[str], Disjunction] = parse_filter):
        self._predicates: dict[str, PredicateSet] = {}
        self._layers: list[_Layer] = []
        numbers: list[int] = []
        owners: list[int] = []
        conjunctions: list[Filter] = []
        for number, text in filters:
            for each in _parsed(number, text, parse).filters:
                owners.append(len(numbers))
                conjunctions.append(each)
            numbers.append(number)
        self._numbers: Numbers = np.array(numbers, dtype=np.int64)
        self._owners: Positions = np.array(owners, dtype=np.intp)
        self._build(conjunctions)

    def match(self, batch: pa.RecordBatch) -> Pairs:
        """Return all pairs that match in a batch, in no particular order."""
        found = list(self.chunks(batch))
        empty = np.empty(0, dtype=np.int64)
        if not found:
            return empty, empty
        publications, subscriptions = zip(*found, strict=True)
        return np.concatenate(publications), np.concatenate(subscriptions)

    def chunks(self, batch: pa.RecordBatch) -> Iterator[Pairs]:
        """Yield the pairs of a batch in chunks of at most ``ROWS_MAX`` times ``BLOCK``."""
        for start in range(0, batch.num_rows, ROWS_MAX):
            rows = batch.slice(start, ROWS_MAX)
            numbers = rows.column(KEY).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            for subscriptions, bits in self._blocks(rows):
                which, row = _set_bits(bits)
                if len(row):
                    yield numbers[row], self._numbers[subscriptions[which]]

    def _blocks(self, rows: pa.RecordBatch) -> Iterator[tuple[Positions, Words]]:
        """Yield blocks of subscriptions with their bits."""
        layers, owners = self._evaluate(rows)
        everything = packed(np.ones(rows.num_rows, dtype=np.bool_))
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        ends = np.append(starts[1:], len(owners))
        for at in range(0, len(starts), BLOCK):
            within = starts[at : at + BLOCK]
            begin, end = int(within[0]), int(ends[at : at + BLOCK][-1])
            bits = _conjunctions(layers, begin, end, everything)
            if end - begin > len(within):
                bits = np.bitwise_or.reduceat(bits, within - begin, axis=0)
            yield owners[within], bits

    def _evaluate(self, rows: pa.RecordBatch) -> tuple[list[_Evaluated], Positions]:
        """Evaluate all predicates; drop conjunctions with one that is never true, and renumber the others."""
        bitmaps = {name: each.evaluate(_column(rows, name)) for name, each in self._predicates.items()}
        is_alive = np.ones(len(self._owners), dtype=np.bool_)
        for layer in self._layers:
            found = bitmaps[layer.attribute]
            is_never = found.first == found.second
            is_alive[layer.conjunctions[is_never[layer.predicates]]] = False
        renumbered = np.cumsum(is_alive) - 1
        return [_evaluated(each, bitmaps, is_alive, renumbered) for each in self._layers], self._owners[is_alive]

    def _build(self, conjunctions: list[Filter]) -> None:
        """Sort predicates into layers: the first predicate of each filter on an attribute, the second, and so on."""
        layers: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for conjunction, each in enumerate(conjunctions):
            for attribute, predicates in each.by_attribute.items():
                known = self._predicates.setdefault(attribute, PredicateSet())
                for depth, predicate in enumerate(predicates):
                    members, numbers = layers.setdefault((attribute, depth), ([], []))
                    members.append(conjunction)
                    numbers.append(known.add(predicate))
        for (attribute, _), (members, numbers) in layers.items():
            self._layers.append(_Layer(attribute, np.array(members, dtype=np.intp), np.array(numbers, dtype=np.intp)))


def _parsed(number: int, text: str, parse: Callable[[str], Disjunction]) -> Disjunction:
    try:
        return parse(text)
    except InvalidFilter as error:
        raise InvalidData(f"expected a filter in the subscription {number}, got: {error}") from None


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return the column of an attribute, or nulls if it is missing; the number is not an attribute."""
    place = rows.schema.get_field_index(name) if name != KEY else -1
    return rows.column(place) if place >= 0 else pa.nulls(rows.num_rows, pa.string())


def _evaluated(
    layer: _Layer, bitmaps: Mapping[str, Bitmaps], is_alive: npt.NDArray[np.bool_], renumbered: Positions
) -> _Evaluated:
    found = bitmaps[layer.attribute]
    kept = is_alive[layer.conjunctions]
    predicates = layer.predicates[kept]
    return _Evaluated(
        found.bits, renumbered[layer.conjunctions[kept]], found.first[predicates], found.second[predicates]
    )


def _conjunctions(layers: list[_Evaluated], begin: int, end: int, everything: Words) -> Words:
    """Return the bits of the conjunctions from ``begin`` to below ``end``."""
    bits = np.repeat(everything[np.newaxis, :], end - begin, axis=0)
    for layer in layers:
        low, high = np.searchsorted(layer.conjunctions, (begin, end))
        rows = layer.bits[layer.first[low:high]]
        rows ^= layer.bits[layer.second[low:high]]
        if high - low == end - begin:
            bits &= rows
        else:
            bits[layer.conjunctions[low:high] - begin] &= rows
    return bits


def _set_bits(bits: Words) -> tuple[Positions, Positions]:
    """Return the row and the column of every set bit; only non-zero bytes, which are few, are unpacked."""
    lines = np.ascontiguousarray(bits, dtype=WORD).view(np.uint8)
    flat = lines.ravel()
    # NumPy finds true booleans several times faster than non-zero numbers.
    at = np.flatnonzero(flat != 0)
    found = np.flatnonzero(np.unpackbits(flat[at], bitorder="little").view(np.bool_))
    row, byte = np.divmod(at[found >> 3], lines.shape[1])
    return row, (byte << 3) + (found & 7)
