"""A run on real brokers: the workload's clients connect, subscribe, and publish by the clock.

All clients share this process, so delays are measured with one clock. The trace has the publications that brokers
accepted and the deliveries to clients, as the audit needs them. It ends with the totals of messages and tables that the
brokers report. A broker may be killed in the middle of a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from octopia.addresses import Address
from octopia.broker.interface import Event
from octopia.client import Client, Received, connect
from octopia.client.operators import ask
from octopia.content import Publication
from octopia.errors import NetworkError, OctopiaError
from octopia.ids import BrokerId, LinkKind
from octopia.protocol import Command, MessageKind, Verb
from octopia.trace import Row, TraceSink
from octopia.workloads.outages import Outage, split
from octopia.workloads.workload import Issued, Timed, Workload

AT_ONCE = 50
"""The number of clients that connect at the same time."""
POLL_S = 0.2
NOTICE_POLL_S = 0.01
"""The interval at which neighbours of a dead broker are asked whether they have noticed."""
NOTICE_S = 60.0
"""The longest wait for the neighbours of a dead broker to notice."""
QUIET_S = 1.0
"""A run is over once queues are empty and nothing has arrived for this long."""
PATIENCE_S = 600.0
"""The longest wait for deliveries after the last publication."""

_Result = TypeVar("_Result")
OnProgress = Callable[[int, int], None]
"""Takes the numbers of publications accepted and of deliveries received so far."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """The number of publications to send (0 for all), and the factor by which time is sped up."""

    first: int = 0
    speed: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """The results of a run; ``unsent`` publications had a publisher whose broker was killed.

    Publishing continued at ``killed_ms``, when its neighbours had noticed, ``noticed_ms`` after the kill.
    """

    publications: int
    deliveries: int
    seconds: float
    reports: dict[str, dict[str, Any]]
    at_begin: dict[str, dict[str, Any]]
    """The reports of the brokers before the first publication."""
    unsent: int = 0
    killed_ms: float | None = None
    noticed_ms: float | None = None


async def play_on_network(
    workload: Workload,
    addresses: Mapping[BrokerId, Address],
    writer: NetworkTrace,
    pace: Pace,
    on_progress: OnProgress,
    outage: Outage | None = None,
    kill: Callable[[BrokerId], None] | None = None,
) -> Played:
    """Run a workload on brokers that listen at these addresses; return when everything has arrived.

    With an outage, ``kill`` kills its broker.
    """
    parts = split(workload, pace.first, outage)
    killed_ms: float | None = None
    noticed_ms: float | None = None
    async with contextlib.AsyncExitStack() as stack:
        publishers = await _enter(stack, workload.advertisements, addresses, _advertise)
        await _enter(stack, workload.subscriptions, addresses, functools.partial(_subscribe, writer))
        hosts = {each.client: str(each.broker) for each in workload.advertisements}
        at_begin = await _reports(addresses)
        begin = writer.begin()
        reporting = asyncio.create_task(_report(writer, on_progress))

        async def publish(timed: Sequence[Timed], begin: float) -> None:
            by_publisher: dict[str, list[Timed]] = {}
            for each in timed:
                by_publisher.setdefault(each.publisher, []).append(each)
            await _all(
                _publish(publishers[name], hosts[name], own, writer, begin, pace.speed)
                for name, own in by_publisher.items()
            )

        try:
            await publish(parts.before, begin)
            reports = await _quiescence(writer, addresses)
            if outage is not None and kill is not None:
                killed = time.perf_counter()
                kill(outage.broker)
                neighbours = workload.scot.neighbourhood(outage.broker).neighbours
                await _noticed({each: addresses[each] for each in neighbours}, outage.broker)
                noticed_ms = (time.perf_counter() - killed) * 1000.0
                killed_ms = (time.perf_counter() - begin) * 1000.0
                left = {broker: address for broker, address in addresses.items() if broker != outage.broker}
                await publish(parts.after, time.perf_counter() - outage.at_ms / 1000.0 / pace.speed)
                reports |= await _quiescence(writer, left)
        finally:
            reporting.cancel()
        on_progress(writer.publications, writer.deliveries)
        writer.finish(reports)
        seconds = writer.last_s - begin
        counts = writer.publications, writer.deliveries
        return Played(*counts, seconds, reports, at_begin, parts.unsent, killed_ms, noticed_ms)


class NetworkTrace:
    """Writes the rows of a run on the network; time 0 is when publishing begins."""

    def __init__(self, run_id: str, algorithm: str, sinks: Sequence[TraceSink]):
        self._run_id = run_id
        self._algorithm = algorithm
        self._sinks = sinks
        self._begin_ms = 0.0
        self.publications = 0
        self.deliveries = 0
        self.last_s = 0.0

    def begin(self) -> float:
        """Set time 0 to now, and return it by the monotonic clock."""
        self._begin_ms = time.time() * 1000.0
        self.last_s = time.perf_counter()
        return self.last_s

    def accepted(self, timed: Timed, broker: str, published_ms: float) -> None:
        """Record a publication that its host broker has accepted."""
        self.publications += 1
        row = self._client_row(Event.RECEIVE, broker, timed.publisher, published_ms, published_ms)
        row.publication, row.hop = timed.number, 0
        self._write(row)

    def delivered(self, issued: Issued, received: Received) -> None:
        """Record a delivery."""
        self.deliveries += 1
        self.last_s = time.perf_counter()
        broker, published_ms = str(issued.broker), received.published_ms
        row = self._client_row(Event.DELIVER, broker, issued.client, published_ms, received.received_ms)
        row.message_id, row.subscription, row.hop = str(received.id), issued.id, received.hops
        row.publication = int.from_bytes(received.payload, "big")
        self._write(row)

    def finish(self, reports: Mapping[str, dict[str, Any]]) -> None:
        """Write the totals that brokers report: messages by kind, and table sizes."""
        now_ms = time.time() * 1000.0 - self._begin_ms
        for broker, report in reports.items():
            for event, totals in ((Event.TABLE, report["tables"]), (Event.SEND, report["sent"])):
                for kind, value in totals.items():
                    if value:
                        row = self._row(event, broker, now_ms)
                        row.kind, row.value = kind, value
                        self._write(row)

    def _client_row(self, event: Event, broker: str, client: str, published_ms: float, now_ms: float) -> Row:
        """Return a row about a publication that crosses a client's link; times are those of the wall clock."""
        row = self._row(event, broker, now_ms - self._begin_ms)
        row.kind, row.link, row.peer, row.client = MessageKind.PUBLICATION, LinkKind.CLIENT, client, client
        row.published_ms = published_ms - self._begin_ms
        return row

    def _row(self, event: Event, broker: str, time_ms: float) -> Row:
        return Row(run_id=self._run_id, algorithm=self._algorithm, event=event, broker=broker, time_ms=time_ms)

    def _write(self, row: Row) -> None:
        for sink in self._sinks:
            sink.write(row)


async def _all(works: Iterable[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Return the results of all; if one fails, cancel the others, wait for their end, and raise its error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _enter(
    stack: contextlib.AsyncExitStack,
    issued: Sequence[Issued],
    addresses: Mapping[BrokerId, Address],
    issue: Callable[[Client, Issued], Any],
) -> dict[str, Client]:
    """Connect clients, ``AT_ONCE`` at a time, and issue the advertisement or subscription of each."""
    clients: dict[str, Client] = {}
    gate = asyncio.Semaphore(AT_ONCE)

    async def enter(each: Issued) -> None:
        async with gate:
            url = f"octopia://{addresses[each.broker]}/{each.broker}"
            clients[each.client] = await stack.enter_async_context(connect(url, name=each.client))
            await issue(clients[each.client], each)

    await _all(enter(each) for each in issued)
    return clients


async def _advertise(client: Client, issued: Issued) -> None:
    await client.advertise(issued.filter)


async def _subscribe(writer: NetworkTrace, client: Client, issued: Issued) -> None:
    await client.subscribe(issued.filter, callback=functools.partial(writer.delivered, issued))


async def _publish(
    client: Client, host: str, timed: Sequence[Timed], writer: NetworkTrace, begin: float, speed: float
) -> None:
    sent_ms: list[float] = []

    async def paced() -> AsyncIterator[Publication]:
        for each in timed:
            wait_s = begin + each.at_ms / 1000.0 / speed - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            sent_ms.append(time.time() * 1000.0)
            yield each.publication

    try:
        await client.publish_many(paced())
    except OctopiaError as error:
        raise NetworkError(f"a publication of {timed[0].publisher} was not accepted: {error}") from error
    for each, published_ms in zip(timed, sent_ms, strict=True):
        writer.accepted(each, host, published_ms)


async def _report(writer: NetworkTrace, on_progress: OnProgress) -> None:
    while True:
        on_progress(writer.publications, writer.deliveries)
        await asyncio.sleep(POLL_S)


async def _reports(addresses: Mapping[BrokerId, Address]) -> dict[str, dict[str, Any]]:
    reports = await _all(ask(address, Command(Verb.REPORT)) for address in addresses.values())
    return {str(broker): report for broker, (report,) in zip(addresses, reports, strict=True)}


async def _noticed(addresses: Mapping[BrokerId, Address], dead: BrokerId) -> None:
    """Wait until none of these brokers, the neighbours of a dead one, has a link to it."""
    deadline = time.perf_counter() + NOTICE_S
    while any(
        link["up"] for report in (await _reports(addresses)).values() for peer, link in report["links"].items()
        if peer == str(dead)
    ):  # fmt: skip
        if time.perf_counter() > deadline:
            raise NetworkError(f"a neighbour of {dead} still has a link to it {NOTICE_S:g} s after it was killed")
        await asyncio.sleep(NOTICE_POLL_S)


async def _quiescence(writer: NetworkTrace, addresses: Mapping[BrokerId, Address]) -> dict[str, dict[str, Any]]:
    """Wait until queues between these brokers are empty and nothing arrives any more; return their reports."""
    deadline = time.perf_counter() + PATIENCE_S
    while True:
        by_broker = await _reports(addresses)
        waiting = sum(
            link["queue"]
            for report in by_broker.values()
            for peer, link in report["links"].items()
            if peer in by_broker
        )
        now = time.perf_counter()
        if not waiting and now - writer.last_s > QUIET_S:
            return by_broker
        if now > deadline:
            raise NetworkError(f"{waiting} publications are still queued {PATIENCE_S:g} s after the last one was sent")
        await asyncio.sleep(POLL_S)
