"""The demo from data to page, at a size that takes seconds."""

from octopia.experiments.demo.pictures import draw_pictures
from octopia.experiments.demo.plan import Plan
from octopia.experiments.demo.report import write_report
from octopia.experiments.demo.running import run_demo
from octopia.pipeline.spec import Burst, WorkloadSpec

TINY = Plan(
    WorkloadSpec(
        tree="path:2",
        clusters=3,
        publishers=2,
        publications=2,
        subscribers=9,
        selectivity=0.5,
        per_minute_min=600.0,
        per_minute_max=600.0,
        burst=Burst(publications=60, per_minute=12_000.0, start_ms=0.0, share=0.3),
        seed=1,
    ),
    symbols=10,
    days=3,
    link_rate=60.0,
)


def test_static_routing_waits_for_a_slow_link_and_dynamic_routing_does_not(bench, tmp_path):
    outcome = run_demo(bench, tmp_path, TINY)
    static, dynamic = outcome.sides
    assert (static.run.algorithm, dynamic.run.algorithm) == ("static", "dynamic")
    assert outcome.is_clean
    assert static.run.deliveries == dynamic.run.deliveries == static.audit.owed == outcome.matches
    # Sixty publications leave over the slow link in a second, and are published in a third of it.
    assert static.delays.max_ms > 400
    assert dynamic.delays.max_ms < static.delays.max_ms
    assert [(one.region == other.region, one) for one, other in outcome.links] == [(True, outcome.host)]
    assert [name for name, _ in outcome.steps] == ["workload", "truth", "static routing", "dynamic routing", "audit"]
    page = write_report(outcome, draw_pictures(outcome, tmp_path), tmp_path)
    assert "everything came exactly once" in page.read_text()
