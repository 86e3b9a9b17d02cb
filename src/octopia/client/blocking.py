"""The client for programs without an event loop: the same verbs, each of which returns when it is done.

The client runs in a thread of its own. A blocking client may be used from several threads at once, and be closed from
any of them; callbacks run in the client's thread, and must not call the client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from octopia.client.client import BUFFER, CONNECT_S, DRAIN_S, Client, connect
from octopia.client.publishing import Attributes, Publishable
from octopia.client.subscriptions import Advertisement, Callback, Received, Subscription
from octopia.content import Disjunction, Publication
from octopia.errors import NotConfirmed, OctopiaError, UsageError
from octopia.protocol import Overflow

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
        """Run something in the thread, and wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError("expected a blocking call outside the client's own thread, got one from a callback")
        # What is submitted after the loop was told to stop would never be done, nor cancelled.
        with self._submitting:
            if self.is_stopped:
                work.close()
                raise UsageError("expected an open client, got one that was closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise UsageError("expected an open client, got one that was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread; whoever waits for something there is told."""
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
    timeout_s: float = CONNECT_S,
    on_disconnect: Callable[[OctopiaError | None], object] | None = None,
    on_reconnect: Callable[[], object] | None = None,
    on_error: Callable[[OctopiaError], object] | None = None,
) -> BlockingClient:
    """Connect, and return a client for programs without an event loop; the arguments are those of ``connect``."""
    client = connect(
        url,
        name=name,
        overflow=overflow,
        timeout_s=timeout_s,
        on_disconnect=on_disconnect,
        on_reconnect=on_reconnect,
        on_error=on_error,
    )
    return BlockingClient(client)


class BlockingClient:
    """A client whose verbs block, made with ``octopia.connect_blocking``."""

    def __init__(self, client: Client):
        self._client = client
        self._loop = _Loop()
        self._closing = threading.Lock()
        self._is_closed = False
        try:
            self._loop.call(client.open())
        except BaseException:
            self._loop.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(timeout_s=DRAIN_S if error is None else 0.0)

    def close(self, timeout_s: float = DRAIN_S) -> None:
        """Wait for what was published to be acknowledged, as long as that, then leave; from any thread."""
        with self._closing:
            if not self._is_closed:
                self._loop.call(self._client.close(timeout_s))
                self._is_closed = True
                self._loop.stop()

    @property
    def name(self) -> str:
        """What the broker calls this client."""
        return self._client.name

    @property
    def is_connected(self) -> bool:
        """Whether a broker is connected at this moment."""
        return self._client.is_connected

    def advertise(
        self, offer: str | Disjunction, *, ordered: bool = False, timeout_s: float | None = None
    ) -> BlockingAdvertisement:
        """Say what will be published, and return when every broker that must know it does."""
        try:
            issued = self._loop.call(self._client.advertise(offer, ordered=ordered, timeout_s=timeout_s))
        except NotConfirmed as error:
            if isinstance(error.issued, Advertisement):
                error.issued = BlockingAdvertisement(error.issued, self._loop)
            raise
        return BlockingAdvertisement(issued, self._loop)

    def subscribe(
        self,
        interest: str | Disjunction,
        *,
        callback: Callback | None = None,
        buffer: int = BUFFER,
        overflow: Overflow | str = Overflow.DISCONNECT,
        on_gap: Callable[[Subscription], object] | None = None,
        timeout_s: float | None = None,
    ) -> BlockingSubscription:
        """Say what is wanted, and return when it is in force everywhere."""
        work = self._client.subscribe(
            interest, callback=callback, buffer=buffer, overflow=overflow, on_gap=on_gap, timeout_s=timeout_s
        )
        try:
            issued = self._loop.call(work)
        except NotConfirmed as error:
            if isinstance(error.issued, Subscription):
                error.issued = BlockingSubscription(error.issued, self._loop)
            raise
        return BlockingSubscription(issued, self._loop)

    def publish(self, publication: Attributes | Publication, payload: bytes = b"") -> None:
        """Publish, and return when the host broker has accepted it."""
        self._loop.call(self._client.publish(publication, payload))

    def publish_many(self, publications: Iterable[Publishable]) -> int:
        """Publish all in order, without waiting in between, and return how many were accepted.

        The iterable is read in the client's thread, and should not block for long.
        """
        return self._loop.call(self._client.publish_many(publications))


class BlockingAdvertisement:
    """What a client has said that it will send."""

    def __init__(self, advertisement: Advertisement, loop: _Loop):
        self.offer = advertisement.offer
        self._advertisement = advertisement
        self._loop = loop

    def withdraw(self) -> None:
        """Take it back."""
        self._loop.call(self._advertisement.withdraw())


class BlockingSubscription:
    """What a client wants, and what has come of it; to be iterated by one thread."""

    def __init__(self, subscription: Subscription, loop: _Loop):
        self.interest = subscription.interest
        self._subscription = subscription
        self._loop = loop
        self._taken: deque[Received] = deque()

    @property
    def lost(self) -> int:
        """How much was dropped, here or at the broker."""
        return self._subscription.lost

    @property
    def gaps(self) -> int:
        """How often something may have been missed."""
        return self._subscription.gaps

    def __iter__(self) -> Iterator[Received]:
        return self.iterate()

    def iterate(self, timeout_s: float | None = None) -> Iterator[Received]:
        """Yield publications as they come, until nothing has come for that long."""
        while self._taken or self._fill(timeout_s):
            yield self._taken.popleft()

    def next(self, timeout_s: float | None = None) -> Received:
        """Return the next publication, or raise TimeoutError if none comes in time."""
        if self._taken or self._fill(timeout_s):
            return self._taken.popleft()
        if self._subscription.has_ended:
            raise UsageError("expected a subscription that brings something, got one that has ended")
        raise TimeoutError(f"no publication came within {timeout_s} s")

    def unsubscribe(self) -> None:
        """Want it no longer; what has come is still there."""
        self._loop.call(self._subscription.unsubscribe())

    def _fill(self, timeout_s: float | None) -> bool:
        # All that has come is fetched at once: going from thread to thread for each would take most of the time.
        try:
            self._taken.extend(self._loop.call(self._fetch(timeout_s)))
        except UsageError:
            if not self._loop.is_stopped:
                raise
            self._taken.extend(self._subscription.take_buffered())
            if not self._taken:
                self._subscription.check_end()
        return bool(self._taken)

    async def _fetch(self, timeout_s: float | None) -> list[Received]:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._subscription.next_batch()
        except TimeoutError:
            return []
