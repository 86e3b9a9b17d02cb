from octopia.overlay import LinkShape
from octopia.simulator.agenda import to_ns
from octopia.simulator.wires import Wire
from support import at


def wire() -> Wire:
    return Wire(at("a.0"), at("b.0"), 1000)


def test_data_never_arrives_before_earlier_data():
    line = wire()
    assert line.arrival_ns(500, control=False, data=True) == 500
    assert line.arrival_ns(300, control=False, data=True) == 500
    assert line.arrival_ns(600, control=False, data=True) == 600


def test_control_never_arrives_before_earlier_control():
    line = wire()
    assert line.arrival_ns(500, control=True, data=False) == 500
    assert line.arrival_ns(300, control=True, data=False) == 500


def test_control_may_overtake_data_and_the_reverse():
    line = wire()
    line.arrival_ns(500, control=False, data=True)
    assert line.arrival_ns(300, control=True, data=False) == 300
    assert line.arrival_ns(500, control=False, data=True) == 500
    line = wire()
    line.arrival_ns(500, control=True, data=False)
    assert line.arrival_ns(300, control=False, data=True) == 300


def test_a_mixed_batch_waits_for_both_and_holds_up_both():
    line = wire()
    line.arrival_ns(500, control=True, data=False)
    line.arrival_ns(700, control=False, data=True)
    assert line.arrival_ns(100, control=True, data=True) == 700
    assert line.arrival_ns(100, control=True, data=False) == 700
    assert line.arrival_ns(100, control=False, data=True) == 700


def test_a_rate_is_an_interval():
    line = wire()
    line.set_shape(LinkShape(rate=50))
    assert (line.interval_ns, line.delay_ns) == (20_000_000, 1000)


def test_a_shape_changes_what_it_names_and_leaves_the_rest():
    line = wire()
    line.set_shape(LinkShape(delay_ms=2.5))
    assert (line.interval_ns, line.delay_ns) == (0, to_ns(2.5))
    line.set_shape(LinkShape(rate=10))
    line.set_shape(LinkShape())
    assert (line.interval_ns, line.delay_ns) == (100_000_000, to_ns(2.5))
