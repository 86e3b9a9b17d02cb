"""``octopia explain``: why a client gets a publication in a running overlay, or why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from octopia.cli.contexts import find_operated
from octopia.cli.lazy import examples
from octopia.cli.link import link_rows
from octopia.cli.options import AsJson, Broker, Url
from octopia.cli.output import echo, print_json
from octopia.cli.sessions import waiting_for
from octopia.cli.values import read_attributes, show_value
from octopia.client.operators import Answers, ask_everyone
from octopia.content import Publication, Value
from octopia.errors import UsageError
from octopia.protocol import Command, Verb
from octopia.transport.loop import run_loop

_SHOWN_MAX = 10


@examples(
    "octopia explain screen symbol=IBM price=101.5",
    "octopia explain screen symbol=IBM price=101.5 -b tok.1 --json",
)
def explain(
    client: Annotated[
        str, typer.Argument(metavar="CLIENT", help="Name of a client; `octopia report clients` has them.")
    ],
    attributes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Attributes of the publication.")],
    url: Url = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a client of a running overlay gets a publication, or why not.

    It asks all brokers on this machine as they are now: which subscriptions of the client match, which publishers may
    publish it, and what stands between them. The exit code is 1 if the client does not get it. To explain a publication
    of a scenario, use `octopia sim explain`.
    """
    if client.endswith(".toml"):
        raise UsageError(f"expected the name of a client, got the file {client}: use octopia sim explain {client}")
    publication = Publication(read_attributes(attributes))
    explanation = run_loop(_explain(client, dict(publication.attributes), url, broker))
    if as_json:
        print_json(dataclasses.asdict(explanation))
    else:
        for line in explanation.lines:
            echo(line)
    if not explanation.delivered:
        raise typer.Exit(1)


@dataclasses.dataclass(slots=True)
class _Explanation:
    """The verdict, the sentences that explain it, and the rows that they are made of."""

    client: str
    attributes: dict[str, Value]
    delivered: bool = True
    lines: list[str] = dataclasses.field(default_factory=list)
    hosts: list[str] = dataclasses.field(default_factory=list)
    subscriptions: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    advertisements: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def fails(self, line: str) -> None:
        """Add a reason why the client does not get it."""
        self.delivered = False
        self.lines.append(line)


async def _explain(client: str, attributes: dict[str, Value], url: str | None, broker: str | None) -> _Explanation:
    found = _Explanation(client, attributes)
    async with waiting_for("the brokers to answer"):
        address = await find_operated(url, broker)
        _find_client(found, await ask_everyone(address, Command(Verb.CLIENTS, client=client)))
        if not found.hosts:
            _list_clients(found, await ask_everyone(address, Command(Verb.CLIENTS)))
        issued = Command(Verb.TABLES, client=client, attributes=attributes)
        _judge_subscriptions(found, await ask_everyone(address, issued))
        _judge_advertisements(
            found, await ask_everyone(address, Command(Verb.TABLES, attributes=attributes, hosted=True))
        )
        _add_troubles(found, await ask_everyone(address, Command(Verb.REPORT)))
    shown = " ".join(f"{name}={show_value(value)}" for name, value in attributes.items())
    verdict = "gets" if found.delivered else "does not get"
    found.lines.insert(0, f"{client} {verdict} {shown}")
    return found


def _find_client(found: _Explanation, clients: Answers) -> None:
    for broker, answer in clients.reports.items():
        for row in answer["clients"]:
            found.hosts.append(broker)
            state = "connected to" if row["connected"] else "not connected now; its session is kept by"
            queue = f", {row['queued']} deliveries wait for it" if row["queued"] else ""
            found.lines.append(f"it is {state} {broker}{queue}")


def _list_clients(found: _Explanation, clients: Answers) -> None:
    """Add that there is no such client, and list the clients there are."""
    names = sorted({row["client"] for answer in clients.reports.values() for row in answer["clients"]})
    shown = ", ".join(names[:_SHOWN_MAX]) or "none"
    found.fails(
        f"no broker has a client with this name; known clients: {shown}{' and more' * (len(names) > _SHOWN_MAX)}"
    )


def _judge_subscriptions(found: _Explanation, tables: Answers) -> None:
    for broker in found.hosts:
        rows = tables.reports.get(broker, {}).get("subscriptions", [])
        found.subscriptions += [{"broker": broker, **row} for row in rows if row["client"] == found.client]
    if found.hosts and not found.subscriptions:
        found.fails("it has no subscriptions")
    found.subscriptions.sort(key=lambda row: not row["matches"])
    for row in found.subscriptions[:_SHOWN_MAX]:
        found.lines.append(f"subscription ({row['filter']}): {'matches' if row['matches'] else 'does not match'}")
        found.lines += [f"  {why}" for why in row["why"]]
    _add_rest(found, "subscriptions", sum(_totals(tables, "total", "subscriptions", found.hosts)))
    if found.subscriptions and not any(row["matches"] for row in found.subscriptions):
        found.fails("no subscription matches")


def _judge_advertisements(found: _Explanation, tables: Answers) -> None:
    for broker, answer in tables.reports.items():
        found.advertisements += [{"broker": broker, **row} for row in answer["advertisements"] if row["client"]]
    allowed = [row for row in found.advertisements if row["matches"]]
    if not found.advertisements:
        found.fails("no client has advertised anything: a publisher must advertise before it publishes")
    elif not allowed:
        found.fails("no advertisement allows it, so its publisher is refused:")
        found.lines += [
            f"  {row['client']} at {row['broker']}: {row['why'][0]}" for row in found.advertisements[:_SHOWN_MAX]
        ]
        _add_rest(found, "advertisements", sum(_totals(tables, "total", "advertisements", tables.reports)))
    for row in allowed[:_SHOWN_MAX]:
        found.lines.append(f"{row['client']} at {row['broker']} may publish it ({row['filter']})")
        found.lines += [f"  {each}" for each in _routing_obstacles(found, row)]
    if allowed:
        _add_rest(found, "advertisements", sum(_totals(tables, "matching", "advertisements", tables.reports)))


def _totals(tables: Answers, key: str, table: str, brokers: Iterable[str]) -> Iterator[int]:
    """Yield the number of rows of a table at each broker, also of those that are not in its answer."""
    for broker in brokers:
        yield tables.reports.get(broker, {}).get(key, {}).get(table, 0)


def _add_rest(found: _Explanation, what: str, total: int) -> None:
    """Add how many rows are not shown."""
    if total > _SHOWN_MAX:
        found.lines.append(f"and {total - _SHOWN_MAX:,} more {what}")


def _routing_obstacles(found: _Explanation, row: dict[str, Any]) -> list[str]:
    """Return why publications under an advertisement do not reach the clusters of the client."""
    if row["civ"] is None:
        return []
    home = _cluster(row["broker"])
    doubts = []
    for cluster in sorted({_cluster(host) for host in found.hosts}):
        if cluster == home or cluster in row["civ"]:
            continue
        if cluster in row["pending"]:
            doubts.append(f"{row['broker']} does not know yet whether cluster {cluster} wants it, and sends it there")
        else:
            doubts.append(f"{row['broker']} sends nothing to cluster {cluster}: no subscription there intersects")
    return doubts


def _add_troubles(found: _Explanation, status: Answers) -> None:
    """Add everything that may delay or lose publications: brokers that do not run, links that are down, and losses."""
    found.lines += [f"{broker}: {problem}" for broker, problem in status.problems.items()]
    for row in link_rows(status.reports):
        if row["state"] != "up":
            found.lines.append(f"the link from {row['from']} to {row['to']} is {row['state']}")
    for broker, report in status.reports.items():
        causes = ", ".join(sorted(report["losses"]))
        if causes:
            found.lines.append(f"{broker} has lost publications since it started: {causes}")


def _cluster(broker: str) -> int:
    return int(broker.rpartition(".")[2])
