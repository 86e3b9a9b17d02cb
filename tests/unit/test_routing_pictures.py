"""The pictures of the page on routing are those that their script draws from runs of the simulator."""

import importlib.util
import re
import sys
from types import ModuleType

import pytest

from octopia.ids import BrokerId
from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.run import run_scenario
from support import EXAMPLES, ROOT

COMPARED = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("routing_pictures", ROOT / "docs/tools/routing_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = load_script()


@pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda picture: picture.name)
def test_the_committed_picture_is_what_the_simulator_does(picture):
    committed = (ROOT / "docs/images" / f"{picture.name}.svg").read_text()
    assert pictures.svg_of(picture) == committed, "run: python docs/tools/routing_pictures.py"


def test_the_page_shows_every_picture_once():
    shown = re.findall(r"\]\(images/(routing-[\w-]+)\.svg\)", (ROOT / "docs/routing.md").read_text())
    assert sorted(shown) == sorted(picture.name for picture in pictures.PICTURES)
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "docs/images").glob("routing-*.svg"))


@pytest.mark.parametrize(
    ("name", "hops"),
    [
        (
            "routing-static",
            "b.3>a.3, b.3>c.3, b.3>b.0, b.3>b.1, b.3>b.2, b.0>c.0, b.1>c.1, b.2>c.2",
        ),
        ("routing-case-1", "b.3>a.3, b.3>c.3, b.3>b.1[0001], b.3>b.2, b.1>c.1[0001], b.2>c.2, c.1>c.0"),
        ("routing-case-2", "b.3>a.3, b.3>c.3[0101], c.3>c.0, c.3>c.2, c.0>b.0, b.0>a.0"),
        (
            "routing-case-3",
            "b.3>c.3, b.3>b.2[0011], b.2>c.2, b.2>b.0[0010], b.0>a.0[0010], a.0>a.1, a.1>b.1, b.1>c.1",
        ),
        ("routing-slow-alink", "b.3>a.3, b.3>b.1[0000 c:1010], b.1>c.1[1010], c.1>c.3"),
        (
            "routing-fig7d-adaptive",
            "b.3>a.3[0001], b.3>b.2[0000 c:1110], a.3>a.0, b.2>c.2[1110], c.2>c.1, c.2>c.3",
        ),
        ("routing-dead-broker", "a.0>a.2[0100 b:0001], a.2>b.2[0101], b.2>c.2[0101], c.2>c.0"),
    ],
)
def test_the_pictures_show_the_worked_examples(name: str, hops: str):
    committed = (ROOT / "docs/images" / f"{name}.svg").read_text()
    assert f"Copies in the order of sending: {hops.replace('>', '&gt;')}." in committed


def test_the_table_of_messages_is_what_the_simulator_does():
    rows = re.findall(r"^\| `examples/(\w+)\.toml` \| (.*) \|$", (ROOT / "docs/routing.md").read_text(), re.MULTILINE)
    assert len(rows) == 5
    for example, cells in rows:
        assert cells.split(" | ") == [messages(example, each) for each in COMPARED], example


def messages(example: str, algorithm: Algorithm) -> str:
    picture = pictures.Picture("", "", example, algorithm)
    scene = pictures.scene_of(picture)
    links = [tuple(sorted(map(BrokerId.parse, (hop.sender, hop.receiver)))) for hop in scene.hops]
    return f"{len(links)}, {sum(link in scene.congested for link in links)} congested"


def test_only_adaptive_routing_serves_everybody_when_a_broker_is_dead():
    scenario = load_scenario(EXAMPLES / "dead_broker.toml")
    served = {each: len(run_scenario(scenario.with_algorithm(each)).recorder.deliveries) for each in COMPARED}
    assert served == {Algorithm.STATIC: 3, Algorithm.DYNAMIC: 3, Algorithm.ADAPTIVE: 4}
