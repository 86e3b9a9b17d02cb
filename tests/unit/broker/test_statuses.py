"""The statuses that brokers of a region tell each other: when they are sent, and how they are read."""

from octopia.broker.statuses import ALL_FREE, AlinkStatus, Status, StatusSender, StatusTable, make_status


def test_a_status_is_canonical():
    assert make_status({"c": 2.0, "a": 1.0}, ("d", "b"), 0b10) == Status((("a", 1.0), ("c", 2.0)), ("b", "d"), 0b10)
    assert make_status({}, (), 0) == ALL_FREE


class TestSender:
    def test_nothing_is_told_while_nothing_is_congested_or_down(self):
        sender = StatusSender()
        assert [sender.due(ALL_FREE, window) for window in range(3)] == [None] * 3
        assert sender.for_new_ilink() is None

    def test_a_change_of_work_is_told_once_per_window(self):
        sender = StatusSender()
        one, two, three = (make_status({"a": work}, (), 0) for work in (1.0, 2.0, 3.0))
        assert sender.due(one, 7) == one
        assert sender.due(two, 7) is None
        assert sender.due(three, 8) == three
        assert sender.due(three, 9) is None
        assert sender.due(ALL_FREE, 9) == ALL_FREE

    def test_a_change_of_links_is_told_at_once(self):
        sender = StatusSender()
        one, two = make_status({"a": 1.0}, (), 0), make_status({"a": 2.0}, ("b",), 0)
        assert sender.due(one, 7) == one
        assert sender.due(two, 7) == two
        three = make_status({"a": 2.0}, ("b",), 0b1)
        assert sender.due(three, 7) == three

    def test_a_new_neighbour_is_told_everything(self):
        sender = StatusSender()
        status = make_status({"a": 1.0}, ("b",), 0)
        sender.due(status, 7)
        assert sender.for_new_ilink() == status


class TestTable:
    def test_a_broker_that_told_nothing_has_all_links_up_and_free(self):
        table = StatusTable()
        assert table.told(2, "a") == AlinkStatus(is_up=True, work=0.0)
        assert table.linked(2, 1)

    def test_the_last_status_counts(self):
        table = StatusTable()
        table.store(2, make_status({"a": 4.0}, ("b",), 0b10))
        assert table.told(2, "a") == AlinkStatus(work=4.0)
        assert not table.told(2, "b").is_up
        assert table.told(2, "c") == AlinkStatus()
        assert not table.linked(2, 1)
        assert table.linked(2, 3)
        assert table.linked(1, 2)
        table.forget(2)
        assert table.linked(2, 1)

    def test_it_says_when_a_link_came_up(self):
        table = StatusTable()
        assert not table.store(2, make_status({"a": 4.0}, ("b",), 0b10))
        assert not table.store(2, make_status({}, ("b", "c"), 0b11))
        assert table.store(2, make_status({}, ("b", "c"), 0b01))
        assert table.store(2, make_status({}, ("c",), 0b01))
        assert not table.store(2, make_status({}, ("c",), 0b01))
