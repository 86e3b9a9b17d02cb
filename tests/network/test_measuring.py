"""The commands that measure the network, in sizes that take little time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import NetworkError, UsageError
from octopia.experiments import bench as work
from octopia.experiments.calibration import fit_line
from octopia.simulator.profiles import find_profile

runner = CliRunner()
EXAMPLE = Path(__file__).parents[2] / "examples" / "fig7b.toml"


@pytest.fixture(autouse=True)
def _no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTOPIA_URL", raising=False)


def _json(*arguments: str) -> dict[str, object]:
    result = runner.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_bench_starts_one_broker_for_itself():
    found = _json("bench", "--count", "300", "--subscribers", "2")
    assert found["delivered"] == found["expected"] == 600
    assert found["lost"] == found["doubled"] == 0
    assert found["hops"] == 0


def test_bench_crosses_an_overlay_that_it_starts():
    found = _json("bench", "path:2", "--clusters", "1", "--count", "100", "--publishers", "3", "--rate", "1000")
    assert found["publications"] == found["delivered"] == 100
    assert found["hops"] == 1


def test_bench_takes_an_overlay_or_a_url():
    with pytest.raises(UsageError, match="to start or a running one, got path:2"):
        runner.invoke(app, ["bench", "path:2", "--url", "octopia://127.0.0.1:1"], catch_exceptions=False)


def test_bench_fails_if_something_is_lost(monkeypatch: pytest.MonkeyPatch):
    right = work._Tally.take

    def forgetful(self: work._Tally, subscriber: int, received: work.Received) -> None:
        if received["n"] != 7:
            right(self, subscriber, received)

    monkeypatch.setattr(work._Tally, "take", forgetful)
    monkeypatch.setattr(work, "SILENCE_S", 0.2)
    with pytest.raises(NetworkError, match="1 were lost and 0 duplicated"):
        runner.invoke(app, ["bench", "--count", "20"], catch_exceptions=False)


@pytest.mark.skipif(sys.platform != "linux", reason="it reads the clocks of processes as Linux has them")
def test_the_simulator_takes_what_calibrate_writes(tmp_path: Path):
    out = tmp_path / "here.toml"
    found = _json("calibrate", "--quick", "--out", str(out))
    profile = find_profile(str(out))
    assert profile.name == "here"
    assert profile.message_us > 0
    assert profile.match_us > 0
    assert profile.link_delay_ms > 0
    assert found["machine"] in out.read_text()
    arguments = ["sim", "run", str(EXAMPLE), "--profile", str(out), "--check"]
    simulated = runner.invoke(app, arguments, catch_exceptions=False)
    assert simulated.exit_code == 0, simulated.output
    assert "profile here" in simulated.output


def test_a_profile_must_be_a_toml_file():
    with pytest.raises(UsageError, match=r"ends in \.toml"):
        runner.invoke(app, ["calibrate", "--out", "profile.txt"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("points", "line"),
    [({1: 3.0, 2: 5.0, 3: 7.0}, (1.0, 2.0)), ({10: 4.0}, (4.0, 0.0)), ({1: 5.0, 3: 1.0}, (3.0, 0.0))],
)
def test_fit_line(points: dict[int, float], line: tuple[float, float]):
    assert fit_line(points) == pytest.approx(line)
