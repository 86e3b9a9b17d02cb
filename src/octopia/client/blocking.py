"""The client for programs without an event loop: the same calls, each of which blocks until it is done.

The client runs in a separate thread. It may be used and closed from several other threads at once. Callbacks run in
the client's thread and must not call the client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from octopia.client.buffer import Notice
from octopia.client.callbacks import Callback
from octopia.client.client import BUFFER, CONNECT_S, DRAIN_S, Client, ConnectContext, connect
from octopia.client.credentials import TokenSource
from octopia.client.publishable import Attributes, Publishable
from octopia.client.received import Received
from octopia.client.subscriptions import Advertisement, Subscription, has_ended, nothing_came
from octopia.client.tracing import Tracing
from octopia.content import Disjunction as Filter  # As programs know it.
from octopia.content import Publication
from octopia.errors import NotConfirmed, OctopiaError, UsageError
from octopia.protocol import Overflow
from octopia.protocol.messages import Gap

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="octopia-client", daemon=True)
        self._submitting = threading.Lock()
        self.is_stopped = False
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and wait for its result."""
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError("expected a blocking call outside the client's own thread, got one from a callback")
        # A coroutine that is submitted after stop() would never run, nor be cancelled.
        with self._submitting:
            if self.is_stopped:
                work.close()
                raise UsageError("expected an open client, got one that was closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise UsageError("expected an open client, got one that was closed during the call") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread; calls that wait raise UsageError."""
        with self._submitting:
            self.is_stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


def connect_blocking(
    url: str | Sequence[str] | None = None,
    *,
    name: str | None = None,
    overflow: Overflow | str = Overflow.DISCONNECT,
    resume: str | None = None,
    token: TokenSource | None = None,
    ca: str | Path | None = None,
    tracing: Tracing | None = None,
    timeout: float = CONNECT_S,
    on_disconnect: Callable[[OctopiaError | None], object] | None = None,
    on_reconnect: Callable[[], object] | None = None,
    on_error: Callable[[OctopiaError], object] | None = None,
) -> BlockingClient:
    """Connect, and return a client for programs without an event loop; the arguments are those of ``connect``."""
    context = connect(
        url,
        name=name,
        overflow=overflow,
        resume=resume,
        token=token,
        ca=ca,
        tracing=tracing,
        timeout=timeout,
        on_disconnect=on_disconnect,
        on_reconnect=on_reconnect,
        on_error=on_error,
    )
    loop = _Loop()
    try:
        return BlockingClient(loop.call(_opened(context)), loop)
    except BaseException:
        loop.stop()
        raise


async def _opened(context: ConnectContext) -> Client:
    return await context


class BlockingClient:
    """An open connection to an overlay whose calls block, made with ``octopia.connect_blocking``.

    At the end, call ``close()``, or use the client in a ``with`` block.
    """

    def __init__(self, client: Client, loop: _Loop):
        self._client = client
        self._loop = loop
        self._closing = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(timeout=DRAIN_S if error is None else 0.0)

    def close(self, timeout: float = DRAIN_S, *, keep: bool = False) -> None:
        """Wait up to ``timeout`` seconds for what was published to be acknowledged, then disconnect.

        For ``keep`` see ``Client.close``.
        """
        with self._closing:
            if not self._is_closed:
                self._loop.call(self._client.close(timeout, keep=keep))
                self._is_closed = True
                self._loop.stop()

    @property
    def name(self) -> str:
        """The name of this client at the broker."""
        return self._client.name

    @property
    def is_connected(self) -> bool:
        """True if a broker is connected at this moment."""
        return self._client.is_connected

    @property
    def broker(self) -> str:
        """The name of the broker that is connected at this moment, or an empty string."""
        return self._client.broker

    def advertise(
        self, offer: str | Filter, *, ordered: bool = False, timeout: float | None = None
    ) -> BlockingAdvertisement:
        """Announce what will be published; see ``Client.advertise``."""
        try:
            issued = self._loop.call(self._client.advertise(offer, ordered=ordered, timeout=timeout))
        except NotConfirmed as error:
            if isinstance(error.issued, Advertisement):
                error.issued = BlockingAdvertisement(error.issued, self._loop)
            raise
        return BlockingAdvertisement(issued, self._loop)

    def subscribe(
        self,
        interest: str | Filter,
        *,
        callback: Callback | None = None,
        buffer: int = BUFFER,
        overflow: Overflow | str = Overflow.DISCONNECT,
        on_gap: Callable[[BlockingSubscription], object] | None = None,
        ack: str = "auto",
        keep_s: float | None = None,
        timeout: float | None = None,
    ) -> BlockingSubscription:
        """Subscribe to what matches a filter; see ``Client.subscribe``."""
        wrap = functools.cache(lambda issued: BlockingSubscription(issued, self._loop))

        async def issue() -> BlockingSubscription:
            try:
                return wrap(
                    await self._client.subscribe(
                        interest,
                        callback=callback,
                        buffer=buffer,
                        overflow=overflow,
                        on_gap=None if on_gap is None else lambda issued: on_gap(wrap(issued)),
                        ack=ack,
                        keep_s=keep_s,
                        timeout=timeout,
                    )
                )
            except NotConfirmed as error:
                error.issued = wrap(error.issued)
                raise

        return self._loop.call(issue())

    def publish(
        self, publication: Attributes | Publication, payload: bytes = b"", *, timeout: float | None = None
    ) -> None:
        """Publish; return when the host broker has accepted it. For ``timeout`` see ``Client.publish``."""
        self._loop.call(self._client.publish(publication, payload, timeout=timeout))

    def produce_as(self, producer: str, *, timeout: float | None = None) -> int:
        """Publish as a producer, and return how many of its publications this broker has; see ``Client``."""
        return self._loop.call(self._client.produce_as(producer, timeout=timeout))

    @property
    def accepted(self) -> int:
        """The number of publications that a broker has accepted; see ``Client.accepted``."""
        return self._client.accepted

    @property
    def repeated(self) -> int:
        """The number of publications that the broker dropped as repeated; see ``Client.repeated``."""
        return self._client.repeated

    def publish_many(self, publications: Iterable[Publishable], *, timeout: float | None = None) -> int:
        """Publish all in order, without waiting in between; see ``Client.publish_many``.

        The iterable is read in the client's thread and should not block for long.
        """
        return self._loop.call(self._client.publish_many(publications, timeout=timeout))

    def __repr__(self) -> str:
        return f"<Blocking{repr(self._client)[1:]}"


class BlockingAdvertisement:
    """A promise of a client about what it will publish, made with ``client.advertise``."""

    def __init__(self, advertisement: Advertisement, loop: _Loop):
        self._advertisement = advertisement
        self._loop = loop

    @property
    def offer(self) -> Filter:
        """The filter that publications will match."""
        return self._advertisement.offer

    def unadvertise(self) -> None:
        """Withdraw the advertisement; return when the host broker has done so."""
        self._loop.call(self._advertisement.unadvertise())

    def __repr__(self) -> str:
        return f"<Blocking{repr(self._advertisement)[1:]}"


class BlockingSubscription:
    """The publications that match a filter, made with ``client.subscribe``; one thread may read them."""

    def __init__(self, subscription: Subscription, loop: _Loop):
        self._subscription = subscription
        self._loop = loop
        self._taken: deque[Received] = deque()

    @property
    def interest(self) -> Filter:
        """The filter."""
        return self._subscription.interest

    @property
    def lost(self) -> int:
        """The number of publications that were dropped; see ``Subscription.lost``."""
        return self._subscription.lost

    @property
    def gaps(self) -> int:
        """The number of times that publications may have been missed; see ``Subscription.gaps``."""
        return self._subscription.gaps

    @property
    def last_gap(self) -> Gap | None:
        """The last of these gaps; see ``Subscription.last_gap``."""
        return self._subscription.last_gap

    def __iter__(self) -> Iterator[Received]:
        return self.iterate()

    def iterate(self, timeout: float | None = None) -> Iterator[Received]:
        """Yield publications until the subscription ends, or until none has come for ``timeout`` seconds."""
        while self._taken or self._fill(timeout):
            yield self._taken.popleft()

    def next(self, timeout: float | None = None) -> Received:
        """Return the next publication; raise TimedOut if none comes within ``timeout`` seconds."""
        if self._taken or self._fill(timeout):
            return self._taken.popleft()
        raise has_ended() if self._subscription.has_ended else nothing_came(timeout)

    def acknowledge(self, publication: Received | None = None) -> None:
        """Acknowledge a publication and everything before it; by default all that was read."""
        self._loop.call(self._on_loop(self._subscription._durable.acknowledge, publication))

    def resume_point(self, publication: Received | None = None) -> str:
        """Return a string for ``connect(resume=…)``; see ``Subscription.resume_point``."""
        return self._loop.call(self._on_loop(self._subscription._durable.resume_point, publication))

    def take_notices(self) -> list[tuple[int, Notice]]:
        """Return the notices of gaps and losses since the last call; see ``Subscription.take_notices``."""
        return self._subscription.take_notices()

    async def _on_loop(self, call: Callable[[int], T], publication: Received | None) -> T:
        if publication is None and self._taken:
            return call(self._taken[0].number - 1)  # It was fetched, and the program has not read it yet.
        return call(self._subscription._number_of(publication))

    def unsubscribe(self) -> None:
        """Cancel the subscription; return when the host broker has done so. What is buffered can still be read."""
        self._loop.call(self._subscription.unsubscribe())

    def __repr__(self) -> str:
        return f"<Blocking{repr(self._subscription)[1:]}"

    def _fill(self, timeout: float | None) -> bool:
        # All that is buffered is fetched at once: changing threads for each publication would take most of the time.
        try:
            self._taken.extend(self._loop.call(self._fetch(timeout)))
        except UsageError:
            if not self._loop.is_stopped:
                raise
            buffer = self._subscription._buffer
            self._taken.extend(buffer.take_all())
            if not self._taken:
                buffer.check_end()
        return bool(self._taken)

    async def _fetch(self, timeout: float | None) -> list[Received]:
        try:
            async with asyncio.timeout(timeout):
                return await self._subscription.next_batch()
        except TimeoutError:
            return []
