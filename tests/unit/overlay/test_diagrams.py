import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from octopia.errors import InvalidOverlay, UsageError
from octopia.ids import BrokerId
from octopia.overlay.diagrams import Callouts, draw
from octopia.overlay.files import overlay_from_text

pytest.importorskip("matplotlib")


def svg(tmp_path: Path, tree: str, clusters: int | None = None, **options) -> str:
    path = tmp_path / "overlay.svg"
    draw(overlay_from_text(tree, clusters).scot, path, **options)
    return path.read_text()


def labels(text: str) -> list[str]:
    """Matplotlib writes every text as a comment before its outlines."""
    return [each.strip() for each in re.findall(r"<!-- (.*?) -->", text)]


def test_every_broker_region_and_cluster_is_labelled(tmp_path: Path):
    shown = labels(svg(tmp_path, "paper:se"))
    scot = overlay_from_text("paper:se").scot
    for name in [*map(str, scot.brokers), *(f"$R_{{{each}}}$" for each in scot.regions), "$C_{0}$", "$C_{3}$"]:
        assert shown.count(name) == 1
    assert {"aLink (within a cluster)", "iLink (within a region)"} <= set(shown)


def test_as_many_dashed_lines_as_ilinks(tmp_path: Path):
    dashed = svg(tmp_path, "paper:fig3").count("stroke-dasharray")
    assert dashed == 18 + 1  # and one in the legend


def test_highlighted_links(tmp_path: Path):
    path = [(BrokerId("b", 2), BrokerId("b", 0)), (BrokerId("b", 2), BrokerId("d", 2))]
    text = svg(tmp_path, "paper:fig3", highlight=path)
    assert text.count("#d1351f") == 2 + 1
    assert "highlighted" in labels(text)
    with pytest.raises(InvalidOverlay, match="expected two neighbours"):
        svg(tmp_path, "paper:fig3", highlight=[(BrokerId("a", 0), BrokerId("f", 0))])


def test_names_are_no_formulas(tmp_path: Path):
    shown = labels(svg(tmp_path, "new_york-paris", 2, title="5 $ or 6 $ a_b"))
    assert "5 $ or 6 $ a_b" in shown
    assert "new_york.1" in shown


@pytest.mark.parametrize(("tree", "clusters"), [("a", 1), ("a", 7), ("star:9", 1), ("path:2", 8)])
def test_odd_shapes_are_drawn_too(tmp_path: Path, tree: str, clusters: int):
    assert "a.0" in labels(svg(tmp_path, tree, clusters))


def test_png(tmp_path: Path):
    draw(overlay_from_text("paper:fig7").scot, tmp_path / "overlay.PNG")
    assert (tmp_path / "overlay.PNG").read_bytes().startswith(b"\x89PNG")


def test_same_bytes_whatever_the_hash_seed(tmp_path: Path):
    code = (
        "import sys, pathlib; from octopia.overlay import overlay_from_text; from octopia.overlay.diagrams import draw;"
        "draw(overlay_from_text('paper:fig3').scot, pathlib.Path(sys.argv[1]))"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / f"{seed}.svg")], check=True, env=environment)
    first, second = ((tmp_path / f"{seed}.svg").read_bytes() for seed in ("1", "2"))
    assert first == second == svg(tmp_path, "paper:fig3").encode() == svg(tmp_path, "paper:fig3").encode()


@pytest.mark.parametrize("name", ["overlay.pdf", "overlay", "overlay.svg.gz"])
def test_other_formats(tmp_path: Path, name: str):
    with pytest.raises(UsageError, match=rf"expected a file name that ends in \.svg or \.png, got {re.escape(name)}"):
        draw(overlay_from_text("a", 1).scot, tmp_path / name)


def test_too_large_for_a_picture(tmp_path: Path):
    with pytest.raises(UsageError, match="at most 1000 brokers in a diagram, got 1001"):
        draw(overlay_from_text("path:1001", 1).scot, tmp_path / "overlay.svg")


def test_a_folder_that_is_missing(tmp_path: Path):
    with pytest.raises(UsageError, match="expected to write a diagram to"):
        draw(overlay_from_text("a", 1).scot, tmp_path / "gone" / "overlay.svg")


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r'pip install "\.\[plot\]"'):
        draw(overlay_from_text("a", 1).scot, tmp_path / "overlay.svg")


def test_links_and_brokers_can_be_spoken_of(tmp_path: Path):
    scot = overlay_from_text("path:3", 4).scot
    host, far, near = (scot.broker(name) for name in ("b.3", "b.0", "a.3"))
    said = Callouts({(host, far): "100/s", (near, host): "7/s"}, "slow links", [host], "the host broker")
    spoken = svg(tmp_path, "path:3", 4, callouts=said)
    assert {"100/s", "7/s", "slow links", "the host broker"} <= set(labels(spoken))
    assert "highlighted" not in labels(spoken)
    assert spoken == svg(tmp_path, "path:3", 4, callouts=said)


def test_callouts_are_of_links_that_are_there(tmp_path: Path):
    with pytest.raises(InvalidOverlay):
        svg(tmp_path, "path:3", 4, callouts=Callouts({(BrokerId("a", 0), BrokerId("c", 1)): "no link"}))
