"""Matching: finding the subscriptions and advertisements that a publication or filter concerns.

Brokers use the protocols ``Subscriptions`` and ``Advertisements``. ``SCAN`` implements both by reading every entry,
which is slow and obviously right. ``INDEX`` gives the same answers from bitmaps; its kernel is compiled if possible
(``IS_COMPILED``) and plain Python otherwise.
"""

from octopia.matching.index import INDEX, IS_COMPILED, IndexAdvertisements, IndexSubscriptions
from octopia.matching.interface import Advertisements, MatcherFactory, Subscriptions
from octopia.matching.matched import Match
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
