"""The examples with Spark, in the session that all tests share."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import EXAMPLES

PRINTED = {
    "moving_average": (
        "IBM: 101.0 in the three seconds before 3\n"
        "IBM: 102.0 in the three seconds before 4\n"
        "IBM: 103.0 in the three seconds before 5\n"
        "SAP: 201.0 in the three seconds before 3\n"
        "SAP: 202.0 in the three seconds before 4\n"
        "SAP: 203.0 in the three seconds before 5\n"
    ),
    "late_data": "first: {'mon': 30, 'tue': 5, 'wed': 7}\nchanged: {'mon': 100, 'wed': 10}\n",
    "live_and_historic": "IBM is at 120% of its usual price\nSAP is at 90% of its usual price\n",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should(
    name: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")
    asyncio.run(example["main"](spark, tmp_path))
    assert capsys.readouterr().out == PRINTED[name]


def test_a_notebook_has_it_all_in_one_process(spark: SparkSession, capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(EXAMPLES / "notebook.py"))
    assert capsys.readouterr().out == "100 prices, of which 25 are expensive ones of IBM\n100 rows recorded\n"
