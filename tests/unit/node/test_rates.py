"""The rate at which a client may publish: how much passes, and for how long it waits."""

import pytest

from octopia.node.rates import PublishingRate, window_for
from octopia.settings import UNLIMITED, Limit, ResourceLimits


def limits(publications: float = 0, size_bytes: float = 0) -> ResourceLimits:
    return ResourceLimits(publications_per_second_per_client=publications, bytes_per_second_per_client=size_bytes)


def test_a_second_of_publications_may_come_at_once():
    rate = PublishingRate(limits(publications=10), 0.0)
    assert rate.spend(9, 9_000, 0.0) is None
    assert rate.spend(1, 1_000, 0.0) is Limit.PUBLICATION_RATE
    assert rate.recovered_ms == 100.0


def test_publications_that_were_on_their_way_are_paid_later():
    rate = PublishingRate(limits(publications=10), 0.0)
    assert rate.spend(30, 0, 0.0) is Limit.PUBLICATION_RATE
    assert rate.recovered_ms == 2_100.0


def test_the_average_holds_for_a_client_that_takes_all_it_can():
    rate, now_ms, published = PublishingRate(limits(publications=10), 0.0), 0.0, 0
    while now_ms < 100_000.0:
        rate.spend(7, 0, now_ms)
        published += 7
        now_ms = max(now_ms, rate.recovered_ms)
    assert published == pytest.approx(1_010, abs=10)


def test_an_idle_client_saves_no_more_than_a_second():
    rate = PublishingRate(limits(size_bytes=1_000), 0.0)
    assert rate.spend(1, 999, 3_600_000.0) is None
    assert rate.spend(1, 1, 3_600_000.0) is Limit.BYTE_RATE


def test_both_rates_hold():
    rate = PublishingRate(limits(publications=1_000, size_bytes=1_000), 0.0)
    assert rate.spend(10, 3_000, 0.0) is Limit.BYTE_RATE
    assert rate.recovered_ms == 2_001.0


def test_a_rate_below_one_per_second():
    rate = PublishingRate(limits(publications=0.5), 0.0)
    assert rate.spend(1, 0, 0.0) is Limit.PUBLICATION_RATE
    assert rate.recovered_ms == 2_000.0


def test_the_window_lasts_for_a_tenth_of_a_second():
    assert window_for(UNLIMITED, 65_536) == 65_536
    assert window_for(limits(publications=10), 65_536) == 128
    assert window_for(limits(publications=0.001), 65_536) == 1
    assert window_for(limits(size_bytes=5_000), 65_536) == 500
    assert window_for(limits(publications=1e6, size_bytes=1e9), 65_536) == 65_536
