"""The stories of decisions of adaptive routing."""

import pytest

from adaptive_world import Ground, Scene, at
from octopia.broker import LinkView
from octopia.broker.adaptive_routing import Arrival, over_alink, published, route_adaptively
from octopia.broker.adaptive_story import describe_congestion, tell
from octopia.broker.congestion import Rule
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties


def story(
    scene: Scene, broker: str, arrival: Arrival | None = None, wanted_by: dict[BrokerId, str] | None = None
) -> list[str]:
    here = at(broker)
    arrival = arrival or published(here.cluster, scene.ground.audience(here))
    view = scene.see(here)
    links = [LinkView(each, 20, congested=True, rule=Rule.LENGTH) for each in sorted(view.full)]
    links += [LinkView(each, 20, congested=True, rule=Rule.DOWN) for each in sorted(view.down)]
    return list(tell(route_adaptively(arrival, scene.ground.interested(here), view), here, wanted_by, links))


def test_a_detour_around_a_congested_alink():
    ground = Ground("a-b, b-c", 4, "a.3 c.3 c.1")
    assert story(Scene(ground, congested="b.3>c.3", queues={"b.3>c.3": 20}), "b.3") == [
        "nobody in b wants it in cluster 1: it can be entered in c",
        "> a.3 over the aLink, with cluster 3, since the aLink is free",
        "the aLink to c.3 is congested, so clusters 1, 3 behind c must go around",
        "ways for the rest, by waiting work: b.1 (1), b.0 (2), b.2 (2), the aLinks here (20)",
        "> b.1 over the iLink, with clusters 1, 3 behind c, since it is the best way",
    ]


def test_a_dead_broker():
    ground = Ground("a-b, b-c", 4, "a.2 b.2 c.0 c.2")
    assert story(Scene(ground, dead="b.0"), "b.2", over_alink(at("a.2"), 0b0101)) == [
        "no way to b.0: a copy for its clients waits here, and cluster 0 can be entered in c",
        "> c.2 over the aLink, with clusters 0, 2, since all other links are free",
    ]


def test_a_dead_broker_in_the_last_region():
    scene = Scene(Ground("a-b", 2, "b.1"), dead="b.1")
    assert story(scene, "b.0", over_alink(at("a.0"), 0b10)) == ["no way to b.1: a copy for its clients waits here"]


def test_a_dead_broker_that_has_no_interested_clients():
    ground = Ground("a-b, b-c", 2, "c.1")
    assert story(Scene(ground, dead="b.1"), "b.0") == [
        "no way to b.1, where nobody wants it: cluster 1 can be entered in c",
        "> c.0 over the aLink, with cluster 1, since all other links are free",
    ]


def test_clusters_that_nobody_wants_in_the_host_region():
    scene = Scene(Ground("a-b, b-c", 4, "a.0 c.1 c.2"), congested="b.3>b.0", queues={"b.3>b.0": 20})
    assert story(scene, "b.3")[0] == (
        "nobody in b wants it in clusters 0, 1, 2: cluster 0 can be entered in a and clusters 1, 2 can be entered in c"
    )
    beyond = Scene(Ground("a-b", 3, "b.1 b.2"), congested="a.0>a.1", queues={"a.0>a.1": 20})
    assert story(beyond, "a.0")[0] == "nobody in a wants it in clusters 1, 2: both can be entered in b"
    more = Scene(Ground("a-b", 4, "b.1 b.2 b.3"), congested="a.0>a.1", queues={"a.0>a.1": 20})
    assert story(more, "a.0")[0] == "nobody in a wants it in clusters 1, 2, 3: all can be entered in b"


def test_no_way_at_all():
    scene = Scene(Ground("a-b", 2, "b.0 b.1"), down="a.0-b.0 a.0-a.1")
    assert story(scene, "a.0") == [
        "no way to a.1, where nobody wants it: cluster 1 can be entered in b",
        "waits here: clusters 0, 1 behind b, since there is no way",
    ]
    alone = Scene(Ground("a-b", 2), down="a.0-b.0 a.0-a.1")
    assert story(alone, "a.0")[0].startswith("no way to a.1: a copy for its clients waits here")


def test_static_paths():
    scene = Scene(Ground("a-b", 2, "b.0 a.1"))
    assert story(scene, "a.0") == [
        "> b.0 over the aLink, on its static path",
        "> a.1 over the iLink, on its static path",
    ]
    named = story(scene, "a.0", wanted_by={at("b.0"): "S/0, S/1"})
    assert named[0] == "> b.0 over the aLink, wanted by S/0, S/1, on its static path"


def test_a_copy_with_everything():
    scene = Scene(Ground("a-b, b-c", 3), congested="b.0>c.0 b.0>b.2", queues={"b.0>c.0": 20, "b.0>b.2": 15})
    lines = story(scene, "b.0", Arrival(Duties(0b110, (("c", 0b001),), "a", 1)))
    assert lines == [
        "the aLink to c.0 is congested, so cluster 0 behind c must go around",
        "the iLink to b.2 is congested, so cluster 2 must go around",
        "ways for the rest, by waiting work: b.1 (0), b.2 (15, congested)",
        "> b.1 over the iLink, with clusters 1, 2 from b on and cluster 0 behind c, since it is the best way",
    ]


def test_ways_with_drawbacks():
    relays = Scene(Ground("a-b", 3, "a.2 b.0"), down="a.0-b.0")
    assert "ways for the rest, by waiting work: a.2 (0), a.1 (1, only a relay)" in story(relays, "a.0")
    both = Arrival(Duties(0, (("a", 0b01), ("c", 0b01))))
    halves = Scene(Ground("a-b, b-c", 2), down="b.0-a.0 b.1-c.1", congested="b.0>c.0", queues={"b.0>c.0": 20})
    assert story(halves, "b.0", both)[-2:] == [
        "ways for the rest, by waiting work: b.1 (2, 1 of 2 aLinks down), the aLinks here (20, 1 of 2 aLinks down)",
        "> b.1 over the iLink, with cluster 0 behind a and cluster 0 behind c, since it is the best way",
    ]


@pytest.mark.parametrize(
    ("rule", "length", "told"),
    [
        (Rule.LENGTH, 20, "queue 20"),
        (Rule.TIME, 3, "queue 3, takes 200 ms"),
        (Rule.SLOW, 0, "slow: 200 ms per copy"),
        (Rule.HELD, 0, "held for another 200 ms"),
        (Rule.FORCED, 0, "as the scenario says"),
        (Rule.FORCED, 7, "queue 7"),
        (None, 7, "queue 7"),
    ],
)
def test_the_rule_by_which_a_link_is_congested(rule: Rule | None, length: int, told: str):
    view = LinkView(at("b.0"), length, congested=True, rule=rule, rule_ms=200.0)
    assert describe_congestion(view) == told
