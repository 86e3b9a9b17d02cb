"""The fast engine of the truth: many subscriptions against batches of publications, by NumPy.

A ``Matcher`` takes filters in their normal form. A batch is cut into slices of some thousand publications; in a slice
each predicate is a row of bits (see ``questions``), a filter is the AND of its predicates' rows, and a subscription the
OR of its filters'. Filters with a predicate that no publication of the slice fulfils drop out first. What is left is
computed for blocks of subscriptions, so that the memory is bounded and lies in the cache.

There is no Spark in here: Arrow in, pairs of arrays out.
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
from octopia.pipeline.questions import Answers, Questions
from octopia.pipeline.ranks import WORD, Places, Words, packed

Numbers: TypeAlias = npt.NDArray[np.int64]
Pairs: TypeAlias = tuple[Numbers, Numbers]
"""The numbers of publications, and those of the subscriptions that they match."""

KEY = "number"
"""The column with the number of a publication; every other one is an attribute."""
ROWS_MAX = 2048
"""Publications of a slice."""
BLOCK = 256
"""Subscriptions of a block; with ``ROWS_MAX`` it bounds how many pairs come at once."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """For some conjunctions, in order, one predicate about the same attribute each."""

    attribute: str
    conjunctions: Places
    predicates: Places


@dataclass(frozen=True, slots=True)
class _Asked:
    """A layer with the answers about a slice, for the conjunctions that can still match."""

    bits: Words
    conjunctions: Places
    first: Places
    second: Places


class Matcher:
    """Finds the matches of a fixed set of subscriptions, given by their numbers and the texts of their filters."""

    def __init__(self, filters: Iterable[tuple[int, str]], parse: Callable[[str], Disjunction] = parse_filter):
        self._questions: dict[str, Questions] = {}
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
        self._owners: Places = np.array(owners, dtype=np.intp)
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
        """Give the pairs of a batch, at most ``ROWS_MAX`` times ``BLOCK`` of them at once."""
        for start in range(0, batch.num_rows, ROWS_MAX):
            rows = batch.slice(start, ROWS_MAX)
            numbers = rows.column(KEY).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            for subscriptions, bits in self._blocks(rows):
                which, row = _set_bits(bits)
                if len(row):
                    yield numbers[row], self._numbers[subscriptions[which]]

    def _blocks(self, rows: pa.RecordBatch) -> Iterator[tuple[Places, Words]]:
        """Give the bits of some subscriptions at a time."""
        layers, owners = self._ask(rows)
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

    def _ask(self, rows: pa.RecordBatch) -> tuple[list[_Asked], Places]:
        """Answer all predicates; conjunctions with one that is never true are left out, and the others renumbered."""
        answers = {name: asked.ask(_column(rows, name)) for name, asked in self._questions.items()}
        is_alive = np.ones(len(self._owners), dtype=np.bool_)
        for layer in self._layers:
            about = answers[layer.attribute]
            is_never = about.first == about.second
            is_alive[layer.conjunctions[is_never[layer.predicates]]] = False
        renumbered = np.cumsum(is_alive) - 1
        return [_asked(each, answers, is_alive, renumbered) for each in self._layers], self._owners[is_alive]

    def _build(self, conjunctions: list[Filter]) -> None:
        """Sort predicates into layers: the first one of each filter about an attribute, the second one, and so on."""
        layers: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for conjunction, each in enumerate(conjunctions):
            for attribute, predicates in each.by_attribute.items():
                questions = self._questions.setdefault(attribute, Questions())
                for depth, predicate in enumerate(predicates):
                    members, asked = layers.setdefault((attribute, depth), ([], []))
                    members.append(conjunction)
                    asked.append(questions.add(predicate))
        for (attribute, _), (members, asked) in layers.items():
            self._layers.append(_Layer(attribute, np.array(members, dtype=np.intp), np.array(asked, dtype=np.intp)))


def _parsed(number: int, text: str, parse: Callable[[str], Disjunction]) -> Disjunction:
    try:
        return parse(text)
    except InvalidFilter as error:
        raise InvalidData(f"expected a filter in the subscription {number}, got: {error}") from None


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return the column of an attribute; one that is not there is null in every row, and the number is none."""
    place = rows.schema.get_field_index(name) if name != KEY else -1
    return rows.column(place) if place >= 0 else pa.nulls(rows.num_rows, pa.string())


def _asked(
    layer: _Layer, answers: Mapping[str, Answers], is_alive: npt.NDArray[np.bool_], renumbered: Places
) -> _Asked:
    about = answers[layer.attribute]
    kept = is_alive[layer.conjunctions]
    predicates = layer.predicates[kept]
    return _Asked(about.bits, renumbered[layer.conjunctions[kept]], about.first[predicates], about.second[predicates])


def _conjunctions(layers: list[_Asked], begin: int, end: int, everything: Words) -> Words:
    """Return the bits of the conjunctions from one number to another."""
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


def _set_bits(bits: Words) -> tuple[Places, Places]:
    """Return the row and the column of every bit that is set, by way of the few bytes that are not zero."""
    lines = np.ascontiguousarray(bits, dtype=WORD).view(np.uint8)
    flat = lines.ravel()
    # Of booleans NumPy finds the true ones several times faster than of other numbers those that are not zero.
    at = np.flatnonzero(flat != 0)
    found = np.flatnonzero(np.unpackbits(flat[at], bitorder="little").view(np.bool_))
    row, byte = np.divmod(at[found >> 3], lines.shape[1])
    return row, (byte << 3) + (found & 7)
