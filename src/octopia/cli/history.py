"""``octopia history``: find publications in an archive or a spool."""

from __future__ import annotations

import enum
import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, FromTime, RecordsFolder, ToTime
from octopia.cli.subscribe import to_json, to_text
from octopia.content import covers, format_filter, parse_filter
from octopia.errors import MissingDependency
from octopia.records.history import Records, count_rows
from octopia.records.rows import Row, RowKind
from octopia.records.selection import Question, time_ms

SPARK_ROWS = 5_000_000
"""The number of rows to read from which on Spark is faster."""


class HistoryEngine(enum.StrEnum):
    """The engine that reads rows: Arrow in this process, or Spark."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


@examples(
    "octopia history \"symbol = 'IBM' AND price > 100\" --archive archive/ibm",
    'octopia history "price > 100" --from 2026-11-18T09:30 --to 2026-11-19 --archive archive/all --limit 20',
    'octopia history "price > 100" --archive spool/expensive --json',
)
def history(
    interest: Annotated[str, typer.Argument(metavar="FILTER", help='Publications to find, such as "price > 100".')],
    folder: RecordsFolder,
    from_time: FromTime = None,
    to_time: ToTime = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many publications.")] = None,
    engine: Annotated[
        HistoryEngine, typer.Option(help="Engine that reads the rows; auto takes Spark for millions of rows.")
    ] = HistoryEngine.AUTO,
    as_json: AsJson = False,
) -> None:
    """Find publications in an archive or a spool.

    The filter is evaluated by the brokers' own matcher, so the answer is what a subscription would have been given, in
    the same order and with the same types. With --json it prints one object per line, as `octopia sub --json` does:
    a publication, or a gap or a loss where publications may be missing.
    """
    question = Question(
        format_filter(parse_filter(interest)), time_ms(from_time, -math.inf), time_ms(to_time, math.inf)
    )
    records = Records(folder)
    if not covers(parse_filter(records.interest), parse_filter(question.interest)):
        typer.echo(f"warning: {folder} has only publications that match {records.interest}", err=True)
    shown = 0
    for row in _rows(records, folder, question, engine, limit):
        if row.kind is not RowKind.PUBLICATION:
            _show_notice(row, as_json=as_json)
            continue
        typer.echo(to_json(row.to_received()) if as_json else to_text(row.to_received()))
        shown += 1
        if shown == limit:
            return


def _rows(
    records: Records, folder: Path, question: Question, engine: HistoryEngine, limit: int | None
) -> Iterator[Row]:
    if engine is HistoryEngine.AUTO:
        are_many = limit is None and count_rows(records.slices(question)) >= SPARK_ROWS and has_spark()
        engine = HistoryEngine.SPARK if are_many else HistoryEngine.ARROW
    if engine is HistoryEngine.ARROW:
        return records.rows(question)
    return _rows_by_spark(folder, question)


def has_spark() -> bool:
    """Return whether Spark is installed."""
    return importlib.util.find_spec("pyspark") is not None


def _rows_by_spark(folder: Path, question: Question) -> Iterator[Row]:
    if not has_spark():
        raise MissingDependency('expected pyspark, got none: pip install ".[spark]" in the checkout')
    from octopia.pipeline import spark_session
    from octopia.pipeline.configuration import load_settings
    from octopia.pipeline.historic import history_rows

    with spark_session.open_session(load_settings()) as spark:
        yield from history_rows(spark, folder, question)


def _show_notice(row: Row, *, as_json: bool) -> None:
    """Say that publications may be missing here: on stderr, and with ``as_json`` as a line among them."""
    if as_json:
        notice = {"cause": row.cause, "count": row.count or None} if row.kind is RowKind.GAP else {"count": row.count}
        typer.echo(json.dumps({str(row.kind): notice}))
    why = ", ".join([row.cause or str(row.kind), *([f"up to {row.count}"] if row.count else [])])
    typer.echo(f"some publications may be missing here ({why})", err=True)
