"""The stories of decisions of adaptive routing."""

from adaptive_world import Ground, Scene, at
from octopia.broker.adaptive_routing import Arrival, over_alink, published, route_adaptively
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties
from octopia.simulator.adaptive_story import tell


def story(
    scene: Scene, broker: str, arrival: Arrival | None = None, wanted_by: dict[BrokerId, str] | None = None
) -> list[str]:
    here = at(broker)
    arrival = arrival or published(here.cluster, scene.ground.audience(here))
    return list(tell(route_adaptively(arrival, scene.ground.interested(here), scene.see(here)), here, wanted_by))


def test_a_detour_around_a_congested_alink():
    ground = Ground("a-b, b-c", 4, "a.3 c.3 c.1")
    assert story(Scene(ground, congested="b.3>c.3", queues={"b.3>c.3": 20}), "b.3") == [
        "> a.3 over the aLink, with cluster 3, since the aLink is free",
        "ways for the rest, by waiting work: b.1 (1), b.0 (2), b.2 (2), the aLinks here (20)",
        "> b.1 over the iLink, with clusters 1, 3 behind c, since it is the best way",
    ]


def test_a_dead_broker():
    ground = Ground("a-b, b-c", 4, "a.2 b.2 c.0 c.2")
    assert story(Scene(ground, dead="b.0"), "b.2", over_alink(at("a.2"), 0b0101)) == [
        "b.0 cannot be reached: a copy for its clients waits here, and other regions enter cluster 0",
        "> c.2 over the aLink, with clusters 0, 2, since all links that it needs are free",
    ]


def test_no_way_at_all():
    scene = Scene(Ground("a-b", 2, "b.0 b.1"), down="a.0-b.0 a.0-a.1")
    assert story(scene, "a.0") == ["waits here: clusters 0, 1 behind b, since there is no way"]
    alone = Scene(Ground("a-b", 2), down="a.0-b.0 a.0-a.1")
    assert story(alone, "a.0")[0].startswith("a.1 cannot be reached")


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
        "ways for the rest, by waiting work: b.1 (0), b.2 (15, second choice)",
        "> b.1 over the iLink, with clusters 1, 2 from b on and cluster 0 behind c, since it is the best way",
    ]
