"""Section 9, Publications Routing: path lengths, copies and loops. Its worked examples have a file of their own."""

import itertools

import networkx
import pytest

from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree
from octopia.protocol.messages import Publish
from octopia.simulator.run import Run
from support import HandDriven, at, offer, run_text, say, want

OVERLAYS = [("paper:fig3", 3), ("paper:fig7", 4), ("star:5", 3), ("path:5", 2), ("binary:7", 1), ("a", 4)]


def everybody_hears_everybody(tree: str, clusters: int) -> Run:
    """Run an overlay with a publisher and a subscriber at every broker, where each publishes once."""
    brokers = Scot(parse_tree(tree), clusters).brokers
    lines = [f'[overlay]\ntree = "{tree}"\nclusters = {clusters}\n[routing]\nalgorithm = "static"']
    lines += [
        f'[[client]]\nname = "{each}"\nbroker = "{each}"\nadvertise = ["x > 0"]\nsubscribe = ["x > 0"]'
        for each in brokers
    ]
    lines += [f'[[event]]\nclient = "{each}"\npublish = {{x = 1}}' for each in brokers]
    return run_text("\n".join(lines))


@pytest.mark.parametrize(("tree", "clusters"), OVERLAYS)
def test_lengths_of_static_routing_paths_satisfy_the_relations_for_all_pairs(tree: str, clusters: int):
    """max(d) <= diam(G_af) within a cluster, and <= diam(G_af) + 1 across; both bounds are reached."""
    run = everybody_hears_everybody(tree, clusters)
    scot = run.scenario.overlay.scot
    regions = networkx.Graph(scot.tree.edges)
    regions.add_nodes_from(scot.regions)
    distance = dict(networkx.all_pairs_shortest_path_length(regions))
    assert run.complaints() == []
    assert len(run.recorder.deliveries) == len(scot.brokers) ** 2
    longest = {"within": -1, "across": -1}
    for delivery in run.recorder.deliveries:
        start, end = BrokerId.parse(delivery.path[0]), BrokerId.parse(delivery.path[-1])
        hops = len(delivery.path) - 1
        across = start.cluster != end.cluster
        assert hops == distance[start.region][end.region] + across
        key = "across" if across else "within"
        longest[key] = max(longest[key], hops)
    assert longest["within"] == scot.diameter
    assert longest["across"] == (scot.diameter + 1 if clusters > 1 else -1)


@pytest.mark.parametrize(("tree", "clusters"), OVERLAYS)
def test_no_loops_appear_and_no_broker_gets_a_publication_twice(tree: str, clusters: int):
    run = everybody_hears_everybody(tree, clusters)
    visits = [(hop.publication, hop.receiver) for hop in run.recorder.hops if hop.kind == "publication"]
    assert len(set(visits)) == len(visits)
    assert len(visits) == len(run.recorder.deliveries) - len(run.world.scot.brokers)


def test_when_the_host_cluster_is_the_only_target_no_inter_cluster_messaging_takes_place():
    net = HandDriven("paper:fig3", 3)
    net.ask("P2", "a.2", offer(0, "x > 0"))
    net.ask("S2", "f.2", want(0, "x > 5"))
    net.settle()
    net.carried.clear()
    net.ask("P2", "a.2", say(0, x=9))
    net.settle()
    assert [(source, target) for source, target, _ in net.carried] == [
        ("a.2", "b.2"),
        ("b.2", "d.2"),
        ("d.2", "e.2"),
        ("e.2", "f.2"),
    ]


def test_after_the_first_broker_of_a_tsc_only_intra_cluster_routing_is_used():
    net = HandDriven("paper:fig3", 3, algorithm="static")
    net.ask("P", "e.1", offer(0, "x > 0"))
    for cluster in range(3):
        for region in "abcdef":
            net.ask(f"S{region}{cluster}", f"{region}.{cluster}", want(0, "x > 5"))
    net.settle()
    net.carried.clear()
    net.ask("P", "e.1", say(0, x=9))
    net.settle()
    inter_cluster = [(source, target) for source, target, _ in net.carried if source[0] == target[0]]
    assert inter_cluster == [("e.1", "e.0"), ("e.1", "e.2")]


class TestCopiesAtTheHostBroker:
    """Two target aLinks (alpha = 2) and three target iLinks (beta = 3)."""

    @staticmethod
    def copies(algorithm: str, *congested: str) -> int:
        net = HandDriven("a-b, b-c", 4, algorithm=algorithm)
        net.ask("P", "b.3", offer(0, "x > 0"))
        for broker in ("a.3", "c.3", "b.0", "b.1", "b.2"):
            net.ask(f"S-{broker}", broker, want(0, "x > 5"))
        net.settle()
        for link in congested:
            net.force("b.3", link)
        net.ask("P", "b.3", say(0, x=9))
        return sum(len(queue) for queue in net.brokers["b.3"].state.queues.values())

    def test_spr_enqueues_alpha_plus_beta_copies(self):
        assert self.copies("static", "b.0", "a.3") == 2 + 3

    def test_without_congestion_idr_enqueues_as_many(self):
        assert self.copies("dynamic") == 2 + 3

    def test_case_1_adds_alpha_plus_theta(self):
        assert self.copies("dynamic", "b.0") == 2 + 2
        assert self.copies("dynamic", "b.0", "b.1", "a.3", "c.3") == 2 + 1

    def test_case_2_adds_alpha(self):
        assert self.copies("dynamic", "b.0", "b.1", "b.2", "a.3") == 2

    def test_case_3_adds_1_plus_alpha(self):
        assert self.copies("dynamic", "b.0", "b.1", "b.2", "a.3", "c.3") == 2 + 1


def test_dynamic_routing_makes_no_updates_in_routing_tables():
    """Tables as they were, whatever was rerouted."""
    net = HandDriven("a-b, b-c", 4)
    net.ask("P", "b.3", offer(0, "x > 0"))
    for cluster in range(4):
        net.ask(f"S{cluster}", f"c.{cluster}", want(0, "x > 5"))
    net.settle()

    def tables() -> list[list[object]]:
        return [
            [*((entry.id, str(entry.civ)) for entry in broker.state.clt), *(entry for entry in broker.state.prt)]
            for broker in net.brokers.values()
        ]

    before = tables()
    for link in ("b.0", "b.1", "b.2", "c.3"):
        net.force("b.3", link)
    net.ask("P", "b.3", say(0, x=9))
    net.settle()
    assert tables() == before


def test_under_every_congestion_pattern_everybody_gets_it_once_and_each_tsc_is_entered_once():
    """All 512 patterns on two regions and three clusters, all from one publisher."""
    net = HandDriven("a-b", 3)
    net.ask("P", "a.0", offer(0, "x > 0"))
    subscribers = {"S0": "b.0", "S1": "a.1", "S2": "b.2"}
    for name, broker in subscribers.items():
        net.ask(name, broker, want(0, "x > 5"))
    net.settle()
    links = [(str(low), str(high)) for low, high in (*net.scot.alinks, *net.scot.ilinks)]
    cases = 0
    for number, pattern in enumerate(itertools.product((False, True), repeat=len(links))):
        for (low, high), congested in zip(links, pattern, strict=True):
            net.force(low, high, congested=congested)
        net.carried.clear()
        net.ask("P", "a.0", say(number, x=9))
        net.settle()
        for name in subscribers:
            assert [message.id.number for message in net.received(name)] == [number]
        entered = [target[2] for source, target, _ in net.carried if source[0] == target[0]]
        assert sorted(entered) == ["1", "2"]
        assert all(isinstance(message, Publish) and message.hop <= net.scot.hop_bound for _, _, message in net.carried)
        cases += 1
    assert cases == 512


def test_a_congested_alink_still_gets_its_copy_since_intra_cluster_routing_is_not_dynamic():
    net = HandDriven("a-b, b-c", 2)
    net.ask("P", "b.0", offer(0, "x > 0"))
    net.ask("S", "a.0", want(0, "x > 5"))
    net.settle()
    net.force("b.0", "a.0")
    net.ask("P", "b.0", say(0, x=9))
    assert net.brokers["b.0"].take(at("a.0"), 0.0).hop == 1


class TestEquation3:
    """(Q_l) . (1 + Q_in, 1 + Q_out)_tw > tau, by real traffic."""

    def test_an_output_queue_is_congestion_free_when_ce_is_1_and_the_queue_length_is_0(self):
        net = HandDriven("a-b", 2)
        status = net.brokers["a.0"].link_status_table(50.0)[at("a.1")]
        assert (status.queue_length, status.entered, status.left, status.congested) == (0, 0, 0, False)

    def test_the_values_are_updated_after_each_tw_interval(self):
        net = HandDriven("a-b", 2)
        net.ask("P", "a.0", offer(0, "x > 0"))
        net.ask("S", "a.1", want(0, "x > 0"))
        net.settle()
        net.ask("P", "a.0", *(say(number, x=1) for number in range(4)))
        broker = net.brokers["a.0"]
        broker.take(at("a.1"), 0.0)
        assert broker.link_status_table(49.0)[at("a.1")].entered == 0
        status = broker.link_status_table(50.0)[at("a.1")]
        assert (status.queue_length, status.entered, status.left) == (3, 4, 1)
        assert not status.congested  # 3 * 5 / 2 = 7.5
