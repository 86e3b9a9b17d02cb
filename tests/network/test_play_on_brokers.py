"""A workload on brokers that are started for it: what the folder holds then, slow links, and the use of processors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import UsageError
from octopia.experiments import network_runs
from octopia.experiments.network_runs import CpuSample, play_on_brokers, use_of
from octopia.settings import Algorithm
from octopia.workloads.runs import RunSpec
from octopia.workloads.simulated_run import play_into

PUBLICATIONS = 10
RATE = 20.0


@pytest.fixture
def workload(tmp_path: Path) -> str:
    """Two brokers in a row, a publisher at one and a subscriber at the other."""
    folder = tmp_path / "workload"
    issued = {"number": [0], "id": ["p/0"], "client": ["p"], "broker": ["a.0"], "filter": ["n >= 0"]}
    wanted = {**issued, "id": ["s/0"], "client": ["s"], "broker": ["b.0"]}
    numbers = list(range(PUBLICATIONS))
    published = {
        "number": numbers,
        "at_ms": [1.0 * n for n in numbers],
        "publisher": ["p"] * PUBLICATIONS,
        "n": numbers,
    }
    for name, table in (("publications", published), ("advertisements", issued), ("subscriptions", wanted)):
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table(table), folder / name / "part.parquet")
    manifest = {"overlay": {"tree": "path:2", "clusters": 1}, "publications": PUBLICATIONS}
    (folder / "workload.json").write_text(json.dumps(manifest))
    return str(folder)


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """An overlay file whose only link is slow."""
    file = tmp_path / "slow.toml"
    file.write_text(f'tree = "path:2"\nclusters = 1\n[[link]]\nbetween = ["a.0", "b.0"]\nrate = {RATE:g}\n')
    return str(file)


def test_a_run_leaves_a_trace_and_what_was_counted(workload: str, tmp_path: Path):
    said: list[str] = []
    spec = RunSpec(workload=workload, run_id="one", algorithm=Algorithm.STATIC)
    run = play_on_brokers(spec, tmp_path / "out" / "one", 1.0, said.append)
    assert (run.run_id, run.algorithm, run.publications, run.deliveries) == ("one", "static", 10, 10)
    assert run.messages["publication"] == PUBLICATIONS
    assert said[0] == "starting 2 brokers"
    assert said[-1] == "playing on 2 brokers: 10 deliveries"
    folder = tmp_path / "out" / "one"
    assert sorted(each.name for each in folder.iterdir()) == ["run.json", "trace.parquet"]
    assert pq.read_table(folder / "trace.parquet").column("event").to_pylist().count("deliver") == PUBLICATIONS
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["identity"]["spec"]["run_id"] == "one"
    assert manifest["identity"]["workload"]["publications"] == PUBLICATIONS
    assert (manifest["deliveries"], manifest["messages"]) == (PUBLICATIONS, run.messages)
    assert manifest["network"]["links"] == []


def test_links_are_slow_from_the_start(workload: str, slow: str, tmp_path: Path):
    spec = RunSpec(workload=workload, run_id="slow", overlay=slow, algorithm=Algorithm.STATIC)
    run = play_on_brokers(spec, tmp_path / "slow", 1.0, lambda _: None)
    assert run.deliveries == PUBLICATIONS
    delays_ms = [
        row["time_ms"] - row["published_ms"]
        for row in pq.read_table(tmp_path / "slow" / "trace.parquet").to_pylist()
        if row["event"] == "deliver"
    ]
    # All were published within ten milliseconds, and leave one after the other.
    assert max(delays_ms) > 0.7 * 1000 * (PUBLICATIONS - 1) / RATE
    links = json.loads((tmp_path / "slow" / "run.json").read_text())["network"]["links"]
    assert [(link["from"], link["to"], link["rate"]) for link in links] == [("a.0", "b.0", RATE), ("b.0", "a.0", RATE)]


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.ADAPTIVE, Algorithm.TID_STATIC])
def test_an_outage_is_the_same_in_both_worlds(workload: str, tmp_path: Path, algorithm: Algorithm):
    """The subscriber's broker is killed before the publications that are due after 4 ms."""
    spec = RunSpec(workload=workload, run_id="one", algorithm=algorithm, killed="b.0", killed_at_ms=4.0)
    run = play_on_brokers(spec, tmp_path / "real", 1.0, lambda _: None)
    (tmp_path / "simulated").mkdir()
    play_into(spec, tmp_path / "simulated")
    real, simulated = (json.loads((tmp_path / each / "run.json").read_text()) for each in ("real", "simulated"))
    assert (run.deliveries, run.publications, run.unsent) == (4, PUBLICATIONS, 0)
    assert run.noticed_ms == real["noticed_ms"] > 0
    assert real["identity"] == simulated["identity"]
    for world in ("real", "simulated"):
        events = pq.read_table(tmp_path / world / "trace.parquet").column("event").to_pylist()
        assert events.count("deliver") == 4


def test_publications_of_a_dead_broker_are_unsent_in_both_worlds(workload: str, tmp_path: Path):
    spec = RunSpec(workload=workload, run_id="one", killed="a.0", killed_at_ms=4.0)
    run = play_on_brokers(spec, tmp_path / "real", 1.0, lambda _: None)
    (tmp_path / "simulated").mkdir()
    play_into(spec, tmp_path / "simulated")
    simulated = json.loads((tmp_path / "simulated" / "run.json").read_text())
    assert (run.publications, run.unsent, simulated["unsent"]) == (4, 6, 6)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what other processes used")
def test_the_use_of_processors_is_noted(workload: str, tmp_path: Path):
    run = play_on_brokers(RunSpec(workload=workload), tmp_path, 1.0, lambda _: None)
    assert run.cpu is not None
    assert run.cpu.busiest_worker > 0
    assert 0 < run.cpu.total_mean <= run.cpu.total_max
    assert json.loads((tmp_path / "run.json").read_text())["cpu"]["total_mean"] == run.cpu.total_mean


def test_elsewhere_the_use_of_processors_is_unknown(workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Elsewhere:
        platform = "darwin"

    monkeypatch.setattr(network_runs, "sys", Elsewhere)
    run = play_on_brokers(RunSpec(workload=workload), tmp_path, 1.0, lambda _: None)
    assert run.cpu is None
    assert json.loads((tmp_path / "run.json").read_text())["cpu"] is None


def test_a_run_that_fails_leaves_no_folder_of_a_finished_one(workload: str, tmp_path: Path, monkeypatch):
    (tmp_path / "run.json").write_text("{}")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(network_runs, "play_on_network", fail)
    with pytest.raises(KeyboardInterrupt):
        play_on_brokers(RunSpec(workload=workload), tmp_path, 1.0, lambda _: None)
    assert not (tmp_path / "run.json").exists()


def test_links_that_never_congest_are_for_virtual_time(workload: str, tmp_path: Path):
    with pytest.raises(UsageError, match="expected links that may congest"):
        play_on_brokers(RunSpec(workload=workload, uncongested=True), tmp_path, 1.0, lambda _: None)


def test_the_command_says_what_came_of_it(workload: str, slow: str, tmp_path: Path):
    arguments = ["data", "play", workload, "--out", str(tmp_path / "run"), "--network", "--overlay", slow, "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["publications"], found["deliveries"]) == (PUBLICATIONS, PUBLICATIONS)
    assert (tmp_path / "run" / "run.json").exists()


def samples(*shares: tuple[float, float]) -> list[CpuSample]:
    return [CpuSample((worker,), clients) for worker, clients in shares]


def test_shares_are_of_one_core_for_a_process_and_of_all_for_the_whole():
    use = use_of(samples((0.5, 0.25), (0.75, 0.0)), cores=2)
    assert (use.busiest_worker, use.busiest_clients) == (0.75, 0.25)
    assert (use.total_mean, use.total_max) == (0.375, 0.375)
    assert not use.is_short


@pytest.mark.parametrize(
    ("seconds", "is_short"),
    [
        ([(0.95, 0.1)] * 2 + [(0.5, 0.1)] * 8, True),
        ([(0.95, 0.1)] * 1 + [(0.5, 0.1)] * 9, False),
        ([(0.1, 0.95)] * 2 + [(0.5, 0.1)] * 8, True),
        ([(0.85, 0.85)] * 10, False),
    ],
)
def test_processors_are_short_if_busy_in_more_than_a_tenth_of_the_time(seconds: list[tuple[float, float]], is_short):
    assert use_of(samples(*seconds), cores=2).is_short is is_short


def test_many_processes_can_take_all_processors_together():
    together = [CpuSample((0.8, 0.8, 0.2), 0.2)]
    assert use_of(together, cores=2).is_short
    assert not use_of(together, cores=4).is_short


def test_processes_that_wait_for_a_processor_are_short_of_them_though_they_use_little():
    held_up = [CpuSample((0.4,), 0.1, waited=0.3)]
    assert use_of(held_up, cores=2).waited_max == 0.3
    assert use_of(held_up, cores=2).is_short
    assert not use_of([CpuSample((0.4,), 0.1, waited=0.1)], cores=2).is_short
