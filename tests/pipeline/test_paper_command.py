"""``octopia paper`` as a command, with a study that takes seconds in place of the paper's."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest
from small import BURST_STUDY
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import InvalidData, JobFailed, UsageError
from octopia.experiments.audits import AuditRow
from octopia.experiments.page import without_clock
from octopia.experiments.paper import reproduction
from octopia.experiments.paper.names import Contender, Model, StudyName
from octopia.experiments.paper.rows import TABLES, BurstRow, Tables
from octopia.experiments.paper.studies import read_study
from octopia.experiments.paper.study_runs import Ran
from octopia.experiments.sockets.cases import CASES, CaseName, tiny_study
from octopia.pipeline.spec import HostKind
from octopia.records.files import lock_folder
from octopia.settings import Algorithm


@pytest.fixture
def small_studies(monkeypatch, tmp_path):
    """Every study is a small burst, and none is repeated under other assumptions."""
    (tmp_path / "study.toml").write_text(BURST_STUDY)
    monkeypatch.setattr(
        reproduction, "load_study", lambda name, extent: read_study(tmp_path / "study.toml", name, extent)
    )
    monkeypatch.setattr(reproduction, "vary", lambda *_: ())
    monkeypatch.setattr(reproduction, "decide", lambda *_: ())


@pytest.fixture
def one_run_over_sockets(monkeypatch):
    """One case under one algorithm stands for the comparison over sockets."""
    (burst,) = (case for case in CASES if case.name is CaseName.BURST)
    tiny = dataclasses.replace(tiny_study(), cases=(burst,), algorithms=(Algorithm.ADAPTIVE,), predictions=1)
    monkeypatch.setattr(reproduction, "socket_study", lambda *_: tiny)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.soak
def test_one_value_of_one_study_is_run_in_both_worlds_and_reported(
    run_command, small_studies, one_run_over_sockets, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    asked = ["paper", "burst", "--scale", "tiny", "--value", "30000", "--real", "--out", "evaluation"]
    assert "evaluation/report.html" in run_command(*asked)
    out = tmp_path / "evaluation"
    bursts, sockets, audits = (rows_of(out / "tables" / f"{name}.csv") for name in ("bursts", "sockets", "audits"))
    assert [(row["rate_per_minute"], row["algorithm"], row["publications"]) for row in bursts] == [
        ("30000", "static", "60"),
        ("30000", "dynamic", "60"),
    ]
    assert [(row["case"], row["brokers"], row["algorithm"]) for row in sockets] == [("burst", "12", "adaptive")]
    assert len(audits) == 4
    assert all((row["missing"], row["unwanted"], row["duplicate"]) == ("0", "0", "0") for row in audits)
    assert all(int(row["deliveries"]) > 0 for row in audits)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["again"] == "octopia paper burst --scale tiny --value 30000 --real"
    report = (out / "report.md").read_text()
    assert (out / "figures" / "burst-30000.svg").exists()
    assert "figures/burst-30000.png" in report
    assert (out / "figures" / "sockets-burst.png").exists()
    assert "figures/sockets-burst.png" in report
    assert manifest["studies"]["burst"]["seeds"] == [0]
    assert manifest["studies"]["burst"]["runs_of"] == [manifest["commit"]]
    # Another value joins the report; another scale has no place in it.
    run_command("paper", "burst", "--scale", "tiny", "--value", "60000", "--out", "evaluation")
    bursts = rows_of(out / "tables" / "bursts.csv")
    assert [row["rate_per_minute"] for row in bursts] == ["30000", "30000", "60000", "60000"]
    assert len(rows_of(out / "tables" / "audits.csv")) == 6
    with pytest.raises(
        UsageError, match="which has results of the scale tiny with a made-up market: choose another folder"
    ):
        run_command("paper", "burst", "--scale", "laptop", "--out", "evaluation")


@pytest.mark.soak
def test_models_and_hosts_join_the_report_one_after_the_other(run_command, small_studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["paper", "burst", "--scale", "tiny", "--host", "inner", "--out", "evaluation"]
    run_command(*asked, "--model", "links")
    run_command(*asked, "--model", "broker-sender", "--images", "images")
    out = tmp_path / "evaluation"
    assert [(row["model"], row["host"], row["algorithm"]) for row in rows_of(out / "tables" / "bursts.csv")] == [
        (model, "inner", algorithm) for model in ("links", "broker-sender") for algorithm in ("static", "dynamic")
    ]
    assert "broker-sender, inner host" in (out / "report.md").read_text()
    again = json.loads((out / "manifest.json").read_text())["again"]
    assert again == "octopia paper burst --scale tiny --model broker-sender --host inner"
    assert [each.name for each in (tmp_path / "images").iterdir()] == ["evaluation-recovery.png"]
    # What was made of the runs is made of them again, without running anything.
    first = made_of_runs(out)
    assert len(first) == len(("report.md", "report.html")) + 2 * len(("burst", "recovery")) + len(TABLES)
    for each in first:
        if not each.startswith("tables"):
            (out / each).unlink()
    monkeypatch.setattr(reproduction, "run_study", None)
    run_command(*asked, "--model", "broker-sender", "--only-finished")
    assert made_of_runs(out) == first
    # A report of all studies is still about what was run, and about the call that ran it.
    noted = (out / "manifest.json").read_bytes()
    run_command("paper", "--scale", "tiny", "--out", str(out), "--only-finished")
    assert (out / "manifest.json").read_bytes() == noted
    page = (out / "report.md").read_text()
    assert again in page
    assert "studies.publishers" not in page
    assert json.loads(noted)["finished"] in page


def made_of_runs(out: Path) -> dict[str, bytes | str]:
    """Return figures, tables and reports, without what the clock measured."""
    paths = [path for path in out.rglob("*") if path.parent.name in ("figures", "tables")]
    found: dict[str, bytes | str] = {str(path.relative_to(out)): path.read_bytes() for path in paths}
    return found | {name: without_clock((out / name).read_text()) for name in ("report.md", "report.html")}


@pytest.mark.soak
def test_the_whole_report_at_the_smallest_scale_is_rebuilt(run_command, tmp_path, monkeypatch):
    """All studies under all models, with sensitivity, twice from nothing: only clocks may differ."""
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / name for name in ("one", "two")]
    for each in folders:
        run_command("paper", "--scale", "tiny", "--out", each.name)
    one, two = map(made_of_runs, folders)
    by_clock = {"tables/costs.csv", "tables/bursts.csv"} | {name for name in one if "fig14" in name or "fig16" in name}
    assert {name for name in one if one[name] != two[name]} <= by_clock
    assert set(one) == set(two)
    assert "Not run." not in str(one["report.md"]).partition("## Over real sockets")[0]


def test_faults_fail_the_command_after_the_report(run_command, small_studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faulty = AuditRow("burst-30000-static-0", 100, 1, 0, 0)
    monkeypatch.setattr(reproduction, "run_study", lambda *_: Ran(Tables(audits=(faulty,))))
    monkeypatch.setattr(reproduction, "_loads", lambda *_: ())
    with pytest.raises(JobFailed, match="faults in 1 runs, the first burst-30000-static-0"):
        run_command("paper", "burst", "--out", "evaluation")
    assert "1 missing" in (tmp_path / "evaluation" / "report.md").read_text()


def test_a_study_that_fails_keeps_nobody_from_the_others(run_command, small_studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run_study(workspace, study, folder, market):
        if study.name is StudyName.SUBSCRIBERS:
            raise JobFailed("no memory")
        return Ran(Tables(audits=(AuditRow(f"{study.name}-1", 100, 0, 0, 0),)), ("abc",))

    monkeypatch.setattr(reproduction, "run_study", run_study)
    monkeypatch.setattr(reproduction, "measure_costs", lambda *_: ())
    monkeypatch.setattr(reproduction, "_loads", lambda *_: ())
    monkeypatch.setattr(reproduction, "load_workload", lambda *_: None)
    with pytest.raises(JobFailed, match=r"but 1 of 4 failed \(subscribers: no memory\)"):
        run_command("paper", "--out", "evaluation")
    out = tmp_path / "evaluation"
    assert [row["run"] for row in rows_of(out / "tables" / "audits.csv")] == ["publishers-1", "delivery-1", "burst-1"]
    studies = json.loads((out / "manifest.json").read_text())["studies"]
    assert studies["subscribers"]["failed"] == "no memory"
    assert "runs_of" not in studies["subscribers"]
    assert studies["burst"]["runs_of"] == ["abc"]
    assert "no memory" in (out / "report.md").read_text()


def burst_row(seed: int) -> BurstRow:
    """Return a run whose delay shows its seed."""
    shares = {field.name: 0.5 for field in dataclasses.fields(BurstRow) if "below_1s" in field.name}
    return BurstRow(
        rate_per_minute=30000,
        model=Model.LINKS,
        host=HostKind.EDGE,
        algorithm=Contender.STATIC,
        seed=seed,
        publications=60,
        deliveries=100,
        publication_delay_ms=2.0 + seed,
        burst_deliveries=10,
        burst_delay_ms=2.0,
        stable_ms=1000.0,
        burst_late_ms=1000.0,
        queue_length_mean=1.0,
        target_queue_length_mean=1.0,
        publication_messages=1000,
        shrinking_ms=None,
        seconds=1.0,
        **shares,
    )


def test_parts_that_were_run_on_several_machines_are_reported_together(
    run_command, small_studies, tmp_path, monkeypatch
):
    def run_study(workspace, study, folder, market):
        return Ran(Tables(bursts=tuple(burst_row(point.seed) for point in study.points)), ("abc",))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "run_study", run_study)
    monkeypatch.setattr(reproduction, "_loads", lambda *_: ())
    asked = ["paper", "burst", "--scale", "tiny", "--value", "30000", "--host", "edge", "--algorithm", "static"]
    run_command(*asked, "--only-seed", "2", "--only-seed", "1", "--out", "one")
    again = json.loads(Path("one/manifest.json").read_text())["again"]
    assert again.removeprefix("octopia paper burst --scale tiny ").split() == [
        "--only-seed", "2", "--only-seed", "1", "--value", "30000", "--host", "edge", "--algorithm", "static",
    ]  # fmt: skip
    run_command(*asked, "--only-seed", "0", "--out", "two", "--beside", "one")
    run_command("paper", "burst", "--scale", "tiny", "--only-finished", "--out", "three", "--beside", "two/merged")
    assert "a made-up market; runs of commits abc" in Path("three/report.md").read_text()
    for each in ("two", "three"):
        found = [(row["seed"], float(row["publication_delay_ms"])) for row in rows_of(Path(each, "merged/bursts.csv"))]
        assert found == [("0", 2.0), ("1", 3.0), ("2", 4.0)]
    # What another folder has does not become the own result.
    assert [row["seed"] for row in rows_of(Path("two/tables/bursts.csv"))] == ["0"]
    assert not Path("three/manifest.json").exists()
    # Seeds that were run one after the other are all noted.
    run_command(*asked, "--only-seed", "3", "--only-seed", "3", "--out", "two")
    assert json.loads(Path("two/manifest.json").read_text())["studies"]["burst"]["seeds"] == [0, 3]
    assert [row["seed"] for row in rows_of(Path("two/tables/bursts.csv"))] == ["0", "3"]


def test_different_results_of_one_run_are_not_merged(run_command, small_studies, tmp_path, monkeypatch):
    rows = [burst_row(0)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "run_study", lambda *_: Ran(Tables(bursts=tuple(rows)), ("abc",)))
    monkeypatch.setattr(reproduction, "_loads", lambda *_: ())
    asked = ["paper", "burst", "--scale", "tiny", "--value", "30000"]
    run_command(*asked, "--out", "one")
    # The same run takes another time elsewhere.
    rows[0] = dataclasses.replace(rows[0], seconds=9.0)
    run_command(*asked, "--out", "two", "--beside", "one")
    rows[0] = dataclasses.replace(rows[0], publication_delay_ms=9.0)
    with pytest.raises(UsageError, match=r"expected the same BurstRow of .*30000.* in both folders, got different"):
        run_command(*asked, "--out", "two", "--beside", "one")
    with pytest.raises(UsageError, match="expected an evaluation of the scale laptop in one, got one of tiny"):
        run_command("paper", "burst", "--out", "three", "--beside", "one")


def test_a_failure_is_part_of_the_json(run_command, small_studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run_study(*_):
        raise InvalidData("no truth")

    monkeypatch.setattr(reproduction, "run_study", run_study)
    done = CliRunner().invoke(app, ["paper", "burst", "--json"])
    assert isinstance(done.exception, JobFailed)
    assert json.loads(done.stdout)["failed"] == {"burst": "no truth"}


def test_a_folder_that_was_begun_has_a_scale(run_command, small_studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "run_study", stop)
    assert CliRunner().invoke(app, ["paper", "burst", "--scale", "tiny", "--out", "evaluation"]).exit_code == 130
    with pytest.raises(UsageError, match="which has results of the scale tiny"):
        run_command("paper", "burst", "--scale", "laptop", "--out", "evaluation")


def test_two_evaluations_do_not_share_a_folder(run_command, small_studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        lock_folder(Path("evaluation"), "the folder of an evaluation"),
        pytest.raises(
            UsageError, match="expected the folder of an evaluation that no other process writes to, got evaluation"
        ),
    ):
        run_command("paper", "burst", "--out", "evaluation")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--seeds", "2", "--only-seed", "1"],
            "either --seeds, a number of seeds, or --only-seed, single ones",
        ),
        (["--beside", "."], "expected the folder of an evaluation or of its tables, got ., which has no table"),
        (["--value", "100000"], "the name of a study with --value, got none: octopia paper burst --value 100000"),
        (["publishers", "--only-real"], "expected no study with --only-real, got publishers"),
        (["--only-finished", "--real"], "expected either --only-finished, which runs nothing, or --real"),
        (["burst", "--only-finished"], "the folder of an evaluation, got out/paper/laptop, which has none"),
        (["burst", "--out", "a-file/below"], "expected a folder that can be created, got a-file/below"),
        (["delivery", "--host", "inner"], "expected --host with the burst study, got another"),
        (["burst", "--value", "-5"], "--value of burst_per_minute: expected numbers above 0, got -5"),
        (["burst", "--value", "1.5"], "--value of burst_per_minute: expected whole numbers, got 1.5"),
        (["burst", "--value", "inf"], "--value of burst_per_minute: expected whole numbers, got inf"),
    ],
)
def test_what_cannot_be_evaluated_says_why_before_spark_starts(arguments, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("octopia.cli.paper.open_workspace", lambda *_, **__: pytest.fail("Spark was started"))
    (tmp_path / "a-file").write_text("")
    result = CliRunner().invoke(app, ["paper", *arguments])
    assert isinstance(result.exception, UsageError)
    assert problem in str(result.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["a-file"], "a call that is refused leaves no folder"


def test_an_unknown_choice_is_refused_in_our_words():
    result = CliRunner().invoke(app, ["paper", "burst", "--model", "linkz"])
    assert result.exit_code == 2
    assert "'linkz' is not one of 'links'" in result.output
    assert "Value error" not in result.output


def test_what_fails_over_sockets_is_reported(run_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def fail(*_):
        raise JobFailed("no brokers")

    monkeypatch.setattr(reproduction, "compare_over_sockets", fail)
    with pytest.raises(JobFailed, match=r"but 1 of 1 failed \(real: no brokers\)"):
        run_command("paper", "--only-real", "--scale", "tiny", "--out", "evaluation")
    manifest = json.loads((tmp_path / "evaluation" / "manifest.json").read_text())
    assert manifest["again"] == "octopia paper --scale tiny --only-real"


@pytest.mark.parametrize("arguments", [["speed"], ["--scale", "huge"], ["--seeds", "0"]])
def test_what_is_no_study_is_refused_before_spark_starts(arguments):
    assert CliRunner().invoke(app, ["paper", *arguments]).exit_code == 2
