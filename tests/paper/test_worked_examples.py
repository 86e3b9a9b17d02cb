"""The paper's worked examples, hop for hop: Figs. 3 to 5, 7 and 8, and the overlay of the evaluation."""

import dataclasses

import pytest

from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.run import Run, run_scenario
from support import EXAMPLES, hops_of, received_by, run_text

FIG_7 = {
    "fig7b": {
        Algorithm.STATIC: "b.3>a.3 b.3>c.3 b.3>b.0 b.3>b.1 b.3>b.2 b.0>c.0 b.1>c.1 b.2>c.2",
        Algorithm.DYNAMIC: "b.3>a.3 b.3>c.3 b.3>b.2 b.3>b.1[0001] b.1>c.1[0001] b.2>c.2 c.1>c.0",
    },
    "fig7c": {
        Algorithm.STATIC: "b.3>a.3 b.3>c.3 b.3>b.0 b.3>b.2 b.0>a.0 b.0>c.0 b.2>c.2",
        Algorithm.DYNAMIC: "b.3>a.3 b.3>c.3[0101] c.3>c.0 c.3>c.2 c.0>b.0 b.0>a.0",
    },
    "fig7d": {
        Algorithm.STATIC: "b.3>c.3 b.3>b.0 b.3>b.1 b.3>b.2 b.0>a.0 b.1>c.1 b.2>c.2",
        Algorithm.DYNAMIC: "b.3>c.3 b.3>b.2[0011] b.2>c.2 b.2>b.0[0010] b.0>a.0[0010] a.0>a.1 a.1>b.1 b.1>c.1",
    },
}
CIV_SETS = {"fig7b": 3, "fig7c": 2, "fig7d": 3}
COUNTS = {"fig7b": (8, 7), "fig7c": (7, 6), "fig7d": (7, 8)}


ON_AND_OFF = pytest.mark.parametrize("confirmations", [True, False], ids=["confirmed", "unconfirmed"])


def counts(run: Run, *, confirmations: bool) -> dict[str, int]:
    """Return the messages by kind without zeros; those of confirmations are left out, and there if they should be."""
    messages = run.messages()
    assert (messages.pop("confirmation") > 0) is confirmations
    return {kind: count for kind, count in messages.items() if count}


@ON_AND_OFF
@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC])
@pytest.mark.parametrize("figure", FIG_7)
def test_fig_7_hop_for_hop(figure: str, algorithm: Algorithm, confirmations: bool):
    scenario = load_scenario(EXAMPLES / f"{figure}.toml").with_algorithm(algorithm)
    routing = dataclasses.replace(scenario.routing, confirmations=confirmations)
    run = run_scenario(dataclasses.replace(scenario, routing=routing), check=True)
    assert sorted(hops_of(run, 0)) == sorted(FIG_7[figure][algorithm].split())
    assert counts(run, confirmations=confirmations) == {
        "advertisement": 3,
        "subscription": 5 * 2,
        "civ_set": CIV_SETS[figure],
        "publication": COUNTS[figure][algorithm is Algorithm.DYNAMIC],
    }
    assert received_by(run, 0) == ["S1", "S2", "S3", "S4", "S5"]
    assert run.to_json()["false_positives"] == 0
    assert run.complaints() == []


def test_fig_7b_the_dynamic_path_for_s1_contained_one_extra_broker_but_no_congested_ilink():
    paths = {}
    for algorithm in (Algorithm.STATIC, Algorithm.DYNAMIC):
        run = run_scenario(load_scenario(EXAMPLES / "fig7b.toml").with_algorithm(algorithm))
        (paths[algorithm],) = (each.path for each in run.recorder.deliveries if each.client == "S1")
    assert paths[Algorithm.STATIC] == ("b.3", "b.0", "c.0")
    assert paths[Algorithm.DYNAMIC] == ("b.3", "b.1", "c.1", "c.0")


FIG_8 = """
[overlay]
tree = "paper:fig3"
[routing]
algorithm = "{}"
confirmations = {}
[[client]]
name = "P0"
broker = "a.0"
advertise = ["source = 0"]
[[client]]
name = "P1"
broker = "e.1"
advertise = ["source = 1"]
[[client]]
name = "P2"
broker = "a.2"
advertise = ["source = 2"]
[[client]]
name = "S0"
broker = "a.0"
subscribe = ["source = 1"]
[[client]]
name = "S"
broker = "f.0"
subscribe = ["source = 1"]
[[client]]
name = "S1"
broker = "d.1"
subscribe = ["source IN (0, 1)"]
[[client]]
name = "S2"
broker = "f.2"
subscribe = ["source IN (0, 1, 2)"]
[[event]]
client = "P0"
publish.source = 0
[[event]]
client = "P1"
publish.source = 1
[[event]]
client = "P2"
publish.source = 2
"""


@pytest.fixture(scope="module", params=[True, False], ids=["confirmed", "unconfirmed"])
def fig_8(request: pytest.FixtureRequest) -> Run:
    return run_text(FIG_8.format("static", str(request.param).lower()))


class TestFig8:
    def test_there_are_18_brokers(self, fig_8: Run):
        assert len(fig_8.world.brokers) == 18

    def test_fig_4_each_advertisement_costs_2_messages(self, fig_8: Run):
        hops = [f"{hop.sender}>{hop.receiver}" for hop in fig_8.recorder.hops if hop.kind == "advertisement"]
        assert hops == ["a.0>a.1", "a.0>a.2", "e.1>e.0", "e.1>e.2", "a.2>a.0", "a.2>a.1"]

    def test_fig_5_each_subscription_costs_5_messages(self, fig_8: Run):
        assert fig_8.messages()["subscription"] == 4 * 5

    def test_a_civ_set_goes_once_to_each_host_broker_from_each_tsc(self, fig_8: Run):
        hops = sorted(f"{hop.sender}>{hop.receiver}" for hop in fig_8.recorder.hops if hop.kind == "civ_set")
        assert hops == ["a.1>a.0", "a.2>a.0", "e.0>e.1", "e.2>e.1"]

    def test_p0_wanted_by_s1_and_s2_takes_8_messages(self, fig_8: Run):
        expected = "a.0>a.1 a.0>a.2 a.1>b.1 a.2>b.2 b.1>d.1 b.2>d.2 d.2>e.2 e.2>f.2"
        assert sorted(hops_of(fig_8, 0)) == sorted(expected.split())
        assert received_by(fig_8, 0) == ["S1", "S2"]

    def test_p1_wanted_by_all_four_takes_8_messages(self, fig_8: Run):
        expected = "e.1>d.1 e.1>e.0 e.1>e.2 e.0>d.0 e.0>f.0 d.0>b.0 b.0>a.0 e.2>f.2"
        assert sorted(hops_of(fig_8, 1)) == sorted(expected.split())
        assert received_by(fig_8, 1) == ["S", "S0", "S1", "S2"]

    def test_p2_wanted_by_s2_takes_4_messages(self, fig_8: Run):
        assert hops_of(fig_8, 2) == ["a.2>b.2", "b.2>d.2", "d.2>e.2", "e.2>f.2"]
        assert received_by(fig_8, 2) == ["S2"]

    def test_stored_civs_have_the_host_bit_and_targets_only_where_it_is_wanted(self, fig_8: Run):
        # D2: the paper prints the targets.
        assert fig_8.to_json()["civs"] == {
            "P0/0": {"stored": "111", "targets": "110"},
            "P1/0": {"stored": "111", "targets": "111"},
            "P2/0": {"stored": "100", "targets": "100"},
        }

    def test_nothing_was_sent_in_vain(self, fig_8: Run):
        assert counts(fig_8, confirmations=fig_8.scenario.routing.confirmations) == {
            "advertisement": 6,
            "subscription": 20,
            "civ_set": 4,
            "publication": 20,
        }
        assert fig_8.to_json()["false_positives"] == 0
        assert fig_8.complaints() == []

    def test_without_congestion_dynamic_routing_takes_the_same_hops(self, fig_8: Run):
        confirmations = str(fig_8.scenario.routing.confirmations).lower()
        dynamic = run_text(FIG_8.format("dynamic", confirmations))
        assert dynamic.recorder.hops == fig_8.recorder.hops


def se(client: str, confirmations: bool) -> Run:
    routing = f"[routing]\nconfirmations = {str(confirmations).lower()}\n"
    return run_text(f'{routing}[overlay]\ntree = "paper:se"\n[[client]]\nname = "C"\n{client}')


@ON_AND_OFF
@pytest.mark.parametrize("host", ["F.1", "A.0", "N.3"])
class TestSe:
    def test_an_advertisement_costs_3_messages_and_4_clt_entries(self, host: str, confirmations: bool):
        run = se(f'broker = "{host}"\nadvertise = ["x > 0"]', confirmations)
        assert counts(run, confirmations=confirmations) == {"advertisement": 3}
        result = run.to_json()
        assert sum(sizes["clt"] for sizes in result["tables"].values()) == 4
        assert len(result["tables"]) == 56

    def test_a_subscription_costs_13_messages_and_14_prt_entries(self, host: str, confirmations: bool):
        run = se(f'broker = "{host}"\nsubscribe = ["x > 0"]', confirmations)
        assert counts(run, confirmations=confirmations) == {"subscription": 13}
        assert sum(sizes["prt"] for sizes in run.to_json()["tables"].values()) == 14
