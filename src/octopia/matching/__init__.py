"""Matching: which subscriptions want a publication, and which advertisements speak of it.

``Subscriptions`` and ``Advertisements`` are the two seams that brokers use. ``SCAN`` fulfils both by looking at every
entry, which is slow and obviously right; ``INDEX`` gives the same answers from bitmaps. Its kernel is compiled where
that was possible (``IS_COMPILED``), and plain Python elsewhere.
"""

from octopia.matching.index import INDEX, IS_COMPILED, IndexAdvertisements, IndexSubscriptions
from octopia.matching.interface import Advertisements, Match, MatcherFactory, Subscriptions
from octopia.matching.scan import SCAN, ScanAdvertisements, ScanSubscriptions

__all__ = [
    "INDEX",
    "IS_COMPILED",
    "SCAN",
    "Advertisements",
    "IndexAdvertisements",
    "IndexSubscriptions",
    "Match",
    "MatcherFactory",
    "ScanAdvertisements",
    "ScanSubscriptions",
    "Subscriptions",
]
