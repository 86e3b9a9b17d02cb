"""``octopia pub``: publish from a terminal."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from octopia.cli.contexts import find_for_client
from octopia.cli.lazy import examples
from octopia.cli.offers import advertise_for, offer_of
from octopia.cli.options import AsJson, Broker, ClientName, Count, Offer, Rate, Timeout, Url
from octopia.cli.sessions import connected, waiting_for
from octopia.cli.values import read_attributes, read_line
from octopia.client import Client
from octopia.client.operators import are_wanted
from octopia.content import Publication, Value
from octopia.content.filters import Disjunction
from octopia.errors import InvalidPublication, OctopiaError, RequestRefused, UsageError
from octopia.transport.loop import run_loop

_CHUNK_BYTES = 64 * 1024
_CHUNKS_MAX = 16
"""The number of chunks of input that are read ahead."""
_ASK_S = 1.0
"""The time limit for asking the brokers whether subscriptions match what was published."""
_CHECKED_MAX = 1_000
"""The number of lines, the last of the input, that the brokers are asked about."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of publishing.

    The brokers are asked about the last publications, ``checked`` of them: ``unwanted`` is the number of those that no
    subscription matches, and ``wanted`` is whether one matches any. Both are None if the brokers could not be asked.
    """

    accepted: int
    seconds: float
    checked: int = 0
    unwanted: int | None = None

    @property
    def wanted(self) -> bool | None:
        return None if self.unwanted is None else self.unwanted < self.checked

    @property
    def remark(self) -> str:
        """The end of a sentence about publications that nobody wants; empty if there are none."""
        if not self.unwanted:
            return ""
        if self.checked < self.accepted:
            return f"; no subscription matches {self.unwanted:,} of the last {self.checked:,} now"
        if self.unwanted < self.checked:
            return f"; no subscription matches {self.unwanted:,} of them now"
        return f"; no subscription matches {'it' if self.checked == 1 else 'them'} now"


@examples(
    "octopia pub symbol=IBM price=101.5",
    "octopia pub zip:str=01234 n:int=7 -b lon.0",
    'octopia pub symbol=IBM price=101.5 --payload "as of noon" --count 100 --rate 20',
    "octopia pub kind=photo --payload-file photo.jpg",
    "cat bars.jsonl | octopia pub --stdin --url octopia://127.0.0.1:7403",
)
def pub(
    attributes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="Attributes. A value is a number such as -3, 101.5 or 1e6, or true or false. Everything else is text, "
            "including 007: a number has no leading zeros. Single quotes make any value text: code=\"'7'\". "
            "NAME:TYPE=VALUE has the type str, int, float or bool: zip:str=01234.",
        ),
    ] = None,
    payload: Annotated[str, typer.Option(help="Text that travels with the attributes; - reads bytes from stdin.")] = "",
    payload_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File whose bytes travel with the attributes.")
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option("--stdin", help="Publish each line of stdin as it comes: a JSON object, or NAME=VALUE..."),
    ] = False,
    count: Count = 1,
    rate: Rate = 0.0,
    advertise: Offer = None,
    url: Url = None,
    broker: Broker = None,
    name: ClientName = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Publish from the command line.

    It advertises first, publishes, and returns when the broker has accepted everything. On the broker's machine, and
    anywhere with a token, it also says if no subscription matches the publication now. With --stdin it says how many of
    the last 1,000 lines no subscription matches.
    """
    if stdin == bool(attributes):
        raise UsageError("expected either NAME=VALUE... or --stdin, got " + ("both" if stdin else "neither"))
    if stdin and count != 1:
        raise UsageError("expected --count with NAME=VALUE..., got it with --stdin, which publishes every line once")
    task = _Task(_read_payload(payload, payload_file, stdin=stdin), advertise, rate or 0.0, timeout, name)
    if stdin:
        work = task.stream(sys.stdin.buffer, url, broker)
    else:
        work = task.repeat(Publication(read_attributes(attributes or ()), task.payload), count or 1, url, broker)
    outcome = run_loop(work)
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(outcome), "wanted": outcome.wanted}))
        return
    typer.echo(f"{outcome.accepted} accepted in {outcome.seconds:.3f} s{outcome.remark}")


def _read_payload(text: str, file: Path | None, *, stdin: bool) -> bytes:
    if text and file is not None:
        raise UsageError("expected --payload or --payload-file, got both")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            raise UsageError(f"expected a readable file at {file}, got: {error.strerror}") from None
    if text != "-":
        return text.encode()
    if stdin:
        raise UsageError("expected --payload - or --stdin, got both: stdin can be read once")
    return sys.stdin.buffer.read()


@dataclasses.dataclass(frozen=True, slots=True)
class _Task:
    """The options of one call that say how to publish."""

    payload: bytes
    advertise: str | None
    rate: float
    timeout: float | None
    name: str | None

    async def repeat(self, publication: Publication, count: int, url: str | None, broker: str | None) -> _Outcome:
        """Publish the same publication a number of times."""
        async with connected(url, broker, self.timeout, self.name) as client:
            await self._advertise_for(client, publication)
            begin = time.perf_counter()
            if count == 1:
                async with waiting_for(f"{client.broker} to accept the publication"):
                    await client.publish(publication, timeout=self.timeout)
            elif self.rate:
                await self._publish_slowly(client, publication, count)
            else:
                await client.publish_many([publication] * count, timeout=self.timeout)
            seconds = time.perf_counter() - begin
            unwanted = await _count_unwanted(client, [publication.attributes], url, broker)
            return _Outcome(count, seconds, count, None if unwanted is None else count * unwanted)

    async def stream(self, lines: BinaryIO, url: str | None, broker: str | None) -> _Outcome:
        """Publish each line as it comes."""
        async with connected(url, broker, self.timeout, self.name) as client:
            if self.advertise:
                await self._advertise(client, self.advertise)
            begin = time.perf_counter()
            last: deque[Mapping[str, Value]] = deque(maxlen=_CHECKED_MAX)
            accepted = await client.publish_many(self._each(client, _lines_of(lines), last))
            seconds = time.perf_counter() - begin
            return _Outcome(accepted, seconds, len(last), await _count_unwanted(client, last, url, broker))

    async def _each(
        self, client: Client, lines: AsyncIterator[tuple[int, str]], last: deque[Mapping[str, Value]]
    ) -> AsyncIterator[Publication]:
        """Yield the publications of lines, each after an advertisement of its attributes, and at the rate."""
        advertised: set[tuple[str, ...]] = set()
        loop = asyncio.get_running_loop()
        begin, done = loop.time(), 0
        async for number, line in lines:
            try:
                publication = read_line(number, line, self.payload)
            except InvalidPublication as error:
                raise InvalidPublication(f"{error} ({done} published before it)") from None
            names = tuple(sorted(publication.attributes))
            if not self.advertise and names not in advertised:
                advertised.add(names)
                try:
                    await self._advertise(client, offer_of(publication))
                except RequestRefused as error:
                    raise RequestRefused(f"{error}: give another one with --advertise") from None
            if self.rate:
                await asyncio.sleep(max(0.0, begin + done / self.rate - loop.time()))
            last.append(publication.attributes)
            yield publication
            done += 1

    async def _advertise_for(self, client: Client, publication: Publication) -> None:
        """Advertise what was asked for, or the attributes of a publication."""
        if self.advertise:
            await self._advertise(client, self.advertise)
            return
        async with waiting_for(_confirmation(client)):
            await advertise_for(client, publication, self.timeout)

    async def _advertise(self, client: Client, offer: str | Disjunction) -> None:
        async with waiting_for(_confirmation(client)):
            await client.advertise(offer, timeout=self.timeout)

    async def _publish_slowly(self, client: Client, publication: Publication, count: int) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for number in range(count):
            await asyncio.sleep(max(0.0, begin + number / self.rate - loop.time()))
            await client.publish(publication, timeout=self.timeout)


def _confirmation(client: Client) -> str:
    return f"{client.broker} to confirm the advertisement"


async def _count_unwanted(
    client: Client, publications: Collection[Mapping[str, Value]], url: str | None, broker: str | None
) -> int | None:
    """Return how many publications no subscription matches now, or None if the brokers do not answer."""
    if not publications:
        return None
    try:
        async with asyncio.timeout(_ASK_S):
            entry = await find_for_client(url, broker)
            answers = [] if entry is None else await are_wanted(entry, client.broker, list(publications))
    except (OctopiaError, TimeoutError):
        return None
    return None if None in answers or not answers else answers.count(False)


async def _lines_of(stream: BinaryIO) -> AsyncIterator[tuple[int, str]]:
    """Yield the lines of a stream with their numbers, as they come, without the empty ones."""
    rest, number = b"", 0
    async for chunk in _chunks_of(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, _decoded(number, line)
    if rest.strip():
        yield number + 1, _decoded(number + 1, rest)


def _decoded(number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InvalidPublication(f"line {number}: expected UTF-8, got the byte {line[error.start]:#04x}") from None


async def _chunks_of(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yield what can be read, in a thread: a file, a pipe and a terminal block in different ways."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_MAX)

    # Not through the buffer, whose lock this thread would hold when the interpreter exits, and which makes it abort.
    source = getattr(stream, "raw", stream)

    def read() -> None:
        is_over = False
        while not is_over:
            room.acquire()
            chunk: bytes | OSError
            try:
                chunk = source.read(_CHUNK_BYTES)
            except OSError as error:
                chunk = error
            is_over = not chunk or isinstance(chunk, OSError)
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            except RuntimeError:  # The loop is closed.
                return

    threading.Thread(target=read, name="octopia-stdin", daemon=True).start()
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise UsageError(f"expected input that can be read, got: {chunk.strerror or chunk}")
        room.release()
        yield chunk
