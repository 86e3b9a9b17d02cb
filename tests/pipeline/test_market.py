import pandas as pd
import pytest
from pyspark.sql import SparkSession

from octopia.errors import UsageError
from octopia.pipeline.market import MOST_SYMBOLS, bars_of_symbol, market_returns, symbol_of, synthetic_bars
from octopia.pipeline.schemas import BARS, PRICES


def bars(spark: SparkSession, seed: int = 7) -> pd.DataFrame:
    frame = synthetic_bars(spark, symbols=9, days=50, seed=seed)
    assert frame.schema == BARS
    return frame.toPandas().sort_values(["symbol", "date"], ignore_index=True)


def large_market() -> pd.DataFrame:
    market = market_returns(1000, 3)
    return pd.concat([bars_of_symbol(number, market, 3).to_pandas() for number in range(40)], ignore_index=True)


def test_same_rows_whatever_the_partitions(spark: SparkSession):
    found = {}
    for partitions in (1, 2, 8):
        spark.conf.set("spark.sql.leafNodeDefaultParallelism", partitions)
        try:
            found[partitions] = bars(spark)
        finally:
            spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    assert len(found[1]) == 9 * 50
    pd.testing.assert_frame_equal(found[1], found[2], check_exact=True)
    pd.testing.assert_frame_equal(found[1], found[8], check_exact=True)
    expected = pd.concat([bars_of_symbol(number, market_returns(50, 7), 7).to_pandas() for number in range(9)])
    expected = expected.sort_values(["symbol", "date"], ignore_index=True)
    pd.testing.assert_frame_equal(found[1], expected, check_exact=True)


def test_another_seed_gives_other_rows():
    one, other = (bars_of_symbol(0, market_returns(50, seed), seed).to_pandas() for seed in (1, 2))
    assert (one["close"] != other["close"]).all()
    assert (one["volume"] != other["volume"]).all()


def test_small_market_is_the_beginning_of_a_large_one():
    short, long = (bars_of_symbol(3, market_returns(days, 0), 0) for days in (20, 200))
    assert long.slice(0, 20).equals(short)


def test_bars_are_bars():
    found = large_market()
    prices = found[list(PRICES)]
    assert (found["high"] >= prices.max(axis=1)).all()
    assert (found["low"] <= prices.min(axis=1)).all()
    assert (found["low"] > 0).all()
    assert (prices == prices.round(2)).all().all()
    assert (found["volume"] > 0).all()
    assert not found.duplicated(["symbol", "date"]).any()
    dates = pd.to_datetime(found["date"])
    assert dates.min() == pd.Timestamp("2013-02-08")
    assert dates.dt.dayofweek.max() == 4
    assert dates.nunique() == 1000


def test_market_is_plausible():
    found = large_market()
    returns = found.groupby("symbol")["close"].pct_change()
    assert 0.008 < returns.std() < 0.03
    assert returns.kurt() > 1  # tails fatter than those of a normal distribution
    together = found.assign(returns=returns).pivot(index="date", columns="symbol", values="returns").corr()
    assert together.to_numpy().mean() > 0.15  # all symbols share the market
    ratio = found["volume"] / found.groupby("symbol")["volume"].transform("median")
    assert returns.abs().corr(ratio) > 0.3


def test_symbols_are_unique_letters():
    names = [symbol_of(number) for number in (*range(20_000), MOST_SYMBOLS - 1)]
    assert len(set(names)) == len(names)
    assert all(name.isalpha() and name.isupper() and len(name) in (3, 4) for name in names)


@pytest.mark.parametrize("wrong", [{"symbols": 0}, {"symbols": MOST_SYMBOLS + 1}, {"days": 0}, {"seed": -1}])
def test_refuses_impossible_markets(spark: SparkSession, wrong: dict[str, int]):
    with pytest.raises(UsageError, match=f"expected {next(iter(wrong))} from .* to .*, got"):
        synthetic_bars(spark, **wrong)
