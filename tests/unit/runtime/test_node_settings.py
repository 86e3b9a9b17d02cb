"""What brokers on the network are told unless somebody says otherwise."""

import dataclasses

import pytest

from octopia.overlay.files import overlay_from_text
from octopia.runtime.defaults import QUEUE_CAPACITY, default_settings
from octopia.settings import Algorithm, RoutingSettings


@pytest.mark.parametrize(
    ("algorithm", "hop_limit", "capacity"),
    [
        # Four regions around one, three times: three clusters with two hops each, and a change of cluster after each.
        (Algorithm.STATIC, 9, QUEUE_CAPACITY),
        (Algorithm.DYNAMIC, 9, QUEUE_CAPACITY),
        # The tree of a flood may pass all fifteen brokers.
        (Algorithm.TID_STATIC, 15, 0),
        (Algorithm.TID_DYNAMIC, 15, 0),
    ],
)
def test_no_path_is_longer_than_the_overlay_allows(algorithm, hop_limit, capacity):
    overlay = dataclasses.replace(overlay_from_text("star:5", 3), routing=RoutingSettings(algorithm=algorithm))
    settings = default_settings(overlay)
    assert (settings.hop_limit, settings.queue_capacity) == (hop_limit, capacity)
    assert settings.routing == overlay.routing
