"""The story of a publication: why it went where it went, and why somebody did not get it."""

import pytest

from adaptive_world import Ground, Scene
from octopia.broker import Decision, LinkView, OctopiaBroker, Routed
from octopia.broker.adaptive_routing import Arrival, over_alink, over_ilink, published, route_adaptively
from octopia.broker.story import RoutingStep
from octopia.content import Publication
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, PublicationId
from octopia.protocol import ClusterIndexVector
from octopia.protocol.duties import Duties, Origin
from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.explain import _journey, explain_publication
from octopia.simulator.run import Run
from support import EXAMPLES, run_text, scenario_from

BASE = """
[overlay]
tree = "a-b"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["symbol = 'IBM' AND price > 0"]
[[client]]
name = "S"
broker = "b.1"
subscribe = ["price > 10 AND symbol = 'IBM'", "volume > 5"]
"""


def event(text: str, client: str = "P") -> str:
    return f'[[event]]\nclient = "{client}"\n{text}\n'


def story(events: str, number: int = 0, base: str = BASE) -> list[str]:
    return explain_publication(scenario_from(base + events), number)


def example(name: str, algorithm: Algorithm = Algorithm.DYNAMIC) -> list[str]:
    return explain_publication(load_scenario(EXAMPLES / name).with_algorithm(algorithm), 0)


def test_a_delivered_publication_hop_by_hop():
    assert story(event("publish = {symbol = 'IBM', price = 12.5}")) == [
        "publication 0 by P: symbol = 'IBM', price = 12.5",
        "  at a.0, from P:",
        "    conforms to P/0, whose advertisement_civ is 11",
        "    clusters still to be reached: 1 (bits 10)",
        "    > a.1 over the iLink, for bit 1",
        "  at a.1, from a.0:",
        "    > b.1 over the aLink, wanted by S/0",
        "  at b.1, from a.1:",
        "    for S/0 here",
        "  S received it for S/0 over a.0 > a.1 > b.1 in 4 ms",
        "  S/1 did not get it: volume > 5 is unknown: the publication has no volume",
    ]


def test_a_refused_publication_names_the_predicate_that_failed():
    lines = story(event("publish = {symbol = 'IBM', price = -1}"))
    assert lines[1] == (
        "  refused: it conforms to none of its publisher's advertisements; "
        "the closest is (symbol = 'IBM' AND price > 0), which excludes price = -1: "
        "change the value, or advertise what you publish"
    )
    assert lines[2].startswith("    P/0 (symbol = 'IBM' AND price > 0): price > 0 is false")
    assert not any(line.startswith("  at ") for line in lines)


def test_a_refused_publication_names_the_attribute_that_was_never_declared():
    lines = story(event("publish = {symbol = 'IBM', volume = 1}"))
    assert lines[2] == "    P/0 (symbol = 'IBM' AND price > 0): it does not declare volume"


def test_a_refused_publication_names_the_predicate_that_failed_also_behind_a_missing_attribute():
    lines = story(event("publish = {price = -1}"))
    assert "price > 0 is false" in lines[2]


def test_a_refused_publication_says_why_each_filter_of_an_or_does_not_fit():
    base = BASE.replace("symbol = 'IBM' AND price > 0", "symbol = 'IBM' OR price > 0")
    lines = story(event("publish = {symbol = 'IBM', price = 1}"), base=base)
    assert lines[1].startswith("  refused")
    assert not lines[2].rstrip().endswith(":")


def test_a_failing_predicate_is_named_with_the_value():
    lines = story(event("publish = {symbol = 'IBM', price = 3}"))
    (line,) = (line for line in lines if line.startswith("  S/0"))
    assert line == "  S/0 did not get it: price > 10 is false: price is 3"


def test_a_false_positive_is_named_where_it_happens():
    lines = story(event("publish = {symbol = 'IBM', price = 3}"))
    assert lines[lines.index("  at a.1, from a.0:") + 1] == "    nobody wants it here or beyond: a false positive"


def test_what_nobody_wants_is_no_false_positive_at_its_host_broker():
    alone = BASE[: BASE.index('[[client]]\nname = "S"')]
    lines = story(event("publish = {symbol = 'IBM', price = 3}"), base=alone)
    assert not any("false positive" in line for line in lines)


def test_a_subscription_that_was_not_in_force():
    events = event('unsubscribe = "S/0"', "S") + event("publish = {symbol = 'IBM', price = 12}")
    assert "  S/0 did not get it: it was not in force when the publication was made" in story(events)
    late = event("publish = {symbol = 'IBM', price = 12}") + event('subscribe = "price > 1"\nid = "late"', "S")
    assert "  late did not get it: it was not in force when the publication was made" in story(late)


def test_a_matching_subscription_of_a_refused_publication():
    lines = story(event("publish = {symbol = 'SAP', volume = 9}"))
    (line,) = (line for line in lines if line.startswith("  S/1"))
    assert "it matches, but the publication was refused" in line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fig7b.toml", ["case I: ", "b.1 over the iLink, for bit 1, carrying 0001"]),
        ("fig7c.toml", ["case II: ", "c.3 over the aLink, wanted by S4/0, carrying 0101"]),
        ("fig7d.toml", ["case III: ", "b.2 over the iLink, for bit 2, carrying 0011"]),
    ],
)
def test_the_cases_of_fig_7_are_told(name: str, expected: list[str]):
    lines = example(name)
    host = lines[
        1 : lines.index(next(line for line in lines if line.startswith("  at ") and "b.3, from P" not in line))
    ]
    for text in expected:
        assert any(text in line for line in host)
    assert any("congested: " in line for line in host)


ADAPTIVE = """
[overlay]
tree = "a-b, b-c"
clusters = 4
[[client]]
name = "P"
broker = "b.3"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "c.3"
subscribe = ["x > 5"]
[[client]]
name = "T"
broker = "c.1"
subscribe = ["x > 6"]
[[event]]
client = "P"
publish = { x = 9 }
"""


def adaptive_step(run: Run, name: str, source: str, scene: Scene, arrival: Arrival, targets: int) -> RoutingStep:
    """Return the step that a broker would have taken in a scene."""
    here = BrokerId.parse(name)
    broker = run.world.broker(here)
    assert isinstance(broker, OctopiaBroker)
    entries = [entry for entry in broker.state.prt if isinstance(entry.last_hop, BrokerId)]
    local = tuple(entry.id for entry in broker.state.prt if not isinstance(entry.last_hop, BrokerId))
    decision = route_adaptively(arrival, scene.ground.interested(here), scene.see(here))
    sender = ClientId(source) if source == "P" else BrokerId.parse(source)
    routed = Routed(
        publication=PublicationId(BrokerId("b", 3), 1, 0),
        content=Publication({"x": 9}),
        source=sender,
        advertisements=(),
        alinks=(),
        local=local,
        targets=ClusterIndexVector(targets, 4),
        links=tuple(LinkView(each, 20, congested=True) for each in sorted(scene.see(here).full)),
        decision=Decision(()),
        adaptive=decision,
    )
    return RoutingStep(here, routed, {entry.last_hop: [entry.id] for entry in entries}, {})


def test_an_adaptive_journey_around_a_congested_alink():
    run = run_text(ADAPTIVE)
    ground = Ground("a-b, b-c", 4, "c.3 c.1")
    scene = Scene(ground, congested="b.3>c.3", queues={"b.3>c.3": 20})
    host = BrokerId("b", 3)
    steps = [
        adaptive_step(run, "b.3", "P", scene, published(3, ground.audience(host)), 0b1010),
        adaptive_step(run, "b.1", "b.3", scene, over_ilink(host, Duties(0, (("c", 0b1010),), Origin.HOST, 1)), 0),
        adaptive_step(run, "c.1", "b.1", scene, over_alink(BrokerId("b", 1), 0b1010), 0b1010),
        adaptive_step(run, "c.3", "c.1", scene, over_ilink(BrokerId("c", 1), Duties(0b1000, (), "b", 1)), 0b1000),
    ]
    assert list(_journey(run, steps)) == [
        "  at b.3, from P:",
        "    clusters still to be reached: 1 (bits 0010)",
        "    congested: c.3 (queue 20)",
        "    nobody in b wants it in cluster 1: it can be entered in c",
        "    the aLink to c.3 is congested, so clusters 1, 3 behind c must go around",
        "    ways for the rest, by waiting work: b.1 (1), b.0 (2), b.2 (2), the aLinks here (20)",
        "    > b.1 over the iLink, with clusters 1, 3 behind c, since it is the best way",
        "  at b.1, from b.3:",
        "    passes through: it does not enter cluster 1 here",
        "    > c.1 over the aLink, with clusters 1, 3, wanted by T/0, since all links that it needs are free",
        "  at c.1, from b.1:",
        "    for T/0 here",
        "    clusters still to be reached: 3 (bits 1000)",
        "    > c.3 over the iLink, on its static path",
        "  at c.3, from c.1:",
        "    for S/0 here",
    ]


def test_a_copy_that_is_routed_again():
    run = run_text(ADAPTIVE)
    scene = Scene(Ground("a-b, b-c", 4, "c.3 c.1"), dead="b.1", down="b.3-c.3")
    again = adaptive_step(run, "b.3", "b.3", scene, Arrival(Duties(0b0010, (("c", 0b1000),))), 0b0010)
    assert list(_journey(run, [again])) == [
        "  at b.3, again:",
        "    clusters still to be reached: 1 (bits 0010)",
        "    no way to b.1: a copy for its clients waits here, and cluster 1 can be entered in a and c",
        "    > a.3 over the aLink, with cluster 1, since the aLink is free",
        "    ways for the rest, by waiting work: b.0 (2), b.2 (2)",
        "    > b.0 over the iLink, with clusters 1, 3 behind c, since it is the best way",
    ]


def test_a_false_positive_of_adaptive_routing():
    run = run_text(ADAPTIVE)
    nobody = Scene(Ground("a-b, b-c", 4, ""))
    arrival = over_ilink(BrokerId("b", 3), Duties(0b0001, (), Origin.HOST, 1))
    assert list(_journey(run, [adaptive_step(run, "b.0", "b.3", nobody, arrival, 0b0001)])) == [
        "  at b.0, from b.3:",
        "    nobody wants it here or beyond: a false positive",
    ]


def test_static_routing_knows_no_cases():
    lines = example("fig7d.toml", Algorithm.STATIC)
    assert not any("case " in line or "carrying" in line for line in lines)


@pytest.mark.parametrize("number", [-1, 1, 99])
def test_a_publication_that_was_never_made(number: int):
    with pytest.raises(UsageError, match="from 0 to 0, got"):
        story(event("publish = {symbol = 'IBM', price = 3}"), number)


def test_a_scenario_without_publications():
    with pytest.raises(UsageError):
        story("")


def test_a_slow_link_is_congested_by_name():
    lines = explain_publication(load_scenario(EXAMPLES / "cities.toml").with_algorithm(Algorithm.ADAPTIVE), 6)
    assert lines[4:7] == [
        "    congested: lon.1 (slow: 200 ms per copy)",
        "    nobody in lon wants it in clusters 1, 2: both can be entered in tok",
        "    > tok.0 over the aLink, with clusters 1, 2, since the aLink is free",
    ]


def test_a_congested_link_that_the_copy_does_not_need_is_left_out():
    lines = explain_publication(load_scenario(EXAMPLES / "slow_alink.toml"), 0)
    assert [line for line in lines if "congested:" in line] == ["    congested: c.3 (queue 20)"]


@pytest.mark.parametrize(("algorithm", "place"), [("adaptive", "b.1"), ("dynamic", "a.0")])
def test_a_copy_for_a_dead_broker_waits_for_it(algorithm: str, place: str):
    base = BASE.replace("[[client]]", f'[routing]\nalgorithm = "{algorithm}"\n[[client]]', 1)
    base = base.replace('broker = "b.1"', 'broker = "b.0"')
    events = '[[event]]\ncrash = "b.0"\n' + event("publish = {symbol = 'IBM', price = 12.5}")
    lines = story(events, base=base)
    assert f"  S/0 did not get it: it matches, but a copy waits at {place} until b.0 is back" in lines


def test_a_copy_for_a_broker_that_is_cut_off_waits_until_it_can_be_reached():
    events = "".join(f'[[event]]\ncut = ["{one}", "b.1"]\n' for one in ("a.1", "b.0"))
    base = BASE.replace("[[client]]", '[routing]\nalgorithm = "adaptive"\n[[client]]', 1)
    lines = story(events + event("publish = {symbol = 'IBM', price = 12.5}"), base=base)
    assert "  S/0 did not get it: it matches, but a copy waits at b.0 until b.1 can be reached" in lines
