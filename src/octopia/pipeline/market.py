"""A synthetic stock market, for use without real data.

Every symbol has a price level, a risk and a correlation with the whole market. Returns are calm on most days and wild
on a few, with a larger volume. The rows of a symbol depend on the seed and on the number of the symbol alone: not on
partitions or cores, and not on the numbers of symbols and days. So a small market is the beginning of a large one.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow
from pyspark.sql import DataFrame, SparkSession

from octopia.errors import UsageError
from octopia.pipeline.schemas import BARS

FIRST_DAY = np.datetime64("2013-02-08")
"""The first day of the market, which is open on weekdays."""
MOST_DAYS = 20_000
_LETTERS = string.ascii_uppercase
_OF_THREE, _OF_FOUR = len(_LETTERS) ** 3, len(_LETTERS) ** 4
MOST_SYMBOLS = _OF_THREE + _OF_FOUR
"""The number of names with three or four letters."""
_STRIDE = 7919
"""A prime: steps of this size visit every name once, and consecutive names look different."""

_MEDIAN_PRICE, _MEDIAN_VOLUME = 60.0, 2_000_000.0
_MARKET_RISK, _OWN_RISK, _DRIFT = 0.007, 0.011, 0.0003
_WILDNESS = 0.45
"""The variation of risk itself from day to day, which makes the tails fat."""
_OVERNIGHT = 0.3
"""The share of a day's return that accrues before the market opens."""
_LOWEST_PRICE = 0.01

Numbers: TypeAlias = npt.NDArray[np.float64]


def synthetic_bars(spark: SparkSession, *, symbols: int = 500, days: int = 1000, seed: int = 0) -> DataFrame:
    """Return one bar per symbol and weekday (``BARS``); the same seed gives the same rows."""
    _check("symbols", symbols, 1, MOST_SYMBOLS)
    _check("days", days, 1, MOST_DAYS)
    _check("seed", seed, 0, 2**63 - 1)

    def bars_of(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        market = market_returns(days, seed)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield bars_of_symbol(number, market, seed)

    return spark.range(symbols).mapInArrow(bars_of, BARS)


def symbol_of(number: int) -> str:
    """Return the name of a symbol: three letters, or four once those are used up."""
    width, count = (3, _OF_THREE) if number < _OF_THREE else (4, _OF_FOUR)
    place = (number if width == 3 else number - _OF_THREE) * _STRIDE % count
    return "".join(_LETTERS[place // len(_LETTERS) ** position % len(_LETTERS)] for position in reversed(range(width)))


def market_returns(days: int, seed: int) -> Numbers:
    """Return the logarithmic return of the whole market on each day."""
    draws = np.random.default_rng([seed]).standard_normal((days, 2))
    return _MARKET_RISK * _fat_tailed(draws[:, 0], draws[:, 1])


def bars_of_symbol(number: int, market: Numbers, seed: int) -> pyarrow.RecordBatch:
    """Return all bars of one symbol."""
    generator = np.random.default_rng([seed, number + 1])
    level, size, risk, share = generator.standard_normal(4)
    draws = generator.standard_normal((len(market), 6))
    own = _OWN_RISK * np.exp(0.3 * risk) * _fat_tailed(draws[:, 0], draws[:, 1])
    returns = _DRIFT + (1 + 0.3 * share) * market + own
    prices = _prices(_MEDIAN_PRICE * np.exp(0.8 * level), returns, draws[:, 2:5])
    unrest = np.abs(returns) / (_MARKET_RISK + _OWN_RISK)
    volume = _MEDIAN_VOLUME * np.exp(size + 0.3 * draws[:, 5] + 0.3 * np.minimum(unrest, 10.0))
    columns = [
        pyarrow.array([symbol_of(number)] * len(market), pyarrow.string()),
        pyarrow.array(np.busday_offset(FIRST_DAY, np.arange(len(market)))),
        *(pyarrow.array(each) for each in prices),
        pyarrow.array(volume.astype(np.int64)),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, names=BARS.names)


def _prices(start: float, returns: Numbers, draws: Numbers) -> list[Numbers]:
    """Return open, high, low and close, rounded to cents; high and low enclose open and close."""
    close = np.log(start) + np.cumsum(returns)
    opened = close - (1 - _OVERNIGHT) * returns + 0.002 * draws[:, 0]
    high = np.maximum(opened, close) + 0.006 * np.abs(draws[:, 1])
    low = np.minimum(opened, close) - 0.006 * np.abs(draws[:, 2])
    return [np.maximum(np.round(np.exp(each), 2), _LOWEST_PRICE) for each in (opened, high, low, close)]


def _fat_tailed(draws: Numbers, moods: Numbers) -> Numbers:
    """Return draws whose spread is itself random; their variance stays 1."""
    spread: Numbers = np.exp(_WILDNESS * moods - _WILDNESS**2)
    return draws * spread


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"expected {name} from {least} to {most}, got {value}")
