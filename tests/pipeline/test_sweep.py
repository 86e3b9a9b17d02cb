import os
import signal

import msgspec
import pytest

from octopia.errors import InvalidFile, UsageError
from octopia.pipeline import sweep as sweeping
from octopia.pipeline.jobs import run_audit, run_sweep
from octopia.pipeline.sweep import pending, play_apart
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.run import run_scenario
from octopia.workloads.runs import RunSpec, read_runs
from octopia.workloads.simulated_run import DRAFT, finished_run, play_into, play_run, scenario_of
from octopia.workloads.workload import load_workload


def specs(workload: str, *algorithms: Algorithm, **more) -> list[RunSpec]:
    return [RunSpec(workload=workload, algorithm=each, **more).named() for each in algorithms]


def test_a_sweep_runs_all_and_the_audit_finds_nothing_wrong(workspace, small_workload):
    runs = specs(small_workload, *Algorithm) + specs(small_workload, Algorithm.ADAPTIVE, first=100)
    outcomes, before = run_sweep(workspace, runs, "all-algorithms")
    assert before == 0
    assert [each.error for each in outcomes] == [""] * 6
    summaries = run_audit(workspace, "all-algorithms", "small")
    assert [row["publications"] for row in summaries] == [
        100 if "100" in row["run_id"] else row["publications"] for row in summaries
    ]
    assert sorted(row["publications"] for row in summaries) == [100, 300, 300, 300, 300, 300]
    for row in summaries:
        assert (row["missing"], row["unwanted"], row["duplicates"]) == (0, 0, 0)
        assert row["deliveries"] == row["owed"] > 0


def test_what_is_finished_is_not_run_again(workspace, small_workload, monkeypatch):
    runs = specs(small_workload, Algorithm.STATIC, Algorithm.DYNAMIC, first=10)
    folder = workspace.storage.absolute("restarted")
    play_run(runs[0], folder)
    assert pending(runs, folder) == [runs[1]]
    outcomes, before = run_sweep(workspace, runs, "restarted")
    assert (before, [each.run_id for each in outcomes]) == (1, [runs[1].run_id])
    assert run_sweep(workspace, runs, "restarted") == ([], 2)


def test_an_unfinished_run_is_run_again_and_its_rest_removed(workspace, small_workload):
    (run,) = specs(small_workload, Algorithm.STATIC, first=10)
    folder = workspace.storage.absolute("interrupted")
    half = f"traces/{DRAFT}{run.run_id}-0123"
    os.makedirs(f"{folder}/{half}")  # noqa: PTH103 - the storage takes names, not paths
    assert finished_run(folder, run.run_id) is None
    run_sweep(workspace, [run], "interrupted")
    assert workspace.storage.names_in("interrupted/traces") == [run.run_id]


def test_another_run_under_the_same_id_is_refused(workspace, small_workload):
    run = RunSpec(workload=small_workload, run_id="mine", first=5)
    folder = workspace.storage.absolute("same-id")
    play_run(run, folder)
    with pytest.raises(UsageError, match=r"mine .* to be the same run"):
        pending([msgspec.structs.replace(run, first=6)], folder)


def test_a_failing_run_is_reported_and_the_others_go_on(workspace, small_workload):
    wrong = RunSpec(workload=small_workload, run_id="wrong", profile="nonsense")
    missing = RunSpec(workload=f"{small_workload}/nowhere", run_id="missing")
    (right,) = specs(small_workload, Algorithm.STATIC, first=10)
    outcomes, _ = run_sweep(workspace, [wrong, missing, right], "partly")
    errors = {each.run_id: each.error for each in outcomes}
    assert errors.pop(right.run_id) == ""
    assert errors["wrong"].startswith("expected a profile of unit, paper")
    assert errors["missing"].startswith(f"expected a file at {small_workload}/nowhere/workload.json, got none")
    assert workspace.storage.names_in("partly/traces") == [right.run_id]


def test_a_run_whose_process_dies_is_reported(small_workload, tmp_path, monkeypatch):
    (run,) = specs(small_workload, Algorithm.STATIC, first=10)
    monkeypatch.setattr(sweeping, "play_prepared", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    outcome = play_apart(run, str(tmp_path))
    assert outcome.error == "its process ended with exit code -9"
    assert finished_run(str(tmp_path), run.run_id) is None


def test_a_played_workload_is_what_its_scenario_gives(workspace, small_workload, spark):
    # A run without results in memory gives the same as an ordinary one.
    run = RunSpec(workload=small_workload, run_id="lean", algorithm=Algorithm.DYNAMIC)
    play_run(run, workspace.storage.absolute("lean"))
    scenario = scenario_of(load_workload(small_workload), run.routing)
    full = run_scenario(scenario)
    trace = spark.read.parquet(workspace.storage.absolute("lean/traces/lean/trace.parquet"))
    delivered = trace.where("event = 'deliver'").select(
        "publication", "client", "subscription", "time_ms", "published_ms"
    )
    assert sorted((row.publication, row.client, row.subscription) for row in delivered.collect()) == sorted(
        (each.publication, each.client, each.subscription) for each in full.recorder.deliveries
    )
    assert not full.complaints()
    totals = trace.where("event = 'send'").groupBy("kind").sum("value").collect()
    assert {row[0]: row[1] for row in totals} == {kind: count for kind, count in full.messages().items() if count}


@pytest.mark.parametrize("algorithm", [Algorithm.DYNAMIC, Algorithm.ADAPTIVE, Algorithm.TID_DYNAMIC])
def test_dynamic_routing_takes_static_paths_where_no_link_is_congested(small_workload, algorithm, tmp_path):
    # Ten publications per second and link: the burst would congest the links.
    links = "".join(f'[[link]]\nbetween = ["{one}.0", "{one}.1"]\nrate = 10\n' for one in "abc")
    (tmp_path / "slow.toml").write_text(f'tree = "path:3"\nclusters = 2\n{links}')

    def messages(**more) -> int:
        run = RunSpec(workload=small_workload, run_id="x", overlay=str(tmp_path / "slow.toml"), **more)
        return play_into(run, tmp_path).messages()["publication"]

    static = messages(algorithm=Algorithm.TID_STATIC if algorithm.is_tid else Algorithm.STATIC)
    assert messages(algorithm=algorithm, uncongested=True) == static
    if algorithm is Algorithm.DYNAMIC:
        assert messages(algorithm=algorithm) != static


def test_runs_of_a_toml_file_are_all_combinations(tmp_path):
    (tmp_path / "runs.toml").write_text(
        'workload = "w"\nalgorithm = ["static", "adaptive", "tid-dynamic"]\nseed = [1, 2, 3]\n'
        'profile = "paper"\nfirst = 7\n'
    )
    runs = read_runs(tmp_path / "runs.toml")
    assert [(run.algorithm, run.seed) for run in runs] == [
        (algorithm, seed) for algorithm in ("static", "adaptive", "tid-dynamic") for seed in (1, 2, 3)
    ]
    assert {(run.workload, run.profile, run.first) for run in runs} == {(str(tmp_path / "w"), "paper", 7)}
    assert len({run.run_id for run in runs}) == 9


def test_runs_of_a_csv_file_are_its_rows(tmp_path):
    (tmp_path / "runs.csv").write_text(
        "run_id,workload,algorithm,tau,confirmations\none,w,static,2.5,false\ntwo,/v,,,\n"
    )
    one, two = read_runs(tmp_path / "runs.csv")
    assert (one.run_id, one.tau, one.confirmations, one.algorithm) == ("one", 2.5, False, Algorithm.STATIC)
    assert (two.workload, two.algorithm, two.tau) == ("/v", Algorithm.DYNAMIC, 10.0)


def test_the_times_of_adaptive_routing_are_part_of_a_run(tmp_path):
    (tmp_path / "runs.toml").write_text('workload = "w"\nalgorithm = "adaptive"\nwait_ms = [50, 20]\nhold_ms = 0\n')
    usual, short = read_runs(tmp_path / "runs.toml")
    assert short.routing == RoutingSettings(Algorithm.ADAPTIVE, wait_ms=20.0, hold_ms=0.0)
    assert usual.run_id != short.run_id
    assert {key: short.fields().get(key) for key in ("wait_ms", "hold_ms", "probe_ms")} == {
        "wait_ms": 20.0,
        "hold_ms": 0.0,
        "probe_ms": None,
    }


def test_runs_without_these_times_keep_their_ids():
    assert RunSpec(workload="w").named().run_id == "w-dynamic-0-39a74bc0"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("runs.toml", 'workload = "w"\nprobe_ms = 0\n', "probe_ms to be above 0"),
        ("runs.toml", 'workload = "w"\nalgoritm = "static"\n', "algoritm"),
        ("runs.toml", 'algorithm = "static"\n', "workload"),
        ("runs.toml", 'workload = "w"\nalgorithm = "fast"\n', "fast"),
        ("runs.toml", 'workload = "w"\ndetail = "off"\n', "detail"),
        ("runs.toml", 'workload = "w"\nrun_id = "../x"\n', "run_id"),
        ("runs.toml", 'workload = "w"\nrun_id = ["a", "a"]\n', "twice"),
        ("runs.toml", 'workload = "w"\nseed = []\n', "at least one run"),
        ("runs.csv", "workload,speed\nw,3\n", "speed"),
        ("runs.csv", "algorithm\nstatic\n", "no workload"),
        ("runs.csv", "", "no workload"),
        ("runs.csv", "workload,seed\nw,many\n", "int"),
    ],
)
def test_a_table_of_runs_that_cannot_be_used_says_why(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidFile, match=problem):
        read_runs(tmp_path / name)


@pytest.mark.parametrize("name", ["none.toml", "none.csv"])
def test_a_missing_table_of_runs_is_an_error(tmp_path, name):
    with pytest.raises(InvalidFile, match="none"):
        read_runs(tmp_path / name)
