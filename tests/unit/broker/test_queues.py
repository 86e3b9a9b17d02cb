import pytest

from octopia.broker import Verdict
from octopia.broker.queues import LinkStatus, OutputQueue
from octopia.protocol import ALL_CLASSES, CONTROL_ONLY, ClusterIndexVector
from octopia.protocol.messages import CivSet, Publish, Version
from octopia.settings import PAPER_ROUTING, Algorithm, RoutingSettings
from support import publish


def queue_with(*classes: int, tau: float = 10.0) -> OutputQueue:
    """A queue into which one publication of each class was put at time 0, numbered in that order."""
    queue = OutputQueue(RoutingSettings(Algorithm.DYNAMIC, tau))
    for number, traffic_class in enumerate(classes):
        message = publish("b.0", number, ClusterIndexVector((1 << traffic_class) - 1, 8), x=1)
        assert message.traffic_class == traffic_class
        queue.put_data(message, traffic_class, 0.0)
    return queue


def filled(length: int, tau: float = 10.0) -> OutputQueue:
    return queue_with(*[0] * length, tau=tau)


def numbers(*messages: object) -> list[int]:
    return [message.id.number for message in messages if isinstance(message, Publish)]


def control(number: int) -> CivSet:
    return CivSet((), Version(1, number))


class TestLanes:
    def test_control_goes_first_although_it_came_last(self):
        queue = queue_with(0)
        queue.put_control(control(1))
        queue.put_control(control(2))
        assert queue.take(0.0) == control(1)
        assert queue.take(0.0) == control(2)
        assert numbers(queue.take(0.0)) == [0]
        assert queue.take(0.0) is None

    def test_among_all_classes_the_oldest_goes_first(self):
        queue = queue_with(2, 0, 1, 0)
        assert numbers(*(queue.take(0.0) for _ in range(4))) == [0, 1, 2, 3]

    def test_the_mask_lets_only_its_classes_through_oldest_first(self):
        queue = queue_with(2, 0, 1, 0, 2)
        assert numbers(queue.take(0.0, 0b011)) == [1]
        assert numbers(queue.take(0.0, 0b011)) == [2]
        assert numbers(queue.take(0.0, 0b011)) == [3]
        assert queue.take(0.0, 0b011) is None
        assert numbers(queue.take(0.0, 0b100)) == [0]
        assert numbers(queue.take(0.0, ALL_CLASSES)) == [4]

    def test_control_only_lets_control_through_and_no_data(self):
        queue = queue_with(0)
        queue.put_control(control(1))
        assert queue.take(0.0, CONTROL_ONLY) == control(1)
        assert queue.take(0.0, CONTROL_ONLY) is None
        assert len(queue) == 1

    def test_length_counts_the_data_lanes_together_and_no_control(self):
        queue = queue_with(0, 1, 1)
        queue.put_control(control(1))
        assert len(queue) == 3

    def test_empty_means_neither_control_nor_data(self):
        queue = OutputQueue(PAPER_ROUTING)
        assert queue.is_empty
        queue.put_control(control(1))
        assert not queue.is_empty
        queue.take(0.0)
        assert queue.is_empty
        queue.put_data(publish("b.0", 0, x=1), 0, 0.0)
        assert not queue.is_empty

    def test_waiting_lists_in_the_order_of_taking_and_takes_nothing(self):
        queue = queue_with(1, 0)
        queue.put_control(control(7))
        listed = queue.waiting()
        assert listed == queue.waiting()
        assert listed == [queue.take(0.0) for _ in range(3)]


class TestWindow:
    def test_counts_show_only_when_their_window_has_closed(self):
        queue = filled(3)
        queue.take(49.9)
        assert queue.status(49.9) == LinkStatus(2, 0, 0, congested=False)
        assert queue.status(50.0) == LinkStatus(2, 3, 1, congested=False)

    def test_windows_start_at_multiples_of_their_length(self):
        queue = OutputQueue(PAPER_ROUTING)
        queue.put_data(publish("b.0", 0, x=1), 0, 130.0)
        assert queue.status(149.9).entered == 0
        assert queue.status(150.0).entered == 1

    def test_the_next_window_replaces_the_counts(self):
        queue = filled(2)
        queue.put_data(publish("b.0", 2, x=1), 0, 60.0)
        assert queue.status(60.0).entered == 2
        assert queue.status(100.0).entered == 1
        assert queue.status(150.0).entered == 0

    def test_after_a_gap_the_last_closed_window_is_empty(self):
        queue = filled(2)
        queue.take(0.0)
        assert queue.status(100.0) == LinkStatus(1, 0, 0, congested=False)

    def test_time_that_stands_still_closes_nothing(self):
        queue = filled(1)
        assert not queue.window.roll(0.0, len(queue))
        assert queue.window.roll(50.0, len(queue))
        assert not queue.window.roll(50.0, len(queue))
        assert not queue.window.roll(99.0, len(queue))

    def test_every_window_that_ends_congested_counts(self):
        queue = filled(11)
        assert queue.counters(49.9).congested_ms == 0.0
        assert queue.counters(50.0).congested_ms == 50.0
        assert queue.counters(250.0).congested_ms == 250.0
        queue.take(250.0)
        assert queue.counters(400.0).congested_ms == 250.0

    def test_counters_do_not_depend_on_how_often_they_are_read(self):
        once, often = filled(5), filled(5)
        for now_ms in range(0, 500, 10):
            often.counters(now_ms)
        assert once.counters(500.0) == often.counters(500.0)
        assert once.counters(500.0).congested_ms == 50.0

    def test_what_was_dropped_did_not_leave(self):
        queue = filled(3)
        assert numbers(queue.drop_oldest()) == [0]
        assert queue.status(50.0) == LinkStatus(2, 3, 0, congested=False)

    def test_the_oldest_of_all_classes_is_dropped(self):
        queue = queue_with(2, 0)
        assert numbers(queue.drop_oldest()) == [0]

    def test_dropping_from_an_empty_queue_is_an_error(self):
        with pytest.raises(IndexError):
            OutputQueue(PAPER_ROUTING).drop_oldest()


class TestEquation3:
    """Q * (1 + Qin) / (1 + Qout) > tau."""

    def test_exactly_tau_is_not_congested(self):
        assert not filled(10).congested(0.0)
        assert filled(11).congested(0.0)

    def test_traffic_in_makes_it_worse_and_traffic_out_better(self):
        queue = filled(4)
        assert not queue.congested(0.0)
        assert queue.congested(50.0)  # 4 * 5 / 1 = 20
        queue = filled(8)
        for _ in range(4):
            queue.take(0.0)
        assert not queue.congested(50.0)  # 4 * 9 / 5 = 7.2

    @pytest.mark.parametrize(("tau", "congested"), [(7.1, True), (7.2, False), (7.3, False)])
    def test_the_boundary_is_exact_with_both_counts(self, tau: float, congested: bool):
        queue = filled(8, tau=tau)
        for _ in range(4):
            queue.take(0.0)
        assert queue.congested(50.0) is congested  # 4 * 9 / 5 = 7.2

    def test_an_empty_queue_is_never_congested(self):
        queue = filled(30, tau=0.001)
        while queue.take(0.0):
            pass
        assert not queue.congested(50.0)
        queue.forced_length = 0
        assert not queue.congested(50.0)

    def test_control_messages_do_not_congest(self):
        queue = OutputQueue(RoutingSettings(Algorithm.DYNAMIC, 0.5))
        for number in range(100):
            queue.put_control(control(number))
        assert not queue.congested(0.0)
        assert queue.status(50.0) == LinkStatus(0, 0, 0, congested=False)

    def test_a_forced_verdict_wins_over_the_equation(self):
        queue = filled(20)
        queue.verdict = Verdict.FREE
        assert not queue.congested(0.0)
        queue = OutputQueue(PAPER_ROUTING)
        queue.verdict = Verdict.CONGESTED
        assert queue.congested(0.0)
        assert queue.status(0.0).congested

    def test_a_forced_length_stands_in_for_q(self):
        queue = filled(1)
        queue.forced_length = 11
        assert queue.congested(0.0)
        assert queue.length == 11
        assert len(queue) == 1
        queue.forced_length = 10
        assert not queue.congested(0.0)
        queue.forced_length = None
        assert queue.length == 1
