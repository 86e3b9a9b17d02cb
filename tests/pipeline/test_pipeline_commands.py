"""The commands of the pipeline, in the shared session; for ``octopia pipeline`` see ``test_local_cluster``."""

import json
import shutil

import pandas as pd
import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import InvalidData, JobFailed, MissingDependency, UsageError
from octopia.settings import Algorithm
from octopia.workloads.arrow import read_table
from octopia.workloads.runs import RunSpec
from octopia.workloads.simulated_run import play_into


def test_the_truth_by_sql_is_the_same(run_command, workspace, small_workload):
    before = workspace.storage.count_rows("small/truth")
    assert json.loads(run_command("data", "truth", small_workload, "--engine", "sql", "--json")) == {
        "engine": "sql",
        "matches": before,
    }


def test_an_audit_that_finds_faults_fails_and_keeps_them(run_command, small_workload, tmp_path):
    play_into(RunSpec(workload=small_workload, run_id="cut", algorithm=Algorithm.STATIC, first=60), tmp_path)
    trace = pd.read_parquet(tmp_path / "trace.parquet")
    is_lost = (trace.event == "deliver") & (trace.publication == 7)
    trace[~is_lost].to_parquet(tmp_path / "cut.parquet")
    lost = is_lost.sum()
    assert lost > 0
    with pytest.raises(JobFailed, match=f"cut has {lost} missing, 0 unwanted and 0 duplicate"):
        run_command("data", "audit", str(tmp_path / "cut.parquet"), "--workload", small_workload)
    faults = read_table(str(tmp_path / "faults")).to_pylist()
    assert [(row["fault"], row["publication"]) for row in faults] == [("missing", 7)] * lost


def test_an_audit_is_of_the_workload_that_was_played_and_of_all_of_it(run_command, small_workload, tmp_path):
    play_into(RunSpec(workload=small_workload, run_id="part", first=60), tmp_path)
    trace = pd.read_parquet(tmp_path / "trace.parquet")
    trace[~(trace.publication < 20)].to_parquet(tmp_path / "trace.parquet")
    with pytest.raises(InvalidData, match="expected 60 publications in the trace of part, got 40"):
        run_command("data", "audit", str(tmp_path), "--workload", small_workload)
    trace[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(InvalidData, match="got an empty trace"):
        run_command("data", "audit", str(tmp_path / "empty.parquet"), "--workload", small_workload)
    other = shutil.copytree(small_workload, tmp_path / "other")
    (other / "workload.json").write_text('{"publications": 300}')
    with pytest.raises(InvalidData, match="got one of another workload"):
        run_command("data", "audit", str(tmp_path), "--workload", str(other))


def test_metrics_are_shown_as_tables(run_command, small_workload, tmp_path):
    play_into(RunSpec(workload=small_workload, run_id="one", algorithm=Algorithm.STATIC, first=5), tmp_path)
    shown = run_command("data", "metrics", str(tmp_path), "--metric", "publication_delay", "--metric", "messages")
    assert "publication delay" in shown
    assert "static" in shown


def test_metrics_as_json_have_all_rows_in_order(run_command, small_workload, tmp_path):
    play_into(RunSpec(workload=small_workload, run_id="all", first=5, detail="hops"), tmp_path)
    said = json.loads(
        run_command("data", "metrics", str(tmp_path), "--metric", "subscription_delay", "--json", "--rows", "3")
    )
    named = [row["message_id"] for row in said["subscription_delay"]]
    assert len(named) == 120
    assert named == sorted(named)


def test_metrics_are_written_as_csv(run_command, small_workload, tmp_path):
    play_into(RunSpec(workload=small_workload, run_id="csv", first=5), tmp_path)
    shown = run_command(
        "data", "metrics", str(tmp_path), "--metric", "publication_delay", "--csv", str(tmp_path / "tables"), "--json"
    )
    (said,) = json.loads(shown)["publication_delay"]
    (file,) = (tmp_path / "tables" / "publication_delay").glob("*.csv")
    (written,) = pd.read_csv(file).to_dict("records")
    assert written == said


def test_a_sweep_with_a_failed_run_fails_after_the_others(run_command, small_workload, tmp_path):
    rows = f"run_id,workload,profile,first\ngood,{small_workload},unit,5\nbad,{small_workload},nonsense,5\n"
    (tmp_path / "runs.csv").write_text(rows)
    sweep = ["sweep", str(tmp_path / "runs.csv"), "--out", str(tmp_path / "sweep")]
    with pytest.raises(JobFailed, match="1 of 2 runs failed; the first, bad: expected a profile"):
        run_command("data", *sweep)
    said = json.loads(CliRunner().invoke(app, ["data", *sweep, "--json"]).stdout)
    assert said["finished_before"] == 1
    assert [each["run_id"] for each in said["runs"]] == ["bad"]


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        (["workload", "w", "--publications", "-1"], UsageError, "publications of each publisher: 0 or more, got -1"),
        (["workload", "w", "--bars", "nowhere.csv"], InvalidData, "nowhere.csv"),
        (["workload", "w", "--symbols", "3"], UsageError, "at least one symbol for each of 100 publishers, got 3"),
        (["workload", "w", "--tree", "blob:3"], UsageError, "blob"),
        (["workload", "w", "--master", "local", "--remote", "local"], UsageError, "--master or --remote, got both"),
        (["truth", "nowhere"], InvalidData, "expected a finished table at nowhere/publications, got none"),
        (["metrics", "nowhere"], InvalidData, "expected a trace at nowhere, got none"),
        (["audit", "nowhere", "--workload", "w"], InvalidData, "octopia data truth w"),
        (["sweep", "nowhere.toml", "--out", "o"], UsageError, "nowhere.toml"),
        (["play", "nowhere", "--out", "o"], InvalidData, "nowhere/workload.json"),
        (["play", "nowhere", "--out", "o", "--speed", "0"], UsageError, "a speed above 0"),
        (["truth", "w", "--storage", "nosuch://place"], UsageError, "nosuch"),
        (["truth", "w", "--storage", "a-file/below"], UsageError, "a-file/below"),
    ],
)
def test_what_cannot_be_used_says_why(run_command, arguments, error, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("")
    with pytest.raises(error) as raised:
        run_command("data", *arguments)
    assert problem in str(raised.value)


def test_only_rejects_are_an_error_that_shows_the_reasons(run_command, tmp_path):
    lines = ["2020-01-03,10,12,9,nothing,500,IBM", "2020-01-06,10,12,9,11,-1,IBM", "2020-01-07,10,12,9,11,-1,IBM"]
    (tmp_path / "prices.csv").write_text("\n".join(["date,open,high,low,close,volume,Name", *lines]))
    with pytest.raises(InvalidData) as raised:
        run_command("data", "workload", str(tmp_path / "market"), "--bars", str(tmp_path / "prices.csv"))
    assert str(raised.value) == (
        f"expected bars at {tmp_path}/prices.csv, got only rejects: close is not a number (1 rows), "
        "volume is negative (2 rows)"
    )


@pytest.mark.parametrize("place", ["a-file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written_is_named_before_any_work(run_command, small_workload, tmp_path, place):
    (tmp_path / "a-file").write_text("")
    (tmp_path / "runs.csv").write_text(f"run_id,workload,first\ngood,{small_workload},5\n")
    folder = place if place.startswith("/") else str(tmp_path / place)
    for command in (["workload", folder], ["ingest", folder], ["sweep", str(tmp_path / "runs.csv"), "--out", folder]):
        with pytest.raises(UsageError, match=f"expected a folder that can be written, got {folder}"):
            run_command("data", *command)


def test_an_unknown_metric_names_those_there_are(run_command, small_workload, tmp_path):
    play_into(RunSpec(workload=small_workload, run_id="one", first=5), tmp_path)
    with pytest.raises(UsageError, match=r"expected a metric of advertisement_delay, .* got speed"):
        run_command("data", "metrics", str(tmp_path), "--metric", "speed")


def test_an_unparsable_filter_is_named(run_command, small_workload, tmp_path):
    bad = shutil.copytree(small_workload, tmp_path / "bad")
    issued = pd.read_parquet(bad / "subscriptions")
    issued.loc[issued.number == 17, "filter"] = "price >"
    for part in (bad / "subscriptions").glob("*.parquet"):
        part.unlink()
    issued.to_parquet(bad / "subscriptions" / "part-0.parquet")
    with pytest.raises(InvalidData, match="s17/0"):
        run_command("data", "truth", str(bad))


def test_without_spark_commands_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["data", "truth", str(tmp_path)])
    assert isinstance(result.exception, MissingDependency)
    assert 'pip install ".[spark]"' in str(result.exception)


def test_ingest_writes_bars_and_rejects_with_reasons(run_command, workspace, tmp_path):
    lines = ["2020-01-02,10,12,9,11,500,IBM", "2020-01-03,10,12,9,nothing,500,IBM", "2020-01-06,10,12,9,11,-1,IBM"]
    (tmp_path / "prices.csv").write_text("\n".join(["date,open,high,low,close,volume,Name", *lines]))
    arguments = ["data", "ingest", str(tmp_path / "market"), "--bars", str(tmp_path / "prices.csv")]
    reasons = {"close is not a number": 1, "volume is negative": 1}
    assert json.loads(run_command(*arguments, "--json")) == {"bars": 1, "rejects": reasons}
    rejects = read_table(str(tmp_path / "market" / "rejects")).to_pylist()
    assert sorted(row["reason"] for row in rejects) == sorted(reasons)
    shown = run_command(*arguments)
    assert "rejected 1 rows: volume is negative" in shown
    assert "1 bars are in" in shown
