import gzip
import re
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from real_data import real_data

from octopia.errors import InvalidData
from octopia.pipeline.ingest import bars_of, read_rows, rejects_of
from octopia.pipeline.schemas import BARS, REJECTS

HEADER = "Date,Open,High,Low,Close,Adj Close,Volume,Symbol"
GOOD = "2018-02-07,10,12,9,11,11,100,AAA"
FAULTS = {
    "2018-02-08,10,12,9,11,11,100": "malformed row: too few or too many fields",
    "2018-02-08,10,12,9,11,11,100,AAA,more": "malformed row: too few or too many fields",
    "2018-02-08,10,12,9,11,11,100,": "symbol is missing",
    " ,10,12,9,11,11,100,AAA": "date is missing",
    "2018-02-08,null,null,null,null,null,null,AAA": "open is missing",
    "2018-02-08,10,12,9,,11,100,AAA": "close is missing",
    "2018-02-30,10,12,9,11,11,100,AAA": "date is not of the form yyyy-mm-dd",
    "02/08/2018,10,12,9,11,11,100,AAA": "date is not of the form yyyy-mm-dd",
    "2018,10,12,9,11,11,100,AAA": "date is not of the form yyyy-mm-dd",
    "2018-02-08,ten,12,9,11,11,100,AAA": "open is not a number",
    "2018-02-08,10,12d,9,11,11,100,AAA": "high is not a number",
    "2018-02-08,10,12,9,11,11,0x10,AAA": "volume is not a number",
    "2018-02-08,10,12,NaN,11,11,100,AAA": "low is not finite",
    "2018-02-08,10,inf,9,11,11,100,AAA": "high is not finite",
    "2018-02-08,10,12,9,1e999,11,100,AAA": "close is not finite",
    "2018-02-08,10,12,0,11,11,100,AAA": "low is not above zero",
    "2018-02-08,-10,12,9,11,11,100,AAA": "open is not above zero",
    "2018-02-08,10,12,9,11,11,-1,AAA": "volume is negative",
    "2018-02-08,10,12,9,11,11,1.5,AAA": "volume is not a whole number",
    "2018-02-08,10,12,9,11,11,99999999999999999999,AAA": "volume is too large",
    "2018-02-08,10,9,12,11,11,100,AAA": "high is below low",
    "2018-02-08,12.01,12,9,11,11,100,AAA": "open lies outside low to high",
    "2018-02-08,10,12,9,8.99,11,100,AAA": "close lies outside low to high",
    "2018-02-07,10,12,9,11,11,99,AAA": "repeats the symbol and date of another row",
}
FINE = [
    "2018-02-09,12.004,12,9,8.996,11,100.0,AAA",  # off by less than half a cent
    '2018-02-12 00:00:00-05:00, 10 ,12,9,"11","two\nlines, and ""quotes""",1e2,AAA',
    "2018-02-13,10,12,9,11,11,0,AAA",
    "2018-02-07,10,12,9,11,11,9007199254740993,BBB",  # more digits than a double has
]


def write(path: Path, *lines: str, encoding: str = "utf-8") -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding)
    return str(path)


def read(spark: SparkSession, path: str | Path) -> tuple[list[tuple], list[tuple]]:
    """Return bars and rejects as sorted rows, dates as texts."""
    rows = read_rows(spark, str(path)).persist()
    bars, rejects = bars_of(rows), rejects_of(rows)
    assert bars.dtypes == [(field.name, field.dataType.simpleString()) for field in BARS]
    assert rejects.columns == REJECTS.names
    dated = sorted((symbol, str(date), *values) for symbol, date, *values in bars.collect())
    refused = sorted(tuple(row) for row in rejects.collect())
    # The text of a whole row is made for rejects only.
    assert rows.where("reason is null and content is not null").isEmpty()
    rows.unpersist()
    return dated, refused


def test_every_row_is_a_bar_or_a_reject_with_its_reason(spark: SparkSession, tmp_path: Path):
    path = write(tmp_path / "all.csv", "", HEADER, GOOD, "", *FAULTS, "   ", *FINE, encoding="utf-8-sig")
    bars, rejects = read(spark, path)
    assert {content: reason for _, content, reason in rejects} == FAULTS
    assert len(bars) + len(rejects) == 1 + len(FAULTS) + len(FINE)
    assert {source for source, _, _ in rejects} == {"all.csv"}
    assert bars == [
        ("AAA", "2018-02-07", 10.0, 12.0, 9.0, 11.0, 100),
        ("AAA", "2018-02-09", 12.004, 12.0, 9.0, 8.996, 100),
        ("AAA", "2018-02-12", 10.0, 12.0, 9.0, 11.0, 100),
        ("AAA", "2018-02-13", 10.0, 12.0, 9.0, 11.0, 0),
        ("BBB", "2018-02-07", 10.0, 12.0, 9.0, 11.0, 9007199254740993),
    ]


def test_folder_of_one_file_a_symbol(spark: SparkSession, tmp_path: Path):
    write(tmp_path / "AAPL.csv", "Date,Open,High,Low,Close,Adj Close,Volume", "2018-02-07,1,2,1,2,2,5")
    write(tmp_path / "BRK B+.CSV", "VOLUME,close,low,high,open,date", "6,2,1,2,1,2018-02-07", "2018-02-08,2")
    write(tmp_path / "^GSPC%20.csv", "date,open,high,low,close,volume,Name,TICKER", "2018-02-07,1,2,1,2,7,Index,SPX")
    with gzip.open(tmp_path / "ZIP.csv.gz", "wt") as file:
        file.write("Date,Open,High,Low,Close,Volume\r\n2018-02-07,1,2,1,2,8\r\n")
    write(tmp_path / "header-only.csv", HEADER)
    write(tmp_path / "empty.csv")
    write(tmp_path / "notes.txt", "These files are from Yahoo.")
    bars, rejects = read(spark, tmp_path)
    rest = ("2018-02-07", 1.0, 2.0, 1.0, 2.0)
    assert bars == [("AAPL", *rest, 5), ("BRK B+", *rest, 6), ("SPX", *rest, 7), ("ZIP", *rest, 8)]
    assert rejects == [("BRK B+.CSV", "2018-02-08,2", "malformed row: too few or too many fields")]
    assert [row.symbol for row in read_rows(spark, f"{tmp_path}/A*.csv").collect()] == ["AAPL"]


def test_parquet_of_other_types(spark: SparkSession, tmp_path: Path):
    table = pyarrow.table(
        {
            "Adj Close": [[1.0], [1.0], [1.0], [1.0]],
            "Date": pyarrow.array([17569 * 86_400_000] * 4, pyarrow.timestamp("ms", "UTC")),
            "open": pyarrow.array([15.07, 15.07, None, 15.07], pyarrow.float32()),
            "HIGH": pyarrow.array(["16.5", "16.5", "16.5", "x"]),
            "Low": pyarrow.array([15, 15, 15, 15]),
            "Close": pyarrow.array([16.0, float("nan"), 16.0, 16.0]),
            "Volume": pyarrow.array([3.0, 3.0, 3.0, 3.0]),
            "symbol": ["A", "B", "C", "D"],
        }
    )
    (tmp_path / "table").mkdir()
    parquet.write_table(table, tmp_path / "table" / "part-0.parquet")
    (tmp_path / "table" / "_SUCCESS").touch()
    bars, rejects = read(spark, tmp_path / "table")
    assert bars == [("A", "2018-02-07", 15.07, 16.5, 15.0, 16.0, 3)]
    reasons = {content[-1]: reason for _, content, reason in rejects}
    assert reasons == {"B": "close is not finite", "C": "open is missing", "D": "high is not a number"}
    assert {source for source, _, _ in rejects} == {"part-0.parquet"}
    parquet.write_table(table.drop_columns(["symbol"]), tmp_path / "nameless.parquet")
    with pytest.raises(InvalidData, match="add or rename symbol"):
        read_rows(spark, str(tmp_path / "nameless.parquet"))


def test_of_repeated_bars_the_one_with_most_volume_stays(spark: SparkSession, tmp_path: Path):
    rows = [f"2018-02-07,10,12,9,{close},11,{volume},AAA" for close, volume in ((10, 5), (11, 7), (12, 7), (12, 7))]
    write(tmp_path / "a.csv", HEADER, *rows, rows[0].replace("AAA", "BBB"))
    write(tmp_path / "b.csv", HEADER, *reversed(rows), rows[0].replace("2018", "2019"))
    bars, rejects = read(spark, tmp_path)
    assert bars == [
        ("AAA", "2018-02-07", 10.0, 12.0, 9.0, 12.0, 7),
        ("AAA", "2019-02-07", 10.0, 12.0, 9.0, 10.0, 5),
        ("BBB", "2018-02-07", 10.0, 12.0, 9.0, 10.0, 5),
    ]
    assert Counter(source for source, _, _ in rejects) == {"a.csv": 3, "b.csv": 4}


def test_header_only_gives_empty_tables(spark: SparkSession, tmp_path: Path):
    assert read(spark, write(tmp_path / "a.csv", HEADER)) == ([], [])


def test_refuses_what_has_no_bars(spark: SparkSession, tmp_path: Path):
    wrong = {
        write(tmp_path / "few.csv", "Date,Price", "2018-02-07,3"): (
            r"expected the columns date, open, high, low, close, volume and symbol or ticker or name in .*few\.csv, "
            r"got Date, Price: add or rename open, high, low, close, volume"
        ),
        write(tmp_path / "twice.csv", f"{HEADER},close", GOOD): "expected one column close .* got several",
        write(tmp_path / "empty.csv"): "got an empty file",
        write(tmp_path / "bars.txt", HEADER, GOOD): r"names end in \.csv or \.parquet, got bars\.txt",
        write(tmp_path / "not.parquet", "no Parquet at all"): r"expected CSV or Parquet files at .*not\.parquet, got: ",
        str(tmp_path): "got both: choose one kind with a glob",
        str(tmp_path / "nowhere.csv"): "Path does not exist",
        "nosuch://place/x.csv": "got nosuch://place/x.csv",
    }
    for path, message in wrong.items():
        with pytest.raises(InvalidData, match=message) as raised:
            read_rows(spark, path)
        assert "\n" not in str(raised.value)


@pytest.mark.soak
@pytest.mark.skipif(not real_data().exists(), reason="five years of the S&P 500 are not at hand")
def test_five_years_of_the_sp500(spark: SparkSession):
    rows = read_rows(spark, str(real_data())).persist()
    assert bars_of(rows).count() == 619_017
    assert Counter(row.reason for row in rejects_of(rows).collect()) == {
        "open is missing": 11,
        "high is below low": 1,
        "open lies outside low to high": 3,
        "close lies outside low to high": 8,
    }


def test_parquet_files_of_one_folder_may_have_other_types(spark: SparkSession, tmp_path: Path):
    price, day = [1.5], ["2018-02-07"]
    rest = {"open": price, "high": price, "low": price, "close": price}
    types = {"A": pyarrow.int64(), "B": pyarrow.float64(), "C [1]%20": pyarrow.int32(), "D": pyarrow.string()}
    for symbol, kind in types.items():
        volume = pyarrow.array([2**53 + 1 if symbol == "A" else 7], pyarrow.int64()).cast(kind)
        table = pyarrow.table({"date": day * 2, **{k: v * 2 for k, v in rest.items()}, "symbol": [symbol, symbol]})
        table = table.append_column("volume", pyarrow.chunked_array([volume, volume]))
        parquet.write_table(table, tmp_path / f"{symbol}.parquet")
    bars, rejects = read(spark, tmp_path)
    assert [(bar[0], bar[-1]) for bar in bars] == [("A", 2**53 + 1), ("B", 7), ("C [1]%20", 7), ("D", 7)]
    assert [(source, content) for source, content, _ in rejects] == [
        ("A.parquet", "2018-02-07,1.5,1.5,1.5,1.5,A,9007199254740993"),
        ("B.parquet", "2018-02-07,1.5,1.5,1.5,1.5,B,7.0"),
        ("C [1]%20.parquet", "2018-02-07,1.5,1.5,1.5,1.5,C [1]%20,7"),
        ("D.parquet", "2018-02-07,1.5,1.5,1.5,1.5,D,7"),
    ]
    (tmp_path / "E.parquet").write_text("no Parquet")
    with pytest.raises(InvalidData, match=r"E\.parquet cannot be read: it is not Parquet, or it is damaged"):
        read_rows(spark, str(tmp_path))


def test_symbols_that_are_not_in_utf_8_are_rejected(spark: SparkSession, tmp_path: Path):
    good = GOOD.replace("AAA", "Nestlé")
    bars, rejects = read(spark, write(tmp_path / "utf.csv", HEADER, good))
    assert ([bar[0] for bar in bars], rejects) == (["Nestlé"], [])
    bars, rejects = read(spark, write(tmp_path / "latin.csv", HEADER, GOOD, good, encoding="latin-1"))
    assert [bar[0] for bar in bars] == ["AAA"]
    assert [reason for *_, reason in rejects] == ["symbol is not in UTF-8: convert the file"]


def test_texts_of_rows_are_made_for_rejects_only(spark: SparkSession, tmp_path: Path):
    rows = read_rows(spark, write(tmp_path / "bars.csv", HEADER, GOOD))
    plan = rows._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("to_csv(") == 1
    assert re.search(r"CASE WHEN isnotnull\(reason#\d+\) THEN coalesce\(malformed#\d+, to_csv\(", plan)
