"""The records of rerouted copies under adaptive routing: in the result, and in the trace."""

import dataclasses
from typing import Any

import pytest

from octopia.broker.interface import Event, Fact
from octopia.ids import BrokerId, PublicationId
from octopia.protocol import ClusterIndexVector, MessageKind
from octopia.protocol.duties import Lane, Origin
from octopia.protocol.messages import Detour, LinkStatuses
from octopia.settings import Algorithm
from octopia.simulator.profiles import UNIT
from octopia.simulator.record import Hop, Tracer
from octopia.simulator.run import Run
from support import RowList, run_text

SCENARIO = """
[overlay]
tree = "a-b, b-c"
clusters = 4
[[client]]
name = "P"
broker = "b.3"
advertise = ["x > 0"]
[[event]]
client = "P"
publish = { x = 9 }
"""
HERE = BrokerId("b", 3)
NAME = PublicationId(HERE, 1, 0)
HOST_CIV = ClusterIndexVector(0, 4)
DETOUR = Detour(Lane.REROUTED, 1, Origin.HOST, (("a", 0b0001), ("c", 0b1010)))


def sent(civ: ClusterIndexVector | None, detour: Detour | None, receiver: str) -> Fact:
    fact = Fact(Event.SEND, MessageKind.PUBLICATION, NAME, BrokerId.parse(receiver), hop=1)
    fact.publication_civ, fact.detour = civ, detour
    return fact


FACTS = [
    sent(HOST_CIV, DETOUR, "b.1"),
    sent(ClusterIndexVector(0b1010, 4), Detour(Lane.REROUTED), "c.3"),
    sent(None, Detour(Lane.PLAIN, 2, "a"), "b.0"),
    sent(None, None, "a.3"),
    Fact(Event.SEND, LinkStatuses.kind, peer=BrokerId("b", 1)),
]


@pytest.fixture
def run() -> Run:
    run = run_text(SCENARIO)
    run.recorder.hops.clear()
    assert list(run.recorder.names._publications) == [NAME]
    broker = run.world.broker(HERE)
    assert broker is not None
    for fact in FACTS:
        run.recorder.on_fact(broker, fact, 0.0)
    return run


def hops_as(run: Run, algorithm: Algorithm) -> list[dict[str, Any]]:
    hops: list[dict[str, Any]] = dataclasses.replace(run, scenario=run.scenario.with_algorithm(algorithm)).to_json()[
        "hops"
    ]
    return hops


def test_a_hop_says_which_clusters_it_enters_and_carries(run: Run):
    assert [(hop["to"], hop["civ"], hop["carries"]) for hop in hops_as(run, Algorithm.ADAPTIVE)] == [
        ("b.1", "0000", {"a": "0001", "c": "1010"}),
        ("c.3", "1010", None),
        ("b.0", None, None),
        ("a.3", None, None),
        ("b.1", None, None),
    ]


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.TID_STATIC])
def test_hops_of_other_algorithms_have_the_keys_that_they_had(run: Run, algorithm: Algorithm):
    assert all(list(hop) == ["kind", "publication", "from", "to", "civ"] for hop in hops_as(run, algorithm))


def test_hops_are_written_as_in_the_worked_examples(run: Run):
    assert list(map(str, run.recorder.hops)) == [
        "b.3>b.1[0000 a:0001 c:1010]",
        "b.3>c.3[1010]",
        "b.3>b.0",
        "b.3>a.3",
        "b.3>b.1",
    ]
    assert str(Hop("publication", 0, "a.2", "b.2", "0101")) == "a.2>b.2[0101]"


def test_rows_of_the_trace_say_what_a_copy_carries(run: Run):
    rows = RowList()
    tracer = Tracer(run.names, "run", "adaptive", UNIT, [rows])
    broker = run.world.broker(HERE)
    assert broker is not None
    for fact in FACTS:
        tracer.on_fact(broker, fact, 0.0)
    assert [(row.civ, row.carries) for row in rows.rows] == [
        ("0000", "a:0001 c:1010"),
        ("1010", None),
        *[(None, None)] * 3,
    ]


def test_statuses_are_counted_only_if_there_are_any(run: Run):
    assert "status" not in run.messages()
    broker = run.world.broker(HERE)
    assert broker is not None
    broker.counters.sent[MessageKind.STATUS] += 2
    assert run.messages()["status"] == 2
    assert list(run.messages())[-2:] == ["sync", "status"]
