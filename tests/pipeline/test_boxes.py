import numpy
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.content import Publication, matches, parse_filter
from octopia.pipeline.boxes import Box, RankSpace, filter_text, hull
from octopia.pipeline.vectorised import Matcher


def pool_of(size: int, seed: int) -> pyarrow.Table:
    chance = numpy.random.default_rng(seed)
    price = chance.lognormal(4, 1, size)
    return pyarrow.table(
        {
            "symbol": [f"S{number:03}" for number in chance.integers(0, 40, size)],
            "date": chance.integers(20_180_101, 20_180_131, size),
            "open": price,
            "close": numpy.round(price * chance.lognormal(0, 0.05, size), 2),
            "volume": chance.integers(1, 10_000, size),
        }
    )


def inside(pool: pyarrow.Table, text: str) -> int:
    wanted = parse_filter(text)
    return sum(matches(wanted, Publication(row)) for row in pool.to_pylist())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), anchor=st.integers(0, 599), wanted=st.sampled_from([1, 6, 12, 24, 120, 600]))
def test_a_box_holds_its_anchor_and_about_as_many_as_wanted(seed, anchor, wanted):
    pool = pool_of(600, seed)
    text = filter_text(RankSpace(pool).box(anchor, wanted))
    count = inside(pool, text)
    assert matches(parse_filter(text), Publication(pool.slice(anchor, 1).to_pylist()[0]))
    assert 0.6 * wanted <= count <= 1.3 * wanted + 1


def test_boxes_reach_the_wanted_share_on_average():
    pool = pool_of(2000, 7)
    space = RankSpace(pool)
    counts = [inside(pool, filter_text(space.box(anchor, 40))) for anchor in range(0, 2000, 100)]
    assert sum(counts) / len(counts) == pytest.approx(40, rel=0.1)


@pytest.mark.parametrize("share", [0.02, 0.04, 0.001])
def test_boxes_reach_the_shares_of_the_paper(share):
    pool = pool_of(20_000, 11)
    space = RankSpace(pool)
    texts = [filter_text(space.box(anchor, round(share * pool.num_rows))) for anchor in range(0, 20_000, 400)]
    numbered = pool.append_column("number", pyarrow.array(range(pool.num_rows)))
    matcher = Matcher(enumerate(texts))
    found = sum(len(matcher.match(batch)[0]) for batch in numbered.to_batches(max_chunksize=2048))
    assert found / (pool.num_rows * len(texts)) == pytest.approx(share, rel=0.1)


def test_a_box_does_not_depend_on_where_ties_stand():
    # All values but one are equal, so every choice among the nearest is a choice among ties.
    pool = pyarrow.table({"symbol": ["A"] * 9 + ["B"], "open": [1.0] * 9 + [2.0]})
    assert RankSpace(pool).box(0, 3) == Box({"open": (1.0, 1.0)}, first_symbol="A", last_symbol="A")


def test_a_filter_of_a_box_reads_back_as_its_ranges():
    text = filter_text(Box({"open": (1.5, 2.25), "volume": (7, 9)}, ("IT'S", "X")))
    assert text == "symbol IN ('IT''S', 'X') AND open BETWEEN 1.5 AND 2.25 AND volume BETWEEN 7 AND 9"
    assert matches(parse_filter(text), Publication({"symbol": "IT'S", "open": 2.25, "volume": 7}))
    assert not matches(parse_filter(text), Publication({"symbol": "X", "open": 2.26, "volume": 7}))


def test_the_hull_of_boxes_takes_what_each_takes():
    one, other = Box({"open": (1.0, 2.0)}, ("A", "B")), Box({"open": (5.0, 6.0)}, ("B", "C"))
    assert hull([one, other]) == Box({"open": (1.0, 6.0)}, ("A", "B", "C"))


def test_two_boxes_make_a_filter_that_takes_either():
    text = filter_text(Box({"open": (1.0, 2.0)}, ("A",)), Box({"open": (5.0, 6.0)}, ("Z",)))
    assert text == "symbol = 'A' AND open BETWEEN 1.0 AND 2.0 OR symbol = 'Z' AND open BETWEEN 5.0 AND 6.0"
