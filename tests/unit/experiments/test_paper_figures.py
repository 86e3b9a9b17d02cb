import re
import sys
from pathlib import Path

import pytest

from octopia.errors import MissingDependency, UsageError
from octopia.experiments.paper.figures import draw_all
from octopia.experiments.paper.names import ALGORITHMS, System
from octopia.experiments.paper.rows import (
    BurstRow,
    CostRow,
    DeliveryRow,
    PublisherRow,
    SequenceRow,
    SubscriberRow,
    Tables,
)

OCTOPIA, TID = System
STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC = ALGORITHMS

pytest.importorskip("matplotlib")

PUBLISHERS = tuple(
    PublisherRow(count, system, seed, count, each_ms * seed, float(count), count * messages, 0, 0.0)
    for count in (100, 500)
    for system, each_ms, messages in ((OCTOPIA, 1.0, 3), (TID, 3.0, 217))
    for seed in (1, 2)
)
SUBSCRIBERS = tuple(SubscriberRow(1_000, system, 1, 1_000, 2.0, 10.0, 100, 0) for system in (OCTOPIA, TID))
DELIVERY = tuple(DeliveryRow(1_000, algorithm, 1, 100, 100, 1.0, 1_000) for algorithm in ALGORITHMS)
COSTS = tuple(CostRow(1_000, algorithm, 10, 5.0, 1.0, 100.0, 20.0) for algorithm in ALGORITHMS)
SEQUENCES = tuple(
    SequenceRow(rate, algorithm, seed, number, 100.0 * number * seed, 1_000.0 * number)
    for rate in (40_000, 100_000, 5_000)
    for algorithm in (STATIC, DYNAMIC)
    for seed in (1, 2, 3)
    for number in range(3)
)


def texts(path: Path) -> list[str]:
    """Matplotlib writes every text as a comment before its outlines."""
    return [each.strip() for each in re.findall(r"<!-- (.*?) -->", path.read_text())]


def test_every_figure_of_the_paper_is_drawn(tmp_path: Path):
    drawn = draw_all(Tables(PUBLISHERS, SUBSCRIBERS, DELIVERY, COSTS, sequences=SEQUENCES), tmp_path / "new")
    numbers = [*range(7, 18), 20]
    assert [figure.title.partition(":")[0] for figure in drawn[:-1]] == [f"Fig. {number}" for number in numbers]
    assert drawn[-1].title == "Figs. 17-20: A burst of 5K per minute"
    assert [figure.name for figure in drawn if figure.by_clock] == [
        "fig14-matching-delay",
        "fig16-path-selection-delay",
    ]
    for figure in drawn:
        assert figure.png.read_bytes().startswith(b"\x89PNG")
        assert figure.title in texts(figure.svg)
        assert figure.note.endswith(".")


def test_the_same_tables_give_the_same_bytes(tmp_path: Path):
    tables = Tables(publishers=PUBLISHERS[:4], costs=COSTS, sequences=SEQUENCES[:18])
    first, second = draw_all(tables, tmp_path / "a"), draw_all(tables, tmp_path / "b")
    assert [each.png.read_bytes() for each in first] == [each.png.read_bytes() for each in second]
    assert [each.svg.read_bytes() for each in first] == [each.svg.read_bytes() for each in second]
    assert b"<dc:date>" not in first[0].svg.read_bytes()


def test_what_was_not_run_is_not_drawn(tmp_path: Path):
    assert draw_all(Tables(), tmp_path) == []
    # Runs without their sequences have nothing to draw.
    run = BurstRow(100_000, STATIC, 1, 1, 1, 1.0, 1.0, None, 1.0, 1, 0.0, 1.0)
    assert draw_all(Tables(bursts=(run,)), tmp_path) == []
    assert [each.name for each in draw_all(Tables(subscribers=SUBSCRIBERS), tmp_path)] == [
        "fig10-subscription-delay",
        "fig11-prt-size",
        "fig12-subscription-messages",
    ]
    assert len(list(tmp_path.iterdir())) == 6


def test_axes_have_units_and_lines_have_names(tmp_path: Path):
    [delay, *_] = draw_all(Tables(publishers=PUBLISHERS), tmp_path)
    assert {"delay (ms)", "publishers", OCTOPIA, TID, "100", "500"} <= set(texts(delay.svg))
    [*_, burst] = draw_all(Tables(sequences=SEQUENCES[:18]), tmp_path)
    shown = texts(burst.svg)
    assert {"time since the burst began (s)", "maximum delay (s)"} <= set(shown)
    assert (shown.count("SPR, static"), shown.count("IDR, dynamic"), shown.count("TID-S")) == (1, 1, 0)


def test_a_logarithmic_axis_says_so(tmp_path: Path):
    drawn = {each.name: texts(each.svg) for each in draw_all(Tables(publishers=PUBLISHERS, costs=COSTS), tmp_path)}
    assert "messages between brokers, log scale" in drawn["fig09-advertisement-messages"]
    assert "time at a broker (µs), log scale" in drawn["fig16-path-selection-delay"]
    assert "no link congested" in drawn["fig16-path-selection-delay"]
    assert not any("log scale" in each for each in drawn["fig07-advertisement-delay"])


def test_a_table_of_zeros_is_drawn(tmp_path: Path):
    zeros = (PublisherRow(100, TID, 1, 100, 0.0, 0.0, 0, 0, 0.0),)
    assert len(draw_all(Tables(publishers=zeros), tmp_path)) == 3


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="expected to write a figure to"):
        draw_all(Tables(subscribers=SUBSCRIBERS), tmp_path / "file")


def test_without_matplotlib_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match=r"\[plot\]"):
        draw_all(Tables(subscribers=SUBSCRIBERS), tmp_path)
