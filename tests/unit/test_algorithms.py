"""The hop limit of each algorithm."""

import pytest

from octopia.algorithms import hop_limit_of
from octopia.overlay.files import overlay_from_text
from octopia.settings import Algorithm


@pytest.mark.parametrize(
    ("algorithm", "limit"),
    [
        (Algorithm.STATIC, 4 * 3),
        (Algorithm.DYNAMIC, 4 * 3),
        (Algorithm.ADAPTIVE, 9 * 3 + 2),
        (Algorithm.TID_STATIC, 12),
        (Algorithm.TID_DYNAMIC, 12),
    ],
)
def test_the_hop_limit_is_that_of_the_algorithm(algorithm: Algorithm, limit: int):
    assert hop_limit_of(overlay_from_text("path:3", 4).scot, algorithm) == limit


def test_the_hop_limit_of_adaptive_routing_fits_large_overlays():
    se = overlay_from_text("paper:se").scot
    assert hop_limit_of(se, Algorithm.ADAPTIVE) == (2 * se.clusters + 1) * (se.diameter + 1) + se.diameter
