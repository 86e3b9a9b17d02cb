"""Congestion by time: Eq. 3 mended, waiting times, probes, and the pace of a link."""

import pytest

from octopia.broker.congestion import CongestionLimits, Hold, LinkLoad, Pace, Rule, is_congested, rule_of, work_of

LIMITS = CongestionLimits()


@pytest.mark.parametrize(
    ("load", "congested"),
    [
        (LinkLoad(0), False),
        (LinkLoad(10), False),
        (LinkLoad(11), True),
        (LinkLoad(6, entered=1, left=0), True),
        (LinkLoad(5, entered=1, left=0), False),
        # Eq. 3 as printed says 60 * 1 / 31 < 10: the link was avoided for a window, and looks free.
        (LinkLoad(60, entered=0, left=30), True),
        (LinkLoad(1, copy_ms=50.0), False),
        (LinkLoad(1, copy_ms=50.1), True),
        (LinkLoad(10, copy_ms=5.0), False),
        (LinkLoad(10, copy_ms=5.1), True),
        (LinkLoad(0, copy_ms=200.0, idle_ms=4_999.0), True),
        (LinkLoad(0, copy_ms=200.0, idle_ms=5_000.0), False),
        (LinkLoad(0, copy_ms=50.0, idle_ms=0.0), False),
        (LinkLoad(0, copy_ms=15.0, idle_ms=0.0, under_way_ms=50.0), False),
        (LinkLoad(0, copy_ms=15.0, idle_ms=0.0, under_way_ms=50.1), True),
        (LinkLoad(2, copy_ms=15.0, under_way_ms=20.0), False),
        (LinkLoad(2, copy_ms=15.0, under_way_ms=20.1), True),
    ],
)
def test_verdicts(load: LinkLoad, congested: bool):
    assert is_congested(load, LIMITS) is congested


@pytest.mark.parametrize(
    ("load", "congested"),
    [
        (LinkLoad(1, copy_ms=60.0), False),
        (LinkLoad(1, copy_ms=80.0), True),
        (LinkLoad(0, copy_ms=60.0, idle_ms=0.0), False),
        (LinkLoad(0, copy_ms=60.0, idle_ms=0.0, under_way_ms=120.0), False),
        (LinkLoad(0, copy_ms=80.0, idle_ms=0.0, under_way_ms=120.0), True),
        (LinkLoad(11, copy_ms=60.0), True),
        (LinkLoad(11), True),
    ],
)
def test_time_counts_only_against_a_link_that_is_slower_than_the_others(load: LinkLoad, congested: bool):
    assert is_congested(load, LIMITS, usual_ms=40.0) is congested


def test_the_rule_of_a_verdict_comes_with_its_time():
    limits = LIMITS
    assert rule_of(LinkLoad(20), limits) == (Rule.LENGTH, 0.0)
    assert rule_of(LinkLoad(3, copy_ms=30.0, idle_ms=0.0), limits) == (Rule.TIME, 90.0)
    assert rule_of(LinkLoad(0, copy_ms=200.0, idle_ms=100.0), limits) == (Rule.SLOW, 200.0)
    assert rule_of(LinkLoad(0, copy_ms=200.0, idle_ms=6_000.0), limits) is None
    hold = Hold(limits)
    assert hold.is_congested(LinkLoad(20), 100.0)
    assert hold.rule(LinkLoad(20), 100.0) == (Rule.LENGTH, 0.0)
    assert hold.rule(LinkLoad(0), 300.0) == (Rule.HELD, 300.0)


def test_a_verdict_is_held():
    hold = Hold(LIMITS)
    assert not hold.is_congested(LinkLoad(10), 0.0)
    assert hold.is_congested(LinkLoad(11), 100.0)
    assert hold.is_congested(LinkLoad(0), 599.0)
    assert not hold.is_congested(LinkLoad(0), 600.0)
    assert hold.is_congested(LinkLoad(11), 700.0)
    assert hold.is_congested(LinkLoad(11), 1_100.0)
    assert hold.is_congested(LinkLoad(10), 1_599.0)


def test_the_time_of_all_holds_is_counted_up_to_now():
    hold = Hold(LIMITS)
    hold.is_congested(LinkLoad(11), 100.0)
    assert [hold.congested_ms(now_ms) for now_ms in (100.0, 150.0, 600.0, 650.0)] == [0.0, 50.0, 500.0, 500.0]
    hold.is_congested(LinkLoad(11), 700.0)
    hold.is_congested(LinkLoad(11), 1_100.0)
    assert hold.congested_ms(1_100.0) == 900.0
    assert hold.congested_ms(9_999.0) == 500.0 + 900.0


def test_a_look_at_a_link_holds_no_verdict():
    hold = Hold(LIMITS)
    assert hold.looks_congested(LinkLoad(11), 100.0)
    assert not hold.looks_congested(LinkLoad(10), 101.0)
    assert hold.congested_ms(1_000.0) == 0.0


def test_work_is_counted_in_copies_until_a_pace_is_known():
    assert work_of(LinkLoad(20), None) == 20
    assert work_of(LinkLoad(20), 3.0) == 63
    assert work_of(LinkLoad(20, copy_ms=10.0), 3.0) == 210
    assert work_of(LinkLoad(0), 3.0) == 3
    assert work_of(LinkLoad(1, copy_ms=10.0, under_way_ms=15.0), 3.0) == 35


class TestPace:
    def test_nothing_is_known_at_first(self):
        pace = Pace(50.0, 5_000.0)
        assert pace.copy_ms(0.0) is None
        assert pace.idle_ms(0.0) is None

    def test_the_mean_of_a_window_counts_when_it_closes(self):
        pace = Pace(50.0, 5_000.0)
        for start_ms in (0.0, 10.0):
            pace.start(start_ms)
            pace.finish(start_ms + 4.0)
        assert pace.copy_ms(50.0) == 4.0
        pace.start(51.0)
        pace.finish(53.0)
        assert pace.copy_ms(54.0) == 4.0
        assert pace.copy_ms(100.0) == 3.0
        assert pace.copy_ms(70_000.0) == 3.0

    def test_a_copy_that_took_longer_counts_at_once(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0)
        pace.finish(4.0)
        pace.start(51.0)
        pace.finish(71.0)
        assert pace.copy_ms(72.0) == 20.0
        assert pace.copy_ms(100.0) == 12.0

    def test_after_a_long_idle_time_a_measurement_is_replaced(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0)
        pace.finish(200.0)
        pace.start(5_200.0)
        pace.finish(5_203.0)
        assert pace.copy_ms(5_204.0) == 200.0
        assert pace.copy_ms(5_250.0) == 3.0

    def test_copies_on_a_link_are_served_one_after_the_other(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0, 5)
        for number in range(1, 6):
            pace.finish(3.0 * number)
        assert pace.copy_ms(50.0) == 3.0

    def test_copies_may_be_acknowledged_together(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0, 5)
        pace.finish(10.0, 5)
        assert pace.copy_ms(50.0) == 2.0

    def test_the_copy_that_is_being_carried_counts_already(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0)
        assert pace.copy_ms(30.0) == 30.0
        pace.finish(40.0)
        pace.start(50.0)
        assert pace.copy_ms(60.0) == 40.0
        assert pace.copy_ms(200.0) == 150.0
        assert pace.idle_ms(200.0) == 0.0

    def test_copies_that_were_written_take_their_time_beyond_the_latency(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0)
        assert pace.under_way_ms(10.0) == 0.0
        pace.finish(20.0, is_acknowledgement=True)
        pace.start(50.0, 4)
        pace.finish(100.0, 2, is_acknowledgement=True)
        pace.start(100.0, 5)
        # 0 in the first window and 15 ms per copy in the second.
        assert pace.under_way_ms(150.0) == 7 * 7.5 - 20.0

    def test_idle_time_runs_from_the_last_copy(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0)
        pace.finish(40.0)
        assert pace.idle_ms(140.0) == 100.0

    def test_everything_is_forgotten_when_the_link_goes_down(self):
        pace = Pace(50.0, 5_000.0)
        pace.start(0.0)
        pace.finish(40.0)
        pace.start(60.0)
        pace.forget()
        assert pace.copy_ms(100.0) is None
        assert pace.idle_ms(100.0) is None


def waits_on_link(
    paces_ms: list[tuple[float, float]], until_ms: int = 30_000, offered_every_ms: int = 3
) -> list[float]:
    """Return the waits of the copies that take a link; those that find it congested go another way.

    ``paces_ms`` has the time per copy, and since when it holds.
    """
    pace, waits = Pace(50.0, 5_000.0), []
    queue: list[float] = []
    carried_until_ms: float | None = None
    for tick in range(until_ms):
        now_ms = float(tick)
        if carried_until_ms is not None and now_ms >= carried_until_ms:
            pace.finish(now_ms)
            carried_until_ms = None
        if tick % offered_every_ms == 0:
            load = LinkLoad(len(queue), copy_ms=pace.copy_ms(now_ms), idle_ms=pace.idle_ms(now_ms))
            if not is_congested(load, LIMITS):
                queue.append(now_ms)
        if carried_until_ms is None and queue:
            waits.append(now_ms - queue.pop(0))
            pace.start(now_ms)
            carried_until_ms = now_ms + next(each for since_ms, each in reversed(paces_ms) if now_ms >= since_ms)
    return waits


def test_a_slow_link_gets_little_more_than_probes():
    waits = waits_on_link([(0.0, 200.0)])
    assert max(waits) < 800.0
    assert len(waits) < 12


def test_a_link_that_becomes_slow_is_noticed_at_once():
    waits = waits_on_link([(0.0, 3.0), (10_000.0, 200.0)])
    assert max(waits) < 800.0
    assert sum(each > 50.0 for each in waits) < 12


def test_a_link_that_recovers_is_used_again():
    waits = waits_on_link([(0.0, 200.0), (10_000.0, 3.0)])
    assert len(waits) > 20_000 / 3 * 0.7


def test_a_link_that_is_fast_enough_is_used_fully():
    waits = waits_on_link([(0.0, 5.0)])
    assert max(waits) <= 60.0
    assert len(waits) > 30_000 / 5 * 0.9


def delays_on_acknowledged_link(
    copy_ms: float, latency_ms: float = 1.0, window: int = 57, every_ms: int = 10
) -> list[float]:
    """Return the delays of the copies that take a link which acknowledges them, and has buffers for a whole window."""
    pace, delays = Pace(50.0, 5_000.0), []
    queue: list[float] = []
    acknowledgements_ms: list[float] = []
    free_ms = 0.0
    for tick in range(20_000):
        now_ms = float(tick)
        while acknowledgements_ms and now_ms >= acknowledgements_ms[0]:
            acknowledgements_ms.pop(0)
            pace.finish(now_ms, is_acknowledgement=True)
        if tick % every_ms == 0:
            known = pace.copy_ms(now_ms), pace.idle_ms(now_ms), pace.under_way_ms(now_ms)
            if not is_congested(LinkLoad(len(queue), 0, 0, *known), LIMITS):
                queue.append(now_ms)
        while queue and len(acknowledgements_ms) < window:
            pace.start(now_ms)
            free_ms = max(free_ms, now_ms) + copy_ms
            acknowledgements_ms.append(free_ms + latency_ms)
            delays.append(free_ms + latency_ms - queue.pop(0))
    return delays


def test_buffers_below_the_broker_do_not_hide_a_slow_link():
    """A window of 57 copies takes 1.7 seconds at 30 ms per copy."""
    delays = delays_on_acknowledged_link(30.0)
    assert max(delays) < 250.0
    assert len(delays) > 20_000 / 30.0 * 0.9, "and the link is used"


@pytest.mark.parametrize("latency_ms", [1.0, 60.0, 200.0])
def test_a_distant_link_is_not_a_slow_one(latency_ms: float):
    """Only copies that come before the first acknowledgement may find it congested."""
    assert len(delays_on_acknowledged_link(1.0, latency_ms)) >= 2_000 - latency_ms / 10.0


class TestHeldAcknowledgements:
    def test_copies_that_were_apart_are_no_busy_link(self):
        """Five copies, 4 ms apart, arrive after 1 ms each; one acknowledgement covers them."""
        pace = Pace(50.0, 5_000.0, ack_ms=20.0)
        pace.start(0.0)
        pace.finish(1.0, is_acknowledgement=True)
        for start_ms in (4.0, 8.0, 12.0, 16.0, 20.0):
            pace.start(start_ms)
        assert pace.copy_ms(24.0) == 0.0
        pace.finish(21.0, 5, is_acknowledgement=True)
        assert pace.copy_ms(50.0) == 0.0

    def test_a_link_that_is_late_is_busy(self):
        """Five copies at once, 3 ms each after a latency of 1 ms."""
        pace = Pace(50.0, 5_000.0, ack_ms=20.0)
        pace.start(0.0)
        pace.finish(1.0, is_acknowledgement=True)
        pace.start(10.0, 5)
        pace.finish(26.0, 5, is_acknowledgement=True)
        assert pace.copy_ms(50.0) == pytest.approx((0.0 + 15.0) / 6)

    def test_a_copy_looks_late_only_after_its_acknowledgement_could_have_come(self):
        pace = Pace(50.0, 5_000.0, ack_ms=20.0)
        pace.start(0.0)
        pace.finish(1.0, is_acknowledgement=True)
        pace.start(10.0)
        assert pace.copy_ms(31.0) == 0.0
        assert pace.copy_ms(40.0) == 9.0
        assert pace.carries_within(10.0, 1, 40.0)
        assert not pace.carries_within(10.0, 1, 41.0)
