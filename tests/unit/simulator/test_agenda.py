import itertools

import pytest

from octopia.errors import UsageError
from octopia.simulator.agenda import Agenda, Priority, to_ns


def test_events_happen_by_time_then_priority_then_entry():
    log: list[str] = []
    agenda = Agenda()
    planned = [
        (5, Priority.SCRIPT, "e"),
        (5, Priority.ARRIVAL, "c"),
        (1, Priority.SCRIPT, "b"),
        (5, Priority.SERVICE, "d"),
    ]
    planned += [(1, Priority.LINK_FREE, "a"), (5, Priority.SCRIPT, "f")]
    for time_ns, priority, name in planned:
        agenda.enter(time_ns, priority, log.append, name)
    while agenda:
        agenda.step()
    assert log == ["a", "b", "c", "d", "e", "f"]


def test_the_order_of_entry_matters_only_where_time_and_priority_are_equal():
    planned = [(time_ns, priority) for time_ns in (1, 2) for priority in Priority]
    for order in itertools.islice(itertools.permutations(planned), 0, 40320, 997):
        log: list[tuple[int, Priority]] = []
        agenda = Agenda()
        for entry in order:
            agenda.enter(*entry, log.append, entry)
        while agenda:
            agenda.step()
        assert log == planned


def test_arguments_are_never_compared():
    agenda = Agenda()
    for argument in (object(), object(), {}):
        agenda.enter(1, Priority.SCRIPT, [].append, argument)
    while agenda:
        agenda.step()
    assert len(agenda) == 0


def test_time_moves_to_each_event_and_the_past_means_now():
    agenda = Agenda()
    times: list[float] = []
    agenda.enter(to_ns(2.5), Priority.SCRIPT, lambda _: agenda.enter(0, Priority.SCRIPT, note, None), None)

    def note(_: None) -> None:
        times.append(agenda.now_ms)

    while agenda:
        agenda.step()
    assert times == [2.5]


def test_milliseconds_are_exact_in_nanoseconds():
    assert to_ns(0.1) * 3 == to_ns(0.3)
    assert to_ns(1e-6) == 1


def test_a_run_ends_when_only_background_events_are_left():
    agenda = Agenda()
    log: list[str] = []
    agenda.enter(1, Priority.TIMER, log.append, "heartbeat", background=True)
    agenda.enter(2, Priority.ARRIVAL, log.append, "message")
    agenda.enter(3, Priority.TIMER, log.append, "another heartbeat", background=True)
    agenda.run()
    assert log == ["heartbeat", "message"]
    assert (len(agenda), agenda.foreground, agenda.now_ns) == (1, 0, 2)


def test_a_time_beyond_all_runs_is_refused():
    assert to_ns(1e12) == 10**18
    with pytest.raises(UsageError, match="expected a time of at most"):
        to_ns(2e12)
