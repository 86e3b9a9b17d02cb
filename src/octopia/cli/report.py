"""``octopia report``: the parts of a running overlay, one table each."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.lazy import examples
from octopia.cli.link import link_rows
from octopia.cli.options import AsJson, Broker, Url
from octopia.cli.output import console, count_of, print_json
from octopia.cli.overlays import Watched, ask_brokers
from octopia.client.operators import Answers
from octopia.errors import UnknownBroker, UsageError
from octopia.protocol import Command, Verb
from octopia.transport.loop import run_loop

if TYPE_CHECKING:
    from rich.table import Table

REFRESH_S = 1.0
Row = Mapping[str, Any]

Watch = Annotated[bool, typer.Option("--watch", help="Refresh the table until Ctrl-C.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows per broker.")]


@dataclasses.dataclass(frozen=True, slots=True)
class _Report:
    """A table: its name, the command sent to brokers, the rows of the answers, and the columns shown.

    ``key`` is the column with the broker that ``-b`` selects. ``total`` returns the number of rows that a broker has,
    of which its answer may have fewer.
    """

    name: str
    command: Command
    rows: Callable[[Answers], list[Row]]
    columns: Sequence[str]
    key: str = "broker"
    total: Callable[[dict[str, Any]], int] | None = None


def _show(report: _Report, url: str | None, broker: str | None, *, watch: bool, as_json: bool) -> None:
    if watch and as_json:
        raise UsageError("expected --watch or --json, got both")
    if watch:
        _watch(report, url, broker)
        return
    found = run_loop(ask_brokers(url, report.command))
    if as_json:
        rows = _selected(report, found, broker)
        total = _total(report, found, broker, rows)
        print_json({"overlay": found.overlay["name"], report.name: rows, "total": total, "problems": found.problems})
    else:
        console().print(_table(report, found, broker))


def _selected(report: _Report, found: Answers, broker: str | None) -> list[Row]:
    if broker is not None and broker not in found.brokers:
        raise UnknownBroker(f"expected a broker of the overlay {found.overlay['name']}, got {broker!r}")
    return [row for row in report.rows(found) if broker in (None, row[report.key])]


def _total(report: _Report, found: Answers, broker: str | None, rows: Sequence[Row]) -> int:
    """Return the number of rows at the brokers that answered, or at the selected one, also beyond the limit."""
    if report.total is None:
        return len(rows)
    return sum(report.total(answer) for name, answer in found.reports.items() if broker in (None, name))


def _watch(report: _Report, url: str | None, broker: str | None) -> None:
    from rich.live import Live

    watched = Watched(url)
    try:
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                found = run_loop(watched.ask(report.command))
                live.update(_table(report, found, broker), refresh=True)
                time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return


def _table(report: _Report, found: Answers, broker: str | None) -> Table:
    from rich.table import Table

    rows = _selected(report, found, broker)
    total = _total(report, found, broker, rows)
    share = f"{len(rows):,} of " if len(rows) < total else ""
    missing = f"; no answer from {', '.join(found.problems)}" if found.problems else ""
    title = f"{found.overlay['name']}: {share}{count_of(total, report.name)}{missing}"
    table = Table(title=title, title_justify="left")
    for column in report.columns:
        is_number = bool(rows) and type(rows[0].get(column)) in (int, float)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in report.columns))
    return table


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


@examples("octopia report brokers", "octopia report brokers --watch", "octopia report brokers -b b.3 --json")
def brokers(url: Url = None, broker: Broker = None, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show the brokers: state, clients, publications, queues and losses."""
    report = _Report("brokers", Command(Verb.REPORT), broker_rows, _BROKER_COLUMNS)
    _show(report, url, broker, watch=watch, as_json=as_json)


_BROKER_COLUMNS = ("broker", "ready", "clients", "published", "sent", "rerouted", "queued", "congested", "lost")


def broker_rows(found: Answers) -> list[Row]:
    """Return a row for each broker that answered."""
    return [
        {
            "broker": broker,
            "ready": report["ready"],
            "incarnation": report["incarnation"],
            "clients": report["clients"],
            "published": report["published"],
            "sent": report["sent"].get("publication", 0),
            "rerouted": report["rerouted"],
            "queued": sum(link["queue"] for link in report["links"].values()) + report["stranded"],
            "congested": [peer for peer, link in report["links"].items() if link["congested"]],
            "lost": sum(loss["publications"] for loss in report["losses"].values()),
        }
        for broker, report in _answered(found)
    ]


def _answered(found: Answers) -> list[tuple[str, dict[str, Any]]]:
    return [(broker, found.reports[broker]) for broker in found.brokers if broker in found.reports]


@examples("octopia report links", "octopia report links -b b.3 --watch", "octopia report links --json")
def links(url: Url = None, broker: Broker = None, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show both directions of every link: state, queue, congestion and shape."""
    columns = ("from", "to", "kind", "state", "queue", "congested", "dropped", "rate", "delay_ms")
    report = _Report("links", Command(Verb.REPORT), lambda found: [*link_rows(found.reports)], columns, "from")
    _show(report, url, broker, watch=watch, as_json=as_json)


@examples("octopia report clients", "octopia report clients -b b.3 --json")
def clients(
    url: Url = None, broker: Broker = None, limit: Most = 1_000, watch: Watch = False, as_json: AsJson = False
) -> None:
    """Show the clients of each broker, with what waits for them."""
    columns = ("broker", "client", "connected", "advertisements", "subscriptions", "queued", "held_bytes", "overflow")
    command = Command(Verb.CLIENTS, rows=limit)
    report = _Report(
        "clients", command, lambda found: _below(found, "clients"), columns, total=lambda answer: int(answer["total"])
    )
    _show(report, url, broker, watch=watch, as_json=as_json)


def _below(found: Answers, key: str) -> list[Row]:
    return [{"broker": broker, **row} for broker, answer in _answered(found) for row in answer[key]]


@examples("octopia report subs", "octopia report subs -b b.3 --limit 20", "octopia report subs --json")
def subs(
    url: Url = None, broker: Broker = None, limit: Most = 1_000, watch: Watch = False, as_json: AsJson = False
) -> None:
    """Show the subscriptions of all clients, at their host brokers."""
    report = _hosted("subscriptions", limit, ("broker", "client", "filter"))
    _show(report, url, broker, watch=watch, as_json=as_json)


def _hosted(table: str, limit: int, columns: Sequence[str]) -> _Report:
    """Return the report of the rows of a table that the clients of each broker have issued."""
    return _Report(
        table,
        Command(Verb.TABLES, rows=limit, hosted=True),
        lambda found: [row for row in _below(found, table) if row["client"]],
        columns,
        total=lambda answer: int(answer["total"][table]),
    )


@examples("octopia report civ", "octopia report civ -b b.3 --json")
def civ(
    url: Url = None, broker: Broker = None, limit: Most = 1_000, watch: Watch = False, as_json: AsJson = False
) -> None:
    """Show the advertisements at their host brokers, and the clusters that want them.

    These are the bits of the cluster index vector; that of the publisher's own cluster is always set. A cluster that is
    pending has not answered yet, and counts as interested. TID-based routing has no such vectors.
    """
    report = _hosted("advertisements", limit, ("broker", "client", "filter", "civ", "pending"))
    _show(report, url, broker, watch=watch, as_json=as_json)


@examples("octopia report tables", "octopia report tables --json")
def tables(url: Url = None, broker: Broker = None, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show the sizes of the routing tables of each broker.

    The PRT has the subscriptions of the cluster, the CLT the advertisements of the region; TID-based routing has an SRT
    instead.
    """
    columns = ("broker", "prt", "clt", "srt", "memory_bytes")
    report = _Report("brokers", Command(Verb.REPORT), _table_rows, columns)
    _show(report, url, broker, watch=watch, as_json=as_json)


def _table_rows(found: Answers) -> list[Row]:
    return [
        {"broker": broker, **report["tables"], "memory_bytes": report["limits"]["memory_bytes"]["used"]}
        for broker, report in _answered(found)
    ]
