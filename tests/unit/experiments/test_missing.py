"""Missing deliveries by kind, after a broker was killed."""

from types import SimpleNamespace
from typing import Any

from octopia.experiments.missing import Missing, sort_missing
from octopia.ids import BrokerId
from octopia.settings import Algorithm

BROKERS = ("b.1", "a.1", "c.1", "a.0")
WORKLOAD: Any = SimpleNamespace(subscriptions=[SimpleNamespace(broker=BrokerId.parse(each)) for each in BROKERS])


def sorted_pairs(*pairs: tuple[int, int], algorithm: Algorithm = Algorithm.STATIC) -> Missing:
    return sort_missing(pairs, WORKLOAD, BrokerId("b", 1), 100, algorithm)


def test_clients_of_the_dead_broker_are_owed_nothing_afterwards():
    assert sorted_pairs((100, 0), (101, 0)) == Missing(gone=2)


def test_the_rest_of_its_cluster_is_cut_off():
    assert sorted_pairs((100, 1), (150, 2)) == Missing(cut_off=2)


def test_what_other_clusters_miss_and_what_was_published_before_is_a_fault():
    assert sorted_pairs((100, 3), (99, 0), (99, 1)) == Missing(unexplained=3)


def test_trees_of_tid_lead_over_the_dead_broker_to_any_other():
    assert sorted_pairs((100, 0), (100, 3), (99, 3), algorithm=Algorithm.TID_STATIC) == Missing(1, 1, 1)


def test_only_adaptive_routing_promises_what_is_cut_off():
    missing = Missing(gone=5, cut_off=3, unexplained=1)
    assert missing.faults(Algorithm.ADAPTIVE) == 4
    assert missing.faults(Algorithm.DYNAMIC) == missing.faults(Algorithm.STATIC) == 1
