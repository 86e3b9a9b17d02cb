"""The programs on the page on live and historic data run, one after the other, on small folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from octopia.records.outgoing import Outgoing
from octopia.records.spool import SpoolReader
from records_samples import add_to_archive, add_to_spool, numbered, received
from support import ROOT


def test_the_programs_of_the_page_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    quotes = numbered(*(received(n, {"symbol": "IBM", "price": 99.0 + n}) for n in range(5)))
    add_to_spool(Path("spool/ibm"), quotes, "symbol = 'IBM'")
    add_to_archive(Path("archive/all"), quotes, "price > 0")
    page = (ROOT / "docs" / "records.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    # Spark starts its workers elsewhere, so that relative paths of a test lead nowhere.
    programs = [re.sub(r'"((?:spool|archive|out|checkpoint)\b[^"]*)"', rf'"{tmp_path}/\1"', each) for each in programs]
    names: dict[str, Any] = {"spark": spark}
    table = spark.createDataFrame([("IBM", 1.5)], "symbol string, price double")
    for program in programs:
        if "averages" in program and "quotes" in names:
            names |= {"averages": names["quotes"].select("symbol", "price"), "table": table}
        exec(compile(program, "records.md", "exec"), names)
    try:
        for query in spark.streams.active:
            query.processAllAvailable()
    finally:
        for query in spark.streams.active:
            query.stop()
    assert len(programs) == 5
    assert capsys.readouterr().out.count("\n") == 10
    assert SpoolReader(Path("spool/ibm")).consumers.committed("report") == 5
    assert [each.end for each in Outgoing(Path("out/averages")).manifests()] == [3]
    assert [each.end for each in Outgoing(Path("out/table")).manifests()] == [1]
    assert names["past"].count() == 0
