"""Filters that are shipped parsed, and reading no more than is needed."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from test_sql_conditions import drawn
from test_truth import is_filter, text_of
from truth_cases import trees

from octopia.content import parse_filter
from octopia.errors import InvalidFilter
from octopia.pipeline.audit import activity, published
from octopia.pipeline.jobs import Workspace
from octopia.pipeline.traces import read_traces
from octopia.workloads import forms
from octopia.workloads.arrow import read_table
from octopia.workloads.forms import form_of, read_filter
from octopia.workloads.runs import RunSpec
from octopia.workloads.simulated_run import play_into, prepare
from octopia.workloads.workload import load_workload


def test_a_form_is_read_without_parsing(monkeypatch: pytest.MonkeyPatch):
    texts = ["x = 1", "x = 1.0 OR y IN ('a', 'b') AND NOT z = 2", "TRUE", "FALSE", "s BETWEEN 'é' AND 'ü'"]
    texts += [text for tree in drawn(trees, 30) if is_filter(text := text_of(tree))]
    made = [(text, form_of(text), parse_filter(text)) for text in texts]

    def refuse(text: str) -> None:
        raise AssertionError(text)

    monkeypatch.setattr(forms, "parse_filter", refuse)
    for text, form, parsed in made:
        found = read_filter(text, form)
        assert found == parsed
        assert str(found) == str(parsed)


def test_a_form_of_another_text_or_a_damaged_one_is_not_used():
    wanted = parse_filter("x = 2")
    damaged = form_of("x = 2")[:-1]
    for form in (form_of("x = 1"), damaged, form_of("x = 2")[:8] + b"\xc1", b"", None):
        assert read_filter("x = 2", form) == wanted
    with pytest.raises(InvalidFilter):
        read_filter("x =", form_of("x = 1"))


def test_tables_of_a_workload_have_forms(small_workload: str):
    for name in ("advertisements", "subscriptions"):
        for row in read_table(f"{small_workload}/{name}").to_pylist():
            assert row["form"] == form_of(row["filter"])


def test_a_run_reads_the_publications_that_it_plays(small_workload: str):
    whole = load_workload(small_workload)
    part = prepare(RunSpec(workload=small_workload, first=7)).workload
    assert [each.number for each in part.timed()] == list(range(7))
    assert list(part.timed()) == list(whole.timed(7))
    # Clients are read once for both.
    assert part.subscriptions is whole.subscriptions


def test_an_audit_reads_the_truth_of_the_publications_of_its_runs(
    spark: SparkSession, workspace: Workspace, small_workload: str, tmp_path
):
    play_into(RunSpec(workload=small_workload, run_id="part", first=20), tmp_path)
    done = activity(read_traces(spark, workspace.storage, str(tmp_path)))
    assert [(run["first"], run["last"]) for run in done] == [(0, 19)]
    truth = workspace.storage.read(spark, "small/truth")
    found = published(truth, done)
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, truth.where("publication < 20").collect()))
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [IsNotNull(publication), GreaterThanOrEqual(publication,0)" in plan
    assert published(truth, []).count() == 0
