import dataclasses
import re
import sys
from pathlib import Path

import paper_rows as make
import pytest
from paper_rows import DYNAMIC, OCTOPIA, STATIC, TID

from octopia.errors import MissingDependency, UsageError
from octopia.experiments.paper.figures import MAIN, copy_main, draw_all
from octopia.experiments.paper.names import Contender, Model, Scale, System
from octopia.experiments.paper.rows import CostRow, Tables
from octopia.pipeline.spec import HostKind

FIVE = tuple(Contender)[:5]

pytest.importorskip("matplotlib")

PUBLISHERS = tuple(
    make.publishers(
        count,
        system,
        seed=seed,
        model=model,
        advertisement_delay_ms=each_ms * seed,
        table_size_mean=float(count),
        advertisement_messages=count * messages,
    )
    for model in (Model.LINKS, Model.RACE_TREES)
    for count in (100, 500)
    for system, each_ms, messages in ((OCTOPIA, 1.0, 3), (TID, 3.0, 217))
    for seed in (1, 2)
)
SUBSCRIBERS = tuple(make.subscribers(1_000, system) for system in (OCTOPIA, TID))
DELIVERY = tuple(make.delivery(1_000, algorithm) for algorithm in FIVE)
COSTS = tuple(CostRow(1_000, algorithm, 10, 5.0, 1.0, 100.0, 20.0) for algorithm in FIVE)
SEQUENCES = tuple(
    make.sequence(algorithm, number, 100.0 * number * seed, 1_000.0 * number, rate_per_minute=rate, seed=seed)
    for rate in (40_000, 100_000, 5_000)
    for algorithm in (STATIC, DYNAMIC)
    for seed in (1, 2, 3)
    for number in range(3)
)
BURSTS = tuple(
    make.burst(algorithm, 1.0, 1000.0 * number, host=host)
    for host in (HostKind.INNER, HostKind.EDGE)
    for number, algorithm in enumerate(Contender)
)
BOUNDS = tuple(make.bound(2_000.0, 500.0, host=host) for host in (HostKind.INNER, HostKind.EDGE))


def texts(path: Path) -> list[str]:
    """Matplotlib writes every text as a comment before its outlines."""
    return [each.strip() for each in re.findall(r"<!-- (.*?) -->", path.read_text())]


def test_every_figure_of_the_paper_is_drawn(tmp_path: Path):
    tables = Tables(PUBLISHERS, SUBSCRIBERS, DELIVERY, COSTS, BURSTS, SEQUENCES, BOUNDS)
    drawn = draw_all(tables, tmp_path / "new")
    numbers = [*range(7, 18), 20]
    assert [figure.title.partition(":")[0] for figure in drawn[:-2]] == [f"Fig. {number}" for number in numbers]
    assert drawn[-2].title == "Figs. 17-20: A burst of 5K per minute"
    assert drawn[-1].title == "Time to overcome a burst of 100K per minute"
    assert [figure.name for figure in drawn if figure.by_clock] == [
        "fig14-matching-delay",
        "fig16-path-selection-delay",
    ]
    for figure in drawn:
        assert figure.png.read_bytes().startswith(b"\x89PNG")
        assert figure.title in texts(figure.svg)
        assert figure.note.endswith(".")
    for scale, prefix in ((Scale.LAPTOP, "evaluation"), (Scale.PAPER, "full-size")):
        copy_main(drawn, tmp_path / prefix, scale)
        assert sorted(each.name for each in (tmp_path / prefix).iterdir()) == [f"{prefix}-{name}.png" for name in MAIN]


def test_the_same_tables_give_the_same_bytes(tmp_path: Path):
    tables = Tables(costs=COSTS, bursts=BURSTS, bounds=BOUNDS)
    first, second = draw_all(tables, tmp_path / "a"), draw_all(tables, tmp_path / "b")
    assert [each.png.read_bytes() for each in first] == [each.png.read_bytes() for each in second]
    assert [each.svg.read_bytes() for each in first] == [each.svg.read_bytes() for each in second]
    assert b"<dc:date>" not in first[0].svg.read_bytes()


def test_what_was_not_run_is_not_drawn(tmp_path: Path):
    assert draw_all(Tables(), tmp_path) == []
    assert [each.name for each in draw_all(Tables(subscribers=SUBSCRIBERS), tmp_path)] == [
        "fig10-subscription-delay",
        "fig11-prt-size",
        "fig12-subscription-messages",
    ]
    assert len(list(tmp_path.iterdir())) == 6


def test_axes_have_units_and_lines_have_names(tmp_path: Path):
    [delay, *_] = draw_all(Tables(publishers=PUBLISHERS), tmp_path)
    assert {"delay (ms)", "publishers", OCTOPIA, TID, "100", "500"} <= set(texts(delay.svg))
    [burst, _] = draw_all(Tables(bursts=BURSTS, sequences=SEQUENCES[18:36], bounds=BOUNDS), tmp_path)
    shown = texts(burst.svg)
    assert {"time since the burst began (s)", "maximum delay (s)", "links", "inner host"} <= set(shown)
    assert (shown.count("bound for SPR"), shown.count("bound for any routing")) == (1, 1)
    assert (shown.count("SPR, static"), shown.count("IDR, dynamic"), shown.count("TID-S")) == (1, 1, 0)


def test_there_is_a_panel_per_model_that_differs(tmp_path: Path):
    [delay, *_] = draw_all(Tables(publishers=PUBLISHERS), tmp_path)
    assert (texts(delay.svg).count("links"), texts(delay.svg).count("race-trees")) == (1, 1)
    assert "broker-sender" not in texts(delay.svg)


def test_recovery_has_bars_for_all_and_both_bounds(tmp_path: Path):
    [recovery] = draw_all(Tables(bursts=BURSTS, bounds=BOUNDS), tmp_path)
    shown = texts(recovery.svg)
    assert {"adaptive", "TID-D, one copy per hop", "bound for any routing", "inner host", "edge host"} <= set(shown)


def test_an_algorithm_that_the_first_group_lacks_is_in_the_legend(tmp_path: Path):
    inner = [row for row in BURSTS if row.host is HostKind.INNER and row.algorithm != "adaptive"]
    edge = [row for row in BURSTS if row.host is HostKind.EDGE]
    [recovery] = draw_all(Tables(bursts=(*inner, *edge), bounds=BOUNDS), tmp_path)
    assert texts(recovery.svg).count("adaptive") == 1


def test_a_variant_alone_is_drawn(tmp_path: Path):
    alone = tuple(row for row in BURSTS if row.algorithm == "tid-dynamic-per-hop")
    [recovery] = draw_all(Tables(bursts=alone), tmp_path)
    assert "TID-D, one copy per hop" in texts(recovery.svg)


def test_a_model_without_bursts_has_no_bars(tmp_path: Path):
    elsewhere = make.delivery(1_000, STATIC, model=Model.RACE_TREES)
    drawn = draw_all(Tables(delivery=(elsewhere,), bursts=BURSTS, bounds=BOUNDS), tmp_path)
    assert "race-trees" not in texts(drawn[-1].svg)


def test_adaptive_routing_is_in_every_figure(tmp_path: Path):
    systems = (*PUBLISHERS, make.publishers(100, System.ADAPTIVE))
    subscribers = (*SUBSCRIBERS, make.subscribers(1_000, System.ADAPTIVE))
    sequences = (*SEQUENCES, make.sequence(Contender.ADAPTIVE, 0, 10.0, 1_000.0, rate_per_minute=100_000))
    tables = Tables(systems, subscribers, DELIVERY, COSTS, BURSTS, sequences, BOUNDS)
    shown = [each for each in draw_all(tables, tmp_path) if each.name not in ("fig20-burst", "burst-5000")]
    assert len(shown) == 12
    assert [each.name for each in shown if "adaptive" not in texts(each.svg)] == []


def test_recovery_marks_runs_that_are_never_stable(tmp_path: Path):
    all_stable = tuple(dataclasses.replace(row, stable_ms=row.stable_ms or 1.0) for row in BURSTS)
    [recovery] = draw_all(Tables(bursts=all_stable, bounds=BOUNDS), tmp_path)
    assert "a run was never stable" not in texts(recovery.svg)
    endless = (dataclasses.replace(all_stable[0], stable_ms=None), *all_stable[1:])
    [recovery] = draw_all(Tables(bursts=endless, bounds=BOUNDS), tmp_path)
    assert "a run was never stable" in texts(recovery.svg)


def test_a_logarithmic_axis_says_so(tmp_path: Path):
    drawn = {each.name: texts(each.svg) for each in draw_all(Tables(publishers=PUBLISHERS, costs=COSTS), tmp_path)}
    assert "messages between brokers, log scale" in drawn["fig09-advertisement-messages"]
    assert "time at a broker (µs), log scale" in drawn["fig16-path-selection-delay"]
    assert "no link congested" in drawn["fig16-path-selection-delay"]
    assert not any("log scale" in each for each in drawn["fig07-advertisement-delay"])


def test_a_table_of_zeros_is_drawn(tmp_path: Path):
    zeros = (make.publishers(100, TID, advertisement_delay_ms=0.0, table_size_mean=0.0, advertisement_messages=0),)
    assert len(draw_all(Tables(publishers=zeros), tmp_path)) == 3


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="expected to write a figure to"):
        draw_all(Tables(subscribers=SUBSCRIBERS), tmp_path / "file")


def test_without_matplotlib_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match=r"\[plot\]"):
        draw_all(Tables(subscribers=SUBSCRIBERS), tmp_path)
