"""Random draws that depend on a seed and a key alone.

A draw is a hash of the seed, a purpose and the row's own key. So the same seed gives the same rows, whatever the
partitioning, the number of cores and the order of the work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy
from pyspark.sql import Column
from pyspark.sql import functions as F

_T = TypeVar("_T")
_BITS = 53


def drawn(seed: int, purpose: str, *keys: Column) -> Column:
    """Return a column of numbers in [0, 1), drawn by the keys of each row."""
    hashed = F.xxhash64(F.lit(seed), F.lit(purpose), *keys)
    return F.shiftrightunsigned(hashed, 64 - _BITS).cast("double") / float(2**_BITS)


def generator(seed: int, purpose: str, *keys: int) -> numpy.random.Generator:
    """Return the random generator of one row, seeded by its keys."""
    return numpy.random.default_rng([seed % 2**64, *hashlib.sha256(purpose.encode()).digest()[:8], *keys])


def shuffled(seed: int, purpose: str, items: Sequence[_T]) -> list[_T]:
    """Return the items in an order that depends on the seed alone."""
    return [items[each] for each in generator(seed, purpose).permutation(len(items))]


def chosen(seed: int, purpose: str, items: Sequence[_T], *keys: int) -> _T:
    """Return one of the items, drawn by the keys."""
    return items[int(generator(seed, purpose, *keys).integers(len(items)))]
