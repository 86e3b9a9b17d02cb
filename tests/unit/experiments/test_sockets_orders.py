"""The order of algorithms, predicted and measured."""

import pytest
from socket_rows import delayed, shared, socket_row

from octopia.experiments.sockets.cases import ALGORITHMS, CaseName
from octopia.experiments.sockets.orders import Verdict, orders
from octopia.experiments.sockets.rows import CpuSupply
from octopia.settings import Algorithm

STATIC, DYNAMIC, ADAPTIVE = ALGORITHMS[:3]
TID = Algorithm.TID_STATIC


@pytest.mark.parametrize(
    ("measured_ms", "predicted_ms", "verdict"),
    [
        ((100, 10), (90, 20), Verdict.CONFIRMED),
        ((10, 100), (90, 20), Verdict.CONTRADICTED),
        ((100, 95), (90, 85), Verdict.SAME),
        ((100, 95), (90, 20), Verdict.PREDICTED_ONLY),
        ((100, 10), (90, 85), Verdict.MEASURED_ONLY),
        # Less than five milliseconds are noise, even if one is twice the other.
        ((4, 2), (90, 20), Verdict.PREDICTED_ONLY),
    ],
)
def test_a_pair_is_judged_by_both(measured_ms, predicted_ms, verdict):
    rows = [delayed(name, *ms) for name, *ms in zip((STATIC, DYNAMIC), measured_ms, predicted_ms, strict=True)]
    (order,) = orders(rows)
    assert (order.pair, order.verdict) == ((STATIC, DYNAMIC), verdict)
    assert order.measured_factor == pytest.approx(measured_ms[0] / measured_ms[1])
    assert order.predicted_factor == pytest.approx(predicted_ms[0] / predicted_ms[1])


def test_where_seeds_of_the_simulator_disagree_nothing_is_predicted():
    raced = delayed(TID, 100, 50, predicted_delay_ms_least=10, predicted_delay_ms_most=120)
    (order,) = orders([delayed(STATIC, 100, 90), raced])
    assert (order.verdict, order.is_predicted, order.predicted) == (Verdict.NOT_PREDICTED, False, TID)
    sure = delayed(TID, 100, 50, predicted_delay_ms_least=10, predicted_delay_ms_most=70)
    assert orders([delayed(STATIC, 200, 90), sure])[0].verdict is Verdict.CONFIRMED


def test_a_dead_broker_is_judged_by_what_is_delivered():
    static, dynamic, adaptive = shared(STATIC, 890, 0.9), shared(DYNAMIC, 895, 0.9), shared(ADAPTIVE, 1_000, 1.0)
    found = {order.pair: order for order in orders([static, dynamic, adaptive])}
    assert found[STATIC, DYNAMIC].verdict is Verdict.SAME
    assert found[STATIC, ADAPTIVE].verdict is Verdict.CONFIRMED
    assert found[STATIC, ADAPTIVE].measured is ADAPTIVE
    assert found[STATIC, ADAPTIVE].measured_factor == pytest.approx(0.89)


def test_only_runs_of_the_same_case_overlay_and_workload_are_compared():
    rows = [
        socket_row(STATIC),
        socket_row(DYNAMIC, case=CaseName.BURST),
        socket_row(DYNAMIC, brokers=56),
        socket_row(DYNAMIC, seed=5),
    ]
    assert orders(rows) == []
    assert len(orders([socket_row(name) for name in ALGORITHMS])) == 10


def test_a_pair_with_a_run_short_of_cpu_is_doubtful():
    short = delayed(DYNAMIC, 10, 20, processors=CpuSupply.SHORT)
    assert orders([delayed(STATIC, 100, 90), short])[0].is_short
    assert not orders([delayed(STATIC, 100, 90), delayed(DYNAMIC, 10, 20)])[0].is_short
