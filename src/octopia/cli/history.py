"""``octopia history``: find publications in an archive or a spool."""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, FromTime, RecordsFolder, ToTime
from octopia.cli.subscribe import to_json, to_text
from octopia.content import covers, format_filter, parse_filter
from octopia.records.history import Records, count_rows
from octopia.records.rows import Row, RowKind
from octopia.records.selection import Question, time_ms

SPARK_ROWS = 5_000_000
"""The number of rows to read above which Spark is faster."""


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
    if engine is HistoryEngine.AUTO:
        are_many = limit is None and count_rows(records.slices(question)) >= SPARK_ROWS and has_spark()
        engine = HistoryEngine.SPARK if are_many else HistoryEngine.ARROW
    if engine is HistoryEngine.ARROW:
        _show(records.rows(question), limit, as_json=as_json)
        return
    with _rows_by_spark(folder, question) as rows:
        _show(rows, limit, as_json=as_json)


def _show(rows: Iterable[Row], limit: int | None, *, as_json: bool) -> None:
    shown = 0
    for row in rows:
        if row.kind is not RowKind.PUBLICATION:
            _show_notice(row, as_json=as_json)
            continue
        typer.echo(to_json(row.to_received()) if as_json else to_text(row.to_received()))
        shown += 1
        if shown == limit:
            return


def has_spark() -> bool:
    """Return whether Spark is installed."""
    return importlib.util.find_spec("pyspark") is not None


@contextlib.contextmanager
def _rows_by_spark(folder: Path, question: Question) -> Iterator[Iterator[Row]]:
    # These take a while to import, and other engines do not need them.
    from octopia.cli.spark import open_workspace, require_spark

    require_spark()
    from octopia.pipeline.historic import history_rows

    # Workers must see the folder, so it is the storage that is checked if they are on other machines.
    with open_workspace(None, None, str(folder.absolute()), None, keeps_work=False) as workspace:
        yield history_rows(workspace.spark, folder, question)


def _show_notice(row: Row, *, as_json: bool) -> None:
    """Say that publications may be missing here: on stderr, and with ``as_json`` as a line among them."""
    if as_json:
        notice = {"cause": row.cause, "count": row.count or None} if row.kind is RowKind.GAP else {"count": row.count}
        typer.echo(json.dumps({str(row.kind): notice}))
    why = ", ".join([row.cause or str(row.kind), *([f"up to {row.count}"] if row.count else [])])
    typer.echo(f"some publications may be missing here ({why})", err=True)
