"""The window in which a subscription recognises second copies, against a set that remembers everything."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.client import seen as module
from octopia.client.seen import RUNS_MAX, RUNS_OF_A_SOURCE, RUNS_PER_SOURCE, Seen
from octopia.ids import BrokerId
from plain_modules import plain_module

PLAIN = plain_module("octopia.client.seen")

A, B = BrokerId("a", 0), BrokerId("b", 1)


Name = tuple[BrokerId, int, int]


def name(number: int, host_broker: BrokerId = A, incarnation: int = 1) -> Name:
    return host_broker, incarnation, number


def runs_of(seen: Seen) -> int:
    return sum(len(ends) for _, ends in seen._sources.values())


names = st.tuples(
    st.sampled_from([A, B, BrokerId("a", 0)]),
    st.integers(1, 2),
    st.one_of(st.integers(0, 40), st.integers(2**64 - 3, 2**64 - 1)),
)


@given(st.lists(names, max_size=200))
def test_within_the_window_it_is_a_set(publications: list[Name]):
    seen, plain, oracle = Seen(), PLAIN.Seen(), set()
    for publication in publications:
        assert seen.add(*publication) == plain.add(*publication) == (publication not in oracle)
        oracle.add(publication)
    assert plain._sources == seen._sources
    # Runs are disjoint, not adjacent, and in order.
    for starts, ends in seen._sources.values():
        assert all(start <= end for start, end in zip(starts, ends, strict=True))
        assert all(end + 1 < start for end, start in zip(ends, starts[1:], strict=False))
    assert seen._cost == runs_of(seen) + RUNS_OF_A_SOURCE * len(seen._sources)


@given(st.lists(st.integers(0, 60), max_size=300), st.integers(1, 8))
def test_a_full_window_knows_the_highest_numbers_and_drops_nothing_new(numbers: list[int], kept: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RUNS_PER_SOURCE", kept)
        patch.setattr(module, "_SLACK", 2)
        seen, oracle = Seen(), set()
        for number in numbers:
            is_new = seen.add(*name(number))
            if number not in oracle:
                assert is_new
            elif number in sorted(oracle)[-kept:]:
                assert not is_new
            oracle.add(number)
            assert runs_of(seen) <= kept + 2


def test_the_least_recently_used_sources_are_forgotten_first():
    seen = Seen()
    sources = RUNS_MAX // (RUNS_OF_A_SOURCE + 1)
    for incarnation in range(sources):
        assert seen.add(*name(7, incarnation=incarnation))
    assert not seen.add(*name(7, incarnation=0))
    assert seen.add(*name(7, incarnation=sources))
    assert not seen.add(*name(7, incarnation=0))
    assert seen.add(*name(7, incarnation=1))
    assert seen._cost <= RUNS_MAX


def test_bytes_are_bounded_and_consecutive_numbers_take_none():
    seen = Seen()
    for incarnation in range(20):
        for number in range(0, 10_000, 2):
            seen.add(*name(number, incarnation=incarnation))
    held = sum(sys.getsizeof(each) for runs in seen._sources.values() for each in runs)
    assert runs_of(seen) <= RUNS_MAX
    assert held < 1.3 * 16 * RUNS_MAX  # Arrays grow by an eighth.
    dense = Seen()
    assert all(dense.add(*name(number)) for number in range(10 * RUNS_PER_SOURCE))
    assert runs_of(dense) == 1
    assert not dense.add(*name(0))
