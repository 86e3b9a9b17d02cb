"""The change of the algorithm of a running broker: which changes are possible, and what routes afterwards."""

import pytest
from links_support import at, feed, make, publication, subscription, taken

from octopia.broker import Verdict
from octopia.broker.adapting import View
from octopia.errors import UsageError
from octopia.settings import Algorithm


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_a_broker_begins_with_the_algorithm_of_its_settings(algorithm: Algorithm) -> None:
    broker = make(algorithm=algorithm)
    assert broker.algorithm is algorithm
    assert algorithm in broker.algorithms


def test_a_broker_refuses_an_algorithm_that_its_neighbours_would_not_understand() -> None:
    broker = make(algorithm=Algorithm.DYNAMIC)
    with pytest.raises(UsageError, match="expected static or dynamic routing"):
        broker.route_by(Algorithm.ADAPTIVE)
    assert broker.algorithm is Algorithm.DYNAMIC


def test_the_fingerprint_has_the_algorithm() -> None:
    one, other = make(algorithm=Algorithm.ADAPTIVE), make(algorithm=Algorithm.ADAPTIVE)
    assert one.fingerprint() == other.fingerprint()
    one.route_by(Algorithm.STATIC)
    assert one.fingerprint() != other.fingerprint()


def test_under_static_routing_an_adaptive_broker_ignores_congestion() -> None:
    broker = make(algorithm=Algorithm.ADAPTIVE)
    feed(broker, "c.0", subscription("c.0"))
    broker.force(at("c.0"), Verdict.CONGESTED, 20, 1.0)
    broker.route_by(Algorithm.STATIC)
    feed(broker, "a.0", publication(0), now_ms=2.0)
    assert len(broker.state.queues[at("c.0")]) == 1
    assert broker.counters.detours == 0
    broker.route_by(Algorithm.ADAPTIVE)
    taken(broker, "c.0")
    feed(broker, "a.0", publication(1), now_ms=3.0)
    assert len(broker.state.queues[at("c.0")]) == 0
    assert broker.counters.detours == 1


def test_under_dynamic_routing_an_adaptive_broker_goes_around_ilinks_only() -> None:
    broker = make(algorithm=Algorithm.ADAPTIVE)
    feed(broker, "c.0", subscription("c.0"))
    broker.force(at("c.0"), Verdict.CONGESTED, 20, 1.0)
    broker.force(at("b.1"), Verdict.CONGESTED, 20, 1.0)
    broker.route_by(Algorithm.DYNAMIC)
    view = View(broker.state)
    assert not view.congested(at("c.0"))
    assert view.congested(at("b.1"))
    feed(broker, "a.0", publication(0), now_ms=2.0)
    assert len(broker.state.queues[at("c.0")]) == 1
    assert broker.counters.detours == 0
