"""The sentence that says what is happening."""

from __future__ import annotations

from octopia.http.meter import LinkRate, Scene
from octopia.http.story import tell

CONGESTED = LinkRate("b.3", "b.0", sent=50.0, congested=1.0, queue=10, limit=50.0)
AROUND = (LinkRate("b.3", "b.1", sent=247.0, rerouted=87.0), LinkRate("b.3", "b.2", sent=213.0, rerouted=53.0))


def test_a_congested_link_and_the_way_around_it() -> None:
    story = tell(Scene([CONGESTED, *AROUND], 160.0, 900.0, (), ["adaptive"]))
    assert story.text == (
        "b.3 → b.0 (queue 10) is congested. Publications go around, over b.3 → b.1 (87/s), b.3 → b.2 (53/s)."
    )
    assert story.congested == ("b.3>b.0",)
    assert story.carriers == ("b.3>b.1", "b.3>b.2")


def test_under_static_routing_publications_wait() -> None:
    story = tell(Scene([CONGESTED], 160.0, 900.0, (), ["static"]))
    assert story.text == "b.3 → b.0 (queue 10) is congested. Publications wait: static routing does not reroute them."


def test_without_another_way_they_wait_too() -> None:
    assert tell(Scene([CONGESTED], routing=["dynamic"])).text.endswith("Publications wait for it.")
    both = [CONGESTED, LinkRate("b.3", "a.3", congested=1.0, queue=4)]
    assert tell(Scene(both, routing=["dynamic"])).text == (
        "b.3 → b.0 (queue 10) and b.3 → a.3 (queue 4) are congested. Publications wait for them."
    )


def test_links_that_were_slow_for_a_moment_do_not_hide_one_that_is_congested() -> None:
    brief = [LinkRate("a.0", f"a.{each}", congested=0.4) for each in (1, 2, 3)]
    assert tell(Scene([*brief, CONGESTED, *AROUND])).congested == ("b.3>b.0",)
    assert tell(Scene(brief)).text.startswith("a.0 → a.1, a.0 → a.2 and a.0 → a.3 are congested.")


def test_many_links_are_counted() -> None:
    many = [LinkRate("a.0", f"a.{each}", congested=1.0, queue=9) for each in range(1, 6)]
    assert (
        "a.0 → a.1 (queue 9), a.0 → a.2 (queue 9), a.0 → a.3 (queue 9) and 2 more are congested."
        in tell(Scene(many)).text
    )


def test_a_broker_that_is_not_running() -> None:
    dead = LinkRate("b.0", "b.1", is_up=False)
    story = tell(Scene([dead, AROUND[0]], missing=["b.1"]))
    assert story.text == "b.1 is not running."
    other = LinkRate("a.1", "a.2", rerouted=12.0)
    assert tell(Scene([dead, other], missing=["b.1"])).text == (
        "b.1 is not running. Publications go around, over a.1 → a.2 (12/s)."
    )


def test_a_link_that_is_cut_is_named_once() -> None:
    both = [LinkRate("b.0", "b.1", is_up=False, is_cut=True), LinkRate("b.1", "b.0", is_up=False, is_cut=True)]
    assert tell(Scene(both)).text == "b.0 ↔ b.1 is cut."
    assert tell(Scene([LinkRate("b.1", "b.0", is_up=False)])).text == "b.0 ↔ b.1 is down."


def test_all_is_well() -> None:
    free = LinkRate("b.3", "b.0", sent=50.0)
    assert tell(Scene([free], 160.0, 2_112.4)).text == "No link is congested. 160/s published, 2,112/s delivered."
    assert tell(Scene([free])).text == "No link is congested. Nothing is being published."
    limited = LinkRate("b.3", "b.0", sent=20.0, limit=50.0)
    assert tell(Scene([limited], 4.25, 8.0)).text == (
        "No link is congested. Limited: b.3 → b.0 (50/s). 4.2/s published, 8/s delivered."
    )
