"""Section 2, Background Issues: what routing by tree ids costs, and what it can choose (Fig. 1).

The six brokers of the figure are a path of three regions in two clusters: 1, 2, 3 are a.0, b.0, c.0, and 4, 5, 6 are
a.1, b.1, c.1. Trees are steered by the delays of links, as the load of links steers them in the figure.
"""

from __future__ import annotations

import pytest

from octopia.ids import ClientId
from octopia.simulator.run import Run
from octopia.tid.core import TidBroker
from support import at, hops_of, received_by, run_text

NUMBERS = {"a.0": "1", "b.0": "2", "c.0": "3", "a.1": "4", "b.1": "5", "c.1": "6"}
NAMES = {number: name for name, number in NUMBERS.items()}


def run_figure(algorithm: str, body: str) -> Run:
    """Run what happens on the overlay of the figure; ``@4`` in the text is the name of its broker 4."""
    text = f"""
        [overlay]
        tree = "a-b, b-c"
        clusters = 2
        [routing]
        algorithm = "{algorithm}"
        confirmations = false
        {body}
    """
    for number, name in NAMES.items():
        text = text.replace(f"@{number}", name)
    return run_text(text)


def slow(*links: str) -> str:
    return "".join(f'[[link]]\nbetween = ["@{link[0]}", "@{link[1]}"]\ndelay_ms = 20.0\n' for link in links)


def speeds(**delays_ms: float) -> str:
    """Change the delays of links at once; ``l14`` is the one between 1 and 4."""
    return "".join(
        f'[[event]]\nlink = {{between = ["@{link[1]}", "@{link[2]}"], delay_ms = {delay_ms}}}\n'
        for link, delay_ms in delays_ms.items()
    )


def publisher(name: str, broker: str, offer: str = "x > 0") -> str:
    return f'[[client]]\nname = "{name}"\nbroker = "@{broker}"\nadvertise = ["{offer}"]\n'


def subscriber(name: str, broker: str, interest: str = "x > 0") -> str:
    return f'[[client]]\nname = "{name}"\nbroker = "@{broker}"\nsubscribe = ["{interest}"]\n'


def publication(client: str, x: int = 1) -> str:
    return f'[[event]]\nclient = "{client}"\npublish = {{x = {x}}}\n'


def broker(run: Run, number: str) -> TidBroker:
    found = run.world.brokers[at(NAMES[number])]
    assert isinstance(found, TidBroker)
    return found


def peer_number(peer: object) -> str:
    return NUMBERS.get(str(peer), str(peer))


def tree_of(run: Run, host: str) -> list[str]:
    """Return the links of the tree of the only advertisement of a host broker, as the SRTs have it."""
    return sorted(
        f"{peer_number(entry.last_hop)}>{number}"
        for number in NAMES
        for entry in broker(run, number).state.srt
        if entry.tid.host_broker == at(NAMES[host]) and not isinstance(entry.last_hop, ClientId)
    )


def path_of(run: Run, number: int) -> list[str]:
    return [">".join(peer_number(end) for end in hop.split(">")) for hop in hops_of(run, number)]


def copies_at(run: Run, number: str) -> list[tuple[str, str]]:
    """Return (broker that hosts the TID, last hop) of every bound copy at a broker."""
    copies = broker(run, number).state.prt
    return sorted((peer_number(copy.tid.host_broker), peer_number(copy.last_hop)) for copy in copies)


def run_1a(algorithm: str = "tid-static") -> Run:
    body = slow("25", "36") + publisher("P", "1") + subscriber("S", "6") + publication("P")
    return run_figure(algorithm, body)


class TestAdvertisementTreeIdentification:
    """Fig. 1(a): duplicates are detected by the id of the advertisement and discarded."""

    def test_the_first_copies_form_a_tree(self):
        assert tree_of(run_1a(), "1") == ["1>2", "1>4", "2>3", "4>5", "5>6"]

    def test_a_flood_is_nine_messages_of_which_four_are_duplicates(self):
        run = run_1a()
        assert run.messages()["advertisement"] == 9
        assert sum(broker(run, number).counters.duplicates_discarded for number in NAMES) == 4

    def test_broker_5_keeps_the_copy_from_4_and_discards_the_one_from_2(self):
        run = run_1a()
        assert broker(run, "5").counters.duplicates_discarded == 1
        assert [entry.last_hop for entry in broker(run, "5").state.srt] == [at(NAMES["4"])]

    def test_every_broker_has_the_advertisement_in_its_srt(self):
        assert [broker(run_1a(), number).table_sizes()["srt"] for number in NAMES] == [1] * 6

    def test_the_subscription_climbs_the_tree(self):
        run = run_1a()
        assert run.messages()["subscription"] == 3
        stored = {number: copies_at(run, number) for number in sorted(NAMES)}
        assert stored == {"1": [("1", "4")], "2": [], "3": [], "4": [("1", "5")], "5": [("1", "6")], "6": [("1", "S")]}

    @pytest.mark.parametrize("algorithm", ["tid-static", "tid-dynamic"])
    def test_a_publication_descends_it(self, algorithm: str):
        run = run_1a(algorithm)
        assert path_of(run, 0) == ["1>4", "4>5", "5>6"]
        assert received_by(run, 0) == ["S"]

    def test_a_single_routing_path_stays_even_if_its_links_are_congested(self):
        """One path is activated by the advertisement and the subscription; nobody on it has another."""
        congested = '[[link]]\nbetween = ["@1", "@4"]\ncongested = true\nqueue_length = 50\n'
        run = run_figure(
            "tid-dynamic",
            slow("25", "36") + congested + publisher("P", "1") + subscriber("S", "6") + publication("P"),
        )
        assert path_of(run, 0) == ["1>4", "4>5", "5>6"]
        assert received_by(run, 0) == ["S"]


class TestAdvertisementTreeLength:
    """Fig. 1(b): load on two links makes the tree as long as it can be."""

    BODY = slow("14", "25") + publisher("P", "1") + subscriber("S", "4") + publication("P")

    def test_the_tree_runs_around_the_overlay(self):
        assert tree_of(run_figure("tid-static", self.BODY), "1") == ["1>2", "2>3", "3>6", "5>4", "6>5"]

    def test_a_publication_takes_five_messages_to_a_neighbour(self):
        run = run_figure("tid-static", self.BODY)
        assert path_of(run, 0) == ["1>2", "2>3", "3>6", "6>5", "5>4"]
        assert run.messages()["publication"] == 5
        assert received_by(run, 0) == ["S"]


class TestOverlappingAdvertisementTrees:
    """Fig. 1(c): a subscription bound to two trees, which overlap at one broker that can choose."""

    TREES = (
        slow("14", "25")
        + publisher("P1", "1")
        + '[[client]]\nname = "P2"\nbroker = "@4"\n[[client]]\nname = "S"\nbroker = "@6"\n'
        + speeds(l14=1.0, l25=1.0, l45=20.0, l36=20.0)
        + '[[event]]\nclient = "P2"\nadvertise = "x > 0"\n[[event]]\nclient = "S"\nsubscribe = "x > 0"\n'
    )

    def test_the_trees_are_those_of_the_figure(self):
        run = run_figure("tid-static", self.TREES)
        assert tree_of(run, "1") == ["1>2", "2>3", "3>6", "5>4", "6>5"]
        assert tree_of(run, "4") == ["1>2", "2>3", "2>5", "4>1", "5>6"]

    def test_broker_2_has_the_subscription_twice_from_3_and_from_5(self):
        assert copies_at(run_figure("tid-static", self.TREES), "2") == [("1", "3"), ("4", "5")]

    def test_no_other_broker_has_it_from_two_hops(self):
        run = run_figure("tid-static", self.TREES)
        choices = {number: {hop for _, hop in copies_at(run, number)} for number in NAMES}
        assert [number for number, hops in sorted(choices.items()) if len(hops) > 1] == ["2"]

    def test_brokers_1_and_6_save_it_twice_without_a_choice(self):
        run = run_figure("tid-static", self.TREES)
        assert copies_at(run, "1") == [("1", "2"), ("4", "2")]
        assert copies_at(run, "6") == [("1", "S"), ("4", "S")]

    def test_while_no_link_is_congested_publications_keep_to_their_trees(self):
        run = run_figure("tid-dynamic", self.TREES + publication("P1") + publication("P2"))
        assert path_of(run, 0) == ["1>2", "2>3", "3>6"]
        assert path_of(run, 1) == ["4>1", "1>2", "2>5", "5>6"]

    CONGESTED = '[[event]]\nlink = {from = "@2", to = "@3", congested = true}\n'

    def test_with_link_2_3_congested_broker_2_sends_over_5(self):
        run = run_figure("tid-dynamic", self.TREES + self.CONGESTED + publication("P1"))
        assert path_of(run, 0) == ["1>2", "2>5", "5>6"]
        assert received_by(run, 0) == ["S"]
        assert {number: broker(run, number).counters.rewritten for number in NAMES if number != "2"} == dict.fromkeys(
            "13456", 0
        )
        assert broker(run, "2").counters.rewritten == 1

    def test_static_routing_does_not(self):
        run = run_figure("tid-static", self.TREES + self.CONGESTED + publication("P1"))
        assert path_of(run, 0) == ["1>2", "2>3", "3>6"]

    def test_elsewhere_congestion_changes_nothing(self):
        link = '[[event]]\nlink = {from = "@3", to = "@6", congested = true, queue_length = 99}\n'
        run = run_figure("tid-dynamic", self.TREES + link + publication("P1"))
        assert path_of(run, 0) == ["1>2", "2>3", "3>6"]
        assert received_by(run, 0) == ["S"]


def run_evaluation_overlay(event: str = "") -> Run:
    return run_text(f"""
        [overlay]
        tree = "paper:se"
        [routing]
        algorithm = "tid-static"
        confirmations = false
        [[client]]
        name = "P"
        broker = "G.1"
        advertise = ["x > 0"]
        {event}
    """)


class TestEvaluationOverlay:
    """Section 10 compares with floods over the whole of S_e, 56 brokers and 136 links."""

    def test_an_advertisement_costs_217_messages_and_56_entries(self):
        run = run_evaluation_overlay()
        assert run.messages()["advertisement"] == 217
        assert sum(each.table_sizes()["srt"] for each in run.world.brokers.values()) == 56

    def test_its_withdrawal_costs_as_many_and_leaves_none(self):
        run = run_evaluation_overlay('[[event]]\nclient = "P"\nunadvertise = "P/0"')
        assert run.messages()["unadvertisement"] == 217
        assert all(each.table_sizes()["srt"] == 0 for each in run.world.brokers.values())
