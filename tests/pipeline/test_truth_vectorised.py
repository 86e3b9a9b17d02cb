from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truth_cases import EDGES, carried, publications, table_of, trees

from octopia.content import Expression, Value, evaluate, normalise
from octopia.errors import FilterTooLarge, InvalidData
from octopia.pipeline import vectorised
from octopia.pipeline.vectorised import Matcher


def pairs_of(matcher: Matcher, batch: pa.RecordBatch) -> list[tuple[int, int]]:
    return sorted(zip(*(each.tolist() for each in matcher.match(batch)), strict=True))


@settings(max_examples=200, deadline=None)
@given(st.lists(trees, min_size=1, max_size=8), st.lists(publications, min_size=1, max_size=12), st.integers(1, 8))
def test_it_finds_what_brokers_find(asked: list[Expression], rows: list[dict[str, Value | None]], block: int):
    forms = {}
    for tree in asked:
        try:
            forms[f"{len(forms)}"] = tree, normalise(tree)
        except FilterTooLarge:
            continue
    expected = [
        (row, int(number))
        for row, values in enumerate(rows)
        for number, (tree, _) in forms.items()
        if evaluate(tree, carried(values)) is True
    ]
    with pytest.MonkeyPatch.context() as patch:
        # Small slices, so that there are several.
        patch.setattr(vectorised, "BLOCK", block)
        patch.setattr(vectorised, "ROWS_MAX", 7)
        # Infinities have no literal, so trees bypass the parser.
        matcher = Matcher(((int(number), number) for number in forms), lambda text: forms[text][1])
        assert pairs_of(matcher, table_of(rows)) == expected


@pytest.mark.parametrize(("text", "values", "answer"), EDGES)
def test_edge(text: str, values: dict[str, Value], answer: bool | None):
    matcher = Matcher([(7, text), (8, f"NOT ({text})")])
    expected = [] if answer is None else [(0, 7 if answer else 8)]
    assert pairs_of(matcher, table_of([values])) == expected


def test_pairs_have_the_numbers_of_the_batch_and_of_the_filters():
    batch = pa.record_batch({"number": [30, 10, 20], "w": [1, 2, 3]})
    matcher = Matcher([(5, "w >= 2"), (3, "FALSE"), (4, "w = 1 OR w = 2 OR w = 2"), (9, "TRUE")])
    assert pairs_of(matcher, batch) == [(10, 4), (10, 5), (10, 9), (20, 5), (20, 9), (30, 4), (30, 9)]


def test_chunks_are_bounded_and_are_all_that_matches():
    rows, subscriptions = vectorised.ROWS_MAX + 100, vectorised.BLOCK + 10
    batch = pa.record_batch({"number": np.arange(rows), "w": np.arange(rows)})
    matcher = Matcher((number, f"w >= {number}") for number in range(subscriptions))
    sizes = [len(found) for found, _ in matcher.chunks(batch)]
    assert max(sizes) <= vectorised.ROWS_MAX * vectorised.BLOCK
    assert sum(sizes) == sum(rows - number for number in range(subscriptions))


@pytest.mark.parametrize("matcher", [Matcher([]), Matcher([(0, "FALSE")]), Matcher([(0, "w > 5")])])
def test_nothing_matches(matcher: Matcher):
    assert pairs_of(matcher, table_of([{"w": 1}])) == []
    assert pairs_of(matcher, table_of([])) == []


def test_a_matcher_takes_columns_of_another_type_with_the_next_batch():
    matcher = Matcher([(0, "x >= 2"), (1, "x = 'a'"), (2, "x IS NOT NULL")])
    assert pairs_of(matcher, pa.record_batch({"number": [1], "x": pa.array([2], pa.int64())})) == [(1, 0), (1, 2)]
    assert pairs_of(matcher, pa.record_batch({"number": [2], "x": pa.array([2.5])})) == [(2, 0), (2, 2)]
    assert pairs_of(matcher, pa.record_batch({"number": [3], "x": pa.array(["a"], pa.large_string())})) == [
        (3, 1),
        (3, 2),
    ]
    assert pairs_of(matcher, pa.record_batch({"number": [4], "x": pa.nulls(1)})) == []


def test_a_bad_filter_is_refused_with_its_number():
    with pytest.raises(InvalidData, match="subscription 4, got: expected"):
        Matcher([(3, "x = 1"), (4, "x = = 1")])


def test_a_column_of_another_type_is_refused():
    with pytest.raises(InvalidData, match="int64, double or bool, got decimal"):
        Matcher([(3, "x = 1")]).match(pa.record_batch({"number": [1], "x": pa.nulls(1, pa.decimal128(9, 2))}))
