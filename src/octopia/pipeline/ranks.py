"""Ranks of the values of one attribute in a batch of publications, and sets of publications as bits.

A row of bits has one bit per publication. Row ``r`` of an attribute's table of bits has the publications whose value is
among the ``r`` smallest distinct ones, so an interval of values is the difference (XOR) of two rows.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import InvalidData

Words: TypeAlias = npt.NDArray[np.uint64]
Positions: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]

WORD = np.dtype("<u8")
"""The type of words of bits: publication ``n`` is bit ``n % 64`` of word ``n // 64``."""
_BITS = 64


class Kind(enum.Enum):
    """The type of a column."""

    TEXT = "string"
    WHOLE = "int64"
    DOUBLE = "double"
    YES_NO = "bool"


@dataclass(frozen=True, slots=True)
class Ranked:
    """The distinct values of a column in order, and the rank of each row's value; null has the rank after the last."""

    values: Any
    ranks: Positions

    @classmethod
    def of(cls, column: pa.Array, kind: Kind) -> Ranked:
        """Return the ranked values of a column."""
        if kind is Kind.TEXT:
            return cls._of_texts(column)
        present = np.asarray(pc.is_valid(column))
        plain = column.drop_null().to_numpy(zero_copy_only=False)
        values, inverse = np.unique(plain.astype(np.int8) if kind is Kind.YES_NO else plain, return_inverse=True)
        ranks = np.full(len(column), len(values), dtype=np.intp)
        ranks[present] = inverse
        return cls(values, ranks)

    @classmethod
    def _of_texts(cls, column: pa.Array) -> Ranked:
        # Not with NumPy, which ignores null characters at the end of a string.
        encoded = column.cast(pa.string()).dictionary_encode()
        texts: list[str] = encoded.dictionary.to_pylist()
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank_of = np.empty(len(texts) + 1, dtype=np.intp)
        rank_of[order] = np.arange(len(texts))
        rank_of[-1] = len(texts)
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        return cls([texts[each] for each in order], rank_of[codes])


def kind_of(column: pa.DataType) -> Kind:
    """Return the kind of a column; a column of the null type counts as text."""
    if pa.types.is_string(column) or pa.types.is_large_string(column) or pa.types.is_null(column):
        return Kind.TEXT
    for kind in (Kind.WHOLE, Kind.DOUBLE, Kind.YES_NO):
        if str(column) == kind.value:
            return kind
    raise InvalidData(f"expected an attribute as a string, int64, double or bool, got {column}")


def threshold_bits(ranked: Ranked, spare: int) -> Words:
    """Return a table whose row ``r`` has the publications of ranks below ``r``, then a row of all, then spare rows."""
    size, rows = len(ranked.values), len(ranked.ranks)
    bits = np.zeros((size + 2 + spare, words_for(rows)), dtype=WORD)
    present = np.flatnonzero(ranked.ranks < size)
    # Each row gets the publications of one rank, and then those of all rows before it.
    single = np.left_shift(np.uint64(1), (present % _BITS).astype(WORD))
    np.bitwise_or.at(bits, (ranked.ranks[present] + 1, present // _BITS), single)
    np.bitwise_or.accumulate(bits[: size + 1], axis=0, out=bits[: size + 1])
    bits[size + 1] = packed(np.ones(rows, dtype=np.bool_))
    return bits


def words_for(rows: int) -> int:
    """Return the number of words with one bit per row."""
    return -(-rows // _BITS)


def packed(mask: Mask) -> Words:
    """Return a mask as bits."""
    padded = np.zeros(words_for(len(mask)) * _BITS, dtype=np.bool_)
    padded[: len(mask)] = mask
    return cast(Words, np.packbits(padded, bitorder="little").view(WORD))
