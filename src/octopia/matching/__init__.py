"""Matching: which subscriptions want a publication, and which advertisements speak of it.

``Subscriptions`` and ``Advertisements`` are the two seams that brokers use; ``scan`` fulfils both by looking at every
entry, which is slow and obviously right.
"""

from octopia.matching.interface import Advertisements, Match, MatcherFactory, Subscriptions
from octopia.matching.scan import SCAN, ScanAdvertisements, ScanSubscriptions

__all__ = [
    "SCAN",
    "Advertisements",
    "Match",
    "MatcherFactory",
    "ScanAdvertisements",
    "ScanSubscriptions",
    "Subscriptions",
]
