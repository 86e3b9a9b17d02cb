"""Dispatching: a client that publishes the rows of an outbox, each once.

Theory of operation
-------------------

The number of a row is its sequence as a producer. After a crash of this program, or if the broker has forgotten its
session, the broker reports the last row that it has received. It has all rows before that one, since the client of a
producer ends rather than publish after a row with an unknown outcome. The broker drops rows that are sent again.

A broker that was restarted has another incarnation, and remembers nothing. Rows are then published again, starting with
the first row not recorded as accepted, under a new *generation* of the producer. Acceptance is noted on disk after each
chunk, and up to the last acknowledged row when the connection ends. So only rows that were sent and not acknowledged
when the broker died may be published twice; they are counted as *uncertain*. If this program dies together with the
broker, these are the rows of one chunk at most.

The broker can be ahead of what is noted here by one chunk at most. If it is further ahead, or has received more rows
than the outbox has had, the outbox is a copy or an old state, whose next rows the broker would drop as repeated ones.
That is an error.

A row that the broker refuses is not sent again, since the broker counts it as received. It is kept in a file with the
reason, and dispatching ends, so that a wrong advertisement does not use up all rows. The client reports the number of
refused rows, but only the index of the first. The others are found by comparing rows with the advertisement. If that
does not explain all, every row of the chunk from the first on is kept, as not ``certain``.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec
import pyarrow as pa

from octopia.client import Client, connect
from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, Value, conforms
from octopia.errors import DamagedData, NetworkError, OutcomeUnknown, RequestRefused, Unavailable, UsageError
from octopia.records.files import lock_folder, write_whole
from octopia.records.outgoing import Manifest, Outgoing

_PUBLISHING = "publishing"
_PUBLISHED = "published.json"
REFUSED = "refused.jsonl"
"""The file in an outbox with the rows that a broker has refused."""
CHUNK = 1_000
"""The number of rows that are published before their acceptance is noted."""
POLL_S = 0.1
"""The interval at which new batches are looked for."""
_AGAIN_S = 0.5
_LAST_S = 5.0
"""The time for publishing the current rows after dispatching is stopped."""

_ITEM = re.compile(r"item (\d+): ")
"""The beginning of an error about one item of many, with its index."""

_decode = msgspec.msgpack.Decoder(dict[str, bool | int | float | str]).decode


class Published(msgspec.Struct, frozen=True):
    """The progress of an outbox.

    The broker has accepted all rows before ``row``. The rows from ``base`` on were published under ``generation``, at
    an incarnation of ``broker``. If it is not ``exact``, the next rows, one chunk at most, may have been sent.
    """

    row: int = 0
    base: int = 0
    generation: int = 0
    broker: str = ""
    incarnation: int = 0
    exact: bool = True


class RefusedRow(msgspec.Struct, frozen=True):
    """A row that a broker has refused; if it is not ``certain``, it may be accepted, and another one refused."""

    row: int
    reason: str
    certain: bool
    attributes: dict[str, Value]
    payload: bytes


@dataclasses.dataclass(slots=True)
class Dispatched:
    """The progress of dispatching.

    ``repeated`` rows were sent to the broker again and dropped there; ``uncertain`` rows were published again after
    the loss of a broker that may have received them. ``refused`` rows are kept in the outbox; ``reason`` is that of the
    first one.
    """

    rows: int = 0
    published: int = 0
    waiting: int = 0
    repeated: int = 0
    uncertain: int = 0
    refused: int = 0
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatching:
    """The settings of an outbox; ``until_empty`` ends when no row waits, ``moves`` allows a different broker.

    ``offer`` is the advertisement; by default, the attributes of each row are advertised, with any value.
    """

    folder: Path
    until_empty: bool = False
    moves: bool = False
    name: str | None = None
    timeout_s: float = 5.0
    offer: Disjunction | None = None


async def dispatch(
    url: str | Sequence[str] | None,
    wanted: Dispatching,
    stop: asyncio.Event,
    on_progress: Callable[[Dispatched], object] = lambda _: None,
) -> Dispatched:
    """Publish until ``stop`` is set, or until nothing waits; raise Unavailable if no broker answers at first."""
    with _Dispatcher(wanted, stop, on_progress) as dispatcher:
        while not stop.is_set():
            try:
                async with connect(url, name=wanted.name, timeout=wanted.timeout_s) as client:
                    await dispatcher.begin(client)
                    await _until(stop, dispatcher.publish_all(client))
                    break
            except NetworkError:
                if not dispatcher.has_begun:
                    raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await stop.wait()
        return dispatcher.state


async def _until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Run until done or stopped; after ``stop``, wait a short time only, since the broker may not answer."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([working], timeout=_LAST_S)
        if working.done():
            working.result()
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.wait([working, stopping])


class _Dispatcher:
    """The rows of an outbox on their way to a broker."""

    def __init__(self, wanted: Dispatching, stop: asyncio.Event, on_progress: Callable[[Dispatched], object]):
        self._outgoing = Outgoing(wanted.folder)
        self._wanted = wanted
        self._stop = stop
        self._on_progress = on_progress
        self._folder = wanted.folder / _PUBLISHING
        self._unknown = 0
        self.has_begun = False
        self.state = Dispatched()

    def __enter__(self) -> _Dispatcher:
        self._lock = lock_folder(self._folder, "an outbox")
        try:
            self._published = self._read()
            self._unknown = 0 if self._published.exact else CHUNK
            self._outgoing.remove_orphans()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self._unknown:
                self._note(msgspec.structs.replace(self._published, exact=True))
        except OSError:
            if error is None:
                raise  # Otherwise the first error is the one to show.
        finally:
            self._lock.close()

    async def begin(self, client: Client) -> None:
        """Ask the broker which rows it has received."""
        known, broker = self._published, client.broker
        if not broker:
            raise Unavailable("the connection broke before anything was published")
        if known.broker not in ("", broker) and not self._wanted.moves:
            raise UsageError(
                f"expected the broker {known.broker}, which knows what was published from {self._wanted.folder}, got "
                f"{broker}: connect to {known.broker}, or use --move to publish from row {known.row:,} on here"
            )
        if (known.broker, known.incarnation) not in (("", 0), (broker, client.broker_incarnation)):
            self._begin_generation()
        known = self._published
        had = known.base + await client.produce_as(f"{self._outgoing.producer}-{known.generation}")
        self._check_progress(had)
        self.has_begun = True
        if had < known.row:
            self._begin_generation()
            raise OutcomeUnknown(
                f"expected a broker that has received {known.row:,} rows, got one that has received {had:,}"
            )
        self._unknown = 0
        self._note(Published(had, known.base, known.generation, broker, client.broker_incarnation, exact=False))

    def _check_progress(self, had: int) -> None:
        """Raise an error if a broker has received rows that this outbox has never had."""
        known, end = self._published.row, self._outgoing.last().end
        if max(known, had) > end or had > known + CHUNK:
            raise DamagedData(
                f"expected a broker that has received at most {min(end, known + CHUNK):,} rows of "
                f"{self._wanted.folder}, got {max(known, had):,}: the outbox is a copy, or was restored from a backup, "
                "and the broker would drop its next rows; write them into a new outbox"
            )

    def _begin_generation(self) -> None:
        """Number rows starting with the first one not recorded as accepted."""
        known = self._published
        waiting = self._outgoing.last().end - known.row
        self.state.uncertain += min(self._unknown, waiting)
        self._unknown = 0
        self._note(Published(known.row, known.row, known.generation + 1, known.broker, known.incarnation))

    async def publish_all(self, client: Client) -> None:
        """Publish rows as they come."""
        advertiser = Advertiser(client, self._wanted.offer)
        while not self._stop.is_set():
            row = self._published.row
            waiting = [each for each in self._outgoing.manifests(row) if each.end > row]
            for manifest in waiting:
                await self._publish(client, manifest, advertiser, waiting[-1].end)
                if self._stop.is_set():
                    break
            self._outgoing.forget(self._published.row)
            if not waiting:
                if self._wanted.until_empty:
                    return
                await self._wait_for_batches()

    async def _wait_for_batches(self) -> None:
        """Return when there is a new batch, or when dispatching is stopped."""
        while not self._stop.is_set() and not self._outgoing.has_batch_from(self._published.row):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._stop.wait()

    async def _publish(self, client: Client, manifest: Manifest, advertiser: Advertiser, end: int) -> None:
        """Publish the rows of a batch; ``end`` is the number after the last row of all batches."""
        known = self._published
        if manifest.first > known.row:
            raise DamagedData(
                f"expected the row {known.row:,} in {self._wanted.folder}, got none before {manifest.first:,}: "
                "a batch was removed; restore it"
            )
        for chunk in _publications(self._outgoing.read(manifest, known.row)):
            for each in chunk:
                await advertiser.advertise(each)
            try:
                await self._publish_chunk(client, chunk)
            finally:
                self.state.waiting = end - self._published.row
                self._on_progress(self.state)
            if self._stop.is_set():
                return

    async def _publish_chunk(self, client: Client, chunk: Sequence[Publication]) -> None:
        """Publish rows, and note how many of them the broker has received, even if not all are."""
        accepted, repeated, refused = client.accepted, client.repeated, 0
        try:
            await client.publish_many(chunk)
        except RequestRefused as error:
            failed = len(chunk) - (client.accepted - accepted)
            self._keep_refused(chunk, failed, str(error))
            if not client.is_connected:  # Some rows may not be refused, but lost with the connection.
                self._unknown = failed
                raise OutcomeUnknown(str(error)) from None
            refused = failed
            raise RequestRefused(
                f"expected a broker that accepts all rows, got {refused:,} refused: {self.state.reason}; they are kept "
                f"in {self._wanted.folder / REFUSED}; start again to publish the rows after them"
            ) from None
        except (OutcomeUnknown, asyncio.CancelledError):
            self._unknown = len(chunk) - (client.accepted - accepted)
            raise
        finally:
            rows = client.accepted - accepted
            unknown, self._unknown = self._unknown, CHUNK
            self._note(msgspec.structs.replace(self._published, row=self._published.row + rows + refused))
            self._unknown = unknown  # Only if the rows could be noted.
            self.state.rows += rows
            self.state.repeated += client.repeated - repeated

    def _keep_refused(self, chunk: Sequence[Publication], count: int, error: str) -> None:
        """Write refused rows to a file, and wait until they are durable."""
        found = _ITEM.match(error)
        first, reason = (int(found[1]), error[found.end() :]) if found else (0, error)
        offer = self._wanted.offer
        rows = [number for number, each in enumerate(chunk) if offer is not None and not conforms(offer, each)]
        if count == 1:
            rows = [first]
        elif len(rows) != count:
            rows = list(range(first, len(chunk)))
        is_certain = len(rows) == count
        with (self._wanted.folder / REFUSED).open("ab") as file:
            for number in rows:
                attributes, payload = dict(chunk[number].attributes), chunk[number].payload
                kept = RefusedRow(self._published.row + number, reason, is_certain, attributes, payload)
                file.write(msgspec.json.encode(kept) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.state.refused += count
        self.state.reason = self.state.reason or reason

    def _read(self) -> Published:
        try:
            return msgspec.json.decode((self._folder / _PUBLISHED).read_bytes(), type=Published)
        except FileNotFoundError:
            return Published()
        except msgspec.DecodeError:
            raise DamagedData(
                f"expected a number of rows in {self._folder / _PUBLISHED}, got something else: restore it"
            ) from None

    def _note(self, published: Published) -> None:
        if published != self._published:
            write_whole(self._folder / _PUBLISHED, msgspec.json.encode(published))
            self._published = published
        self.state.published = published.row


def _publications(batches: Iterator[pa.RecordBatch]) -> Iterator[list[Publication]]:
    for batch in batches:
        for at in range(0, batch.num_rows, CHUNK):
            part = batch.slice(at, CHUNK)
            pairs = zip(part.column("attributes").to_pylist(), part.column("payload").to_pylist(), strict=True)
            yield [Publication(_decode(attributes), payload) for attributes, payload in pairs]


class Advertiser:
    """Advertises ``offer``, or the attributes of publications, with any value, before the first one that has them."""

    def __init__(self, client: Client, offer: Disjunction | None = None):
        self._client = client
        self._offer = offer
        self._advertised: set[tuple[str, ...]] = set()

    async def advertise(self, publication: Publication) -> None:
        """Return when a publication can be published."""
        names = () if self._offer is not None else tuple(sorted(publication.attributes))
        if names not in self._advertised:
            self._advertised.add(names)
            try:
                await self._client.advertise(self._offer or _offer(names), ordered=True)
            except RequestRefused as error:
                raise RequestRefused(f"{error}: name what to advertise with --advertise") from None


def _offer(names: Sequence[str]) -> Disjunction:
    """Return an advertisement of attributes with any value."""
    return Disjunction((Filter(tuple(Predicate(name, Operator.EXISTS) for name in names)),))
