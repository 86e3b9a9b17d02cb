"""The documentation page of the pipeline agrees with the code."""

import re
from pathlib import Path

from octopia.pipeline.configuration import load_settings
from octopia.pipeline.metrics import METRICS
from octopia.pipeline.schemas import BARS, ISSUED, PUBLICATIONS, REJECTS
from octopia.workloads.runs import RunSpec, read_runs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/pipeline.md").read_text()


def rows(heading: str) -> dict[str, str]:
    """The second column of the table after a header, by the names in the first."""
    table = PAGE.split(heading)[1].split("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        names, told = line.strip("|").split("|")[:2]
        found |= dict.fromkeys(re.findall("`([^`]+)`", names), told)
    return found


def test_the_example_of_a_sweep_is_the_file():
    assert (ROOT / "examples/sweeps/algorithms.toml").read_text() in PAGE
    assert len(read_runs(ROOT / "examples/sweeps/algorithms.toml")) == 5


def test_all_columns_of_runs_and_all_metrics_are_explained():
    assert list(rows("| column | default | meaning |")) == [
        "workload",
        *(name for name in RunSpec.__struct_fields__ if name != "workload"),
    ]
    assert list(rows("| metric | meaning | needs a trace of |")) == list(METRICS)


def test_tables_have_the_columns_that_the_page_says():
    told = rows("| table | columns |")
    for name, schema in {
        "bars": BARS,
        "rejects": REJECTS,
        "publications": PUBLICATIONS,
        "subscriptions": ISSUED,
    }.items():
        assert all(column in told[name] for column in schema.names)


def test_the_settings_on_the_page_can_be_read(tmp_path, monkeypatch):
    (text,) = (block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "master" in block)
    (tmp_path / "octopia.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.storage == "s3a://bucket/octopia"
    assert settings.spark == {"spark.executor.memory": "4g"}
