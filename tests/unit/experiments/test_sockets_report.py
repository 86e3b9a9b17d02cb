"""The section about sockets, and its figures."""

from pathlib import Path

import pytest
from socket_rows import delayed, shared, socket_row

from octopia.experiments.page import Grid, Paragraph, Picture, to_html, to_markdown
from octopia.experiments.sockets.cases import ALGORITHMS, CaseName
from octopia.experiments.sockets.figures import draw_cases
from octopia.experiments.sockets.report import socket_blocks
from octopia.experiments.sockets.rows import CpuSupply
from octopia.settings import Algorithm

STATIC, DYNAMIC, ADAPTIVE = ALGORITHMS[:3]
ROWS = [
    delayed(STATIC, 952.25, 948.5),
    delayed(DYNAMIC, 960.0, 948.5, processors=CpuSupply.SHORT),
    delayed(ADAPTIVE, 12.0, 14.0, predicted_delay_ms_least=13.0, predicted_delay_ms_most=15.0),
    shared(STATIC, 893, 0.893),
    shared(ADAPTIVE, 1_000, 1.0),
]


def text_of(rows) -> str:
    return to_markdown(socket_blocks(rows))


def test_every_number_stands_beside_its_prediction():
    grids = [block for block in socket_blocks(ROWS) if isinstance(block, Grid)]
    adaptive = [cell.text for cell in grids[0].rows[2]]
    assert adaptive[:7] == ["12 (seed 4)", "adaptive", "8,000", "100.0%", "100.0%", "12.0 ms", "14.0 ms (13.0 to 15.0)"]
    assert [cell.text for cell in grids[2].rows[0]][2:5] == ["1,000", "89.3%", "89.3%"]
    assert all(grid.by_clock for grid in grids)


def test_orders_and_shortage_are_stated():
    text = text_of(ROWS)
    assert "| 12 (seed 4) | static and adaptive | adaptive | 67.8 | adaptive | 79.4 | confirmed |" in text
    assert "the same in both, but CPUs were short" in text
    assert "Of 4 pairs of OctopiA's algorithms: 3 confirmed, 1 the same in both." in text
    assert "CPUs were short in 1 of 5 runs." in text
    assert "had noticed the dead broker after 11 to 11 ms" in text


def test_a_case_that_was_not_run_is_left_out():
    blocks = [*socket_blocks(ROWS[:3])]
    assert sum(isinstance(block, Picture) for block in blocks) == 1
    assert "Slow aLinks" in text_of(ROWS[:3])
    assert "A dead inner broker" not in text_of(ROWS[:3])
    assert [type(block) for block in socket_blocks([])][1:] == [Paragraph]


def test_the_section_is_a_page():
    assert to_html("sockets", socket_blocks(ROWS)).count("<table>") == 4


@pytest.mark.parametrize("sizes", [(12,), (12, 56)])
def test_one_figure_is_drawn_per_case(tmp_path: Path, sizes: tuple[int, ...]):
    rows = [
        socket_row(algorithm, case=case, brokers=size)
        for case in (CaseName.BURST, CaseName.DEAD_BROKER)
        for algorithm in Algorithm
        for size in sizes
    ]
    pictures = draw_cases(rows, tmp_path)
    assert [Path(each.png).stem for each in pictures] == ["sockets-dead-broker", "sockets-burst"]
    for each in pictures:
        assert (tmp_path / each.png).read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / each.svg).read_bytes()


def test_the_same_rows_give_the_same_bytes(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    (picture, _), _ = draw_cases(ROWS, first), draw_cases(ROWS, second)
    for address in (picture.png, picture.svg):
        assert (first / address).read_bytes() == (second / address).read_bytes()
