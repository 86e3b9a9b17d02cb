"""The checkers find what is planted: each complaint can be provoked."""

import dataclasses

import msgspec
import pytest

from octopia.scenario import load_scenario
from octopia.simulator.record import Hop
from octopia.simulator.run import Run, run_scenario
from support import EXAMPLES, run_text


def sound_run() -> Run:
    run = run_scenario(load_scenario(EXAMPLES / "fig7d.toml"), check=True)
    assert run.complaints() == []
    return run


def test_a_missing_delivery():
    run = sound_run()
    lost = run.recorder.deliveries.pop(2)
    assert run.complaints() == [
        f"publication 0 was not delivered to {lost.subscription}, which wants it and was told of no loss"
    ]


def test_a_duplicate_delivery():
    run = sound_run()
    run.recorder.deliveries.append(run.recorder.deliveries[1])
    name = run.recorder.deliveries[1].subscription
    assert run.complaints() == [f"publication 0 was delivered 2 times to {name}"]


TWO = """
[overlay]
tree = "a-b"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "b.1"
subscribe = ["x > 5"]
[[client]]
name = "T"
broker = "b.0"
subscribe = ["x > 50"]
[[event]]
client = "P"
publish = { x = 9 }
"""


def test_a_delivery_to_somebody_who_does_not_want_it():
    run = run_text(TWO)
    run.recorder.deliveries.append(msgspec.structs.replace(run.recorder.deliveries[0], client="T", subscription="T/0"))
    assert run.complaints() == ["publication 0 was delivered to T/0, which does not want it"]


def test_a_delivery_for_somebody_elses_subscription():
    run = run_text(TWO)
    run.recorder.deliveries[0] = msgspec.structs.replace(run.recorder.deliveries[0], client="T")
    assert run.complaints() == ["publication 0 reached T for another client's subscription"]


def test_a_delivery_of_what_should_have_been_refused():
    run = run_text(TWO + '[[event]]\nclient = "P"\nunadvertise = "P/0"\n[[event]]\nclient = "P"\npublish = { x = 9 }\n')
    assert run.complaints() == []
    run.recorder.deliveries.append(msgspec.structs.replace(run.recorder.deliveries[0], publication=1))
    assert run.complaints() == ["publication 1 was delivered to S/0, which does not want it"]


def hop(sender: str, receiver: str) -> Hop:
    return Hop("publication", 0, sender, receiver, None)


def test_a_loop():
    run = run_text(TWO)
    run.recorder.hops.append(hop("b.1", "a.1"))
    assert run.complaints() == ["publication 0 reached a.1 twice, the second time from b.1"]


def test_a_way_back_to_the_start():
    run = run_text(TWO)
    run.recorder.hops.append(hop("a.1", "a.0"))
    assert any("reached a.0 twice" in sentence for sentence in run.complaints())


def test_a_cluster_entered_twice():
    run = run_scenario(load_scenario(EXAMPLES / "fig7b.toml"))
    run.recorder.hops.append(hop("a.3", "a.2"))
    assert run.complaints() == ["publication 0 entered cluster 2 twice, again at a.2"]


def test_a_journey_beyond_the_bound():
    run = run_text(TWO)
    short = dataclasses.replace(run, world=run_text('[overlay]\ntree = "a"\nclusters = 1\n').world)
    assert short.world.scot.hop_bound == 1
    assert any("took 2 hops to b.1, more than allowed" in sentence for sentence in short.complaints())


def test_control_messages_are_no_journeys():
    run = run_text(TWO)
    run.recorder.hops += [Hop("subscription", None, "b.1", "a.1", None)] * 3
    assert run.complaints() == []


class TestWhoMust:
    """What was still on its way when a publication was made leaves the answer open."""

    BASE = TWO[: TWO.index("[[event]]")]

    def expected(self, *events: str) -> tuple[list[str], list[str]]:
        run = run_text(self.BASE + "".join(f"[[event]]\n{text}\n" for text in events))
        assert run.complaints() == []
        return run.ledger.expected(0)

    def test_settled_requests_leave_no_doubt(self):
        assert self.expected('client = "P"\npublish = {x = 9}') == (["S/0"], ["S/0"])

    @pytest.mark.parametrize("request_", ['client = "T"\nsubscribe = "x > 0"', 'client = "S"\nunsubscribe = "S/0"'])
    def test_a_request_under_way_may_or_may_not_count(self, request_: str):
        must, may = self.expected(f"{request_}\nat_ms = 1", 'client = "P"\npublish = {x = 9}\nat_ms = 1')
        changed = "S/0" if "unsubscribe" in request_ else "T/1"
        assert changed in may
        assert changed not in must

    def test_an_advertisement_under_way_leaves_it_open_for_all(self):
        must, may = self.expected(
            'client = "P"\nunadvertise = "P/0"\nat_ms = 1', 'client = "P"\npublish = {x = 9}\nat_ms = 1'
        )
        assert (must, may) == ([], ["S/0"])

    def test_what_was_refused_withdraws_nothing(self):
        """Neither an advertisement named as a subscription, nor what belongs to somebody else."""
        must, _ = self.expected(
            'client = "P"\nunsubscribe = "P/0"', 'client = "T"\nunsubscribe = "S/0"', 'client = "P"\npublish = {x = 9}'
        )
        assert must == ["S/0"]
