"""A subscriber that stops reading: others get everything, what waits for it is bounded, and it is told what it lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import socket
import tracemalloc

import pytest
from load import Load
from raw_client import RawClient, address_of, run
from rest import overlay_at_rest
from stranger import greeting

from octopia.content import Publication
from octopia.node.links import ClientLink
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Ack, CloseCode, Frame, Grant, Overflow
from octopia.protocol.messages import CutOff, Lost, PublishRequest
from octopia.runtime.defaults import NODE_SETTINGS
from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer
from octopia.transport.connection import WRITE_HIGH_BYTES
from octopia.wire import encode
from support import at, turn

LIMIT = 50
PAYLOAD = bytes(16_000)
BATCH = 50
SLOW = "slow"


def link_of(server: BrokerServer) -> ClientLink:
    return server.node.clients[server.node.client_named(SLOW)]


def overlay() -> Overlay:
    settings = dataclasses.replace(NODE_SETTINGS, client_queue_limit=LIMIT)
    return Overlay(overlay_from_text("path:2", 2), node_settings=settings)


async def publish_until(load: Load, overlay: Overlay, enough) -> None:
    """Publish, batch by batch, until something has come about that the broker of the slow client knows."""
    while not enough():
        assert load.published < 20_000, "expected the slow client to overflow"
        load.publish(BATCH, PAYLOAD)
        for subscriber, wanted in zip(load.subscribers, load.expected().values(), strict=True):
            await subscriber.until(lambda s=subscriber, w=wanted: len(s.deliveries) >= w.total(), "its deliveries")
    await overlay_at_rest_but_for_the_slow(overlay, load)


async def overlay_at_rest_but_for_the_slow(overlay: Overlay, load: Load) -> None:
    for client in load.clients:
        await client.until(lambda client=client: client.is_at_rest, "acknowledgements")


def test_it_is_cut_off_and_told_how_many_it_lost():
    run(_disconnect())


async def _disconnect() -> None:
    async with overlay() as brokers:
        load = await Load.begin(brokers, ["a.0"], ["b.0", "b.1", "a.1"])
        slow = await RawClient("slow").connect(brokers.url("b.1"))
        await slow.subscribe("n >= 0")
        slow.stop_reading()
        node = brokers._servers[at("b.1")]
        await publish_until(load, brokers, lambda: node.node.client_named(SLOW) is None)
        assert not any(client.name == SLOW for client in node.broker.state.clients)
        assert load.got == load.expected()

        slow.go_on_reading()
        await slow.until(lambda: slow.is_closed, "the end of its connection")
        assert slow.close_code is CloseCode.TOO_SLOW
        [told] = slow.told(CutOff)
        assert slow.heard[-1] is told
        got = slow.got()
        assert set(got) == set(range(len(got))), "what it got came in order and without holes"
        # What came before it was cut off, it got or lost; what came later was not for it any more.
        assert told.lost == node.node.lost_by_slow_clients > LIMIT
        assert load.published - 2 * BATCH <= len(got) + told.lost <= load.published
        load.leave()


def test_with_drop_oldest_it_stays_and_learns_what_it_missed():
    run(_drop_oldest())


async def _drop_oldest() -> None:
    async with overlay() as brokers:
        load = await Load.begin(brokers, ["a.0"], ["b.0", "b.1"])
        slow = await RawClient("slow", Overflow.DROP_OLDEST).connect(brokers.url("b.1"))
        await slow.subscribe("n >= 0")
        slow.stop_reading()
        node = brokers._servers[at("b.1")]
        await publish_until(load, brokers, lambda: node.node.lost_by_slow_clients > 3 * LIMIT)
        assert len(link_of(node).mailbox.deliveries) == LIMIT
        slow.go_on_reading()
        await overlay_at_rest(brokers, [*load.clients, slow])
        assert not slow.is_closed
        lost = sum(each.deliveries for each in slow.told(Lost))
        assert lost == node.node.lost_by_slow_clients
        got = slow.got()
        assert max(got.values()) == 1
        assert len(got) + lost == load.published
        assert load.got == load.expected()
        for client in (*load.clients, slow):
            client.leave()


def test_what_waits_for_it_is_bounded():
    run(_memory())


async def _memory() -> None:
    """However much is published, no more than the limit and what the connection holds is kept for the slow client."""
    async with overlay() as brokers:
        load = await Load.begin(brokers, ["a.0"], ["b.1"])
        slow = await RawClient("slow", Overflow.DROP_OLDEST).connect(brokers.url("b.1"))
        await slow.subscribe("n >= 0")
        slow.stop_reading()
        node = brokers._servers[at("b.1")]
        await publish_until(load, brokers, lambda: node.node.lost_by_slow_clients > LIMIT)
        [fast] = load.subscribers

        async def pass_by(deliveries: int) -> int:
            """Let so many deliveries be lost, and return how much memory is in use."""
            enough = node.node.lost_by_slow_clients + deliveries
            while node.node.lost_by_slow_clients < enough:
                fast.heard.clear()
                load.publish(BATCH, PAYLOAD)
                await fast.until(lambda: len(fast.deliveries) == BATCH, "its deliveries")
            await overlay_at_rest_but_for_the_slow(brokers, load)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            # Brokers remember their last inputs; by then all of these have been replaced.
            first = await pass_by(10 * LIMIT)
            second = await pass_by(20 * LIMIT)
        finally:
            tracemalloc.stop()
        # What is on its way between brokers, and not acknowledged yet, differs from moment to moment.
        assert second - first < 20 * LIMIT * len(PAYLOAD) / 3
        kept = link_of(node).session._sender.kept
        assert len(kept) < 20_000_000 / len(PAYLOAD)
        for client in (*load.clients, slow):
            client.leave()


@pytest.mark.parametrize("overflow", list(Overflow))
def test_one_that_reads_but_acknowledges_nothing_is_bounded_too(overflow: Overflow):
    run(_never_acknowledge(overflow))


class Mute(RawClient):
    """A client that reads, and says that it is alive, but not what it has got."""

    def _flow(self) -> None:
        if self.connection is None:
            return
        items = self.session.drain(self._now_ms())
        mute = [Ack(0, Grant(1, 65536, ())) if isinstance(item, Ack) else item for item in items]
        self.connection.send(mute)


async def _never_acknowledge(overflow: Overflow) -> None:
    async with overlay() as brokers:
        load = await Load.begin(brokers, ["a.0"], ["b.0"])
        slow = await Mute("slow", overflow).connect(brokers.url("b.1"))
        await slow.subscribe("n >= 0")
        node = brokers._servers[at("b.1")]
        link = link_of(node)
        most = 0
        for _ in range(60):
            load.publish(BATCH, PAYLOAD)
            wanted = load.expected()[load.subscribers[0].name].total()
            await load.subscribers[0].until(lambda w=wanted: len(load.subscribers[0].deliveries) >= w, "deliveries")
            most = max(most, sum(frame.message.size_bytes for frame in link.session._sender.kept if _is_data(frame)))
        assert most < 60 * BATCH * len(PAYLOAD) / 4, f"{most} bytes were kept for a client that acknowledges nothing"
        for client in (*load.clients, slow):
            client.leave()


def _is_data(frame: Frame) -> bool:
    return hasattr(frame.message, "publication")


@pytest.mark.usefixtures("never_busy")
def test_one_that_asks_and_asks_and_reads_no_answer_is_closed():
    run(_ask_and_never_read())


async def _ask_and_never_read() -> None:
    """Publications without an advertisement: each is refused, and each refusal is an answer."""
    async with overlay() as brokers:
        load = await Load.begin(brokers, ["a.0"], ["b.0", "b.1"])
        node = brokers._servers[at("b.1")]
        loop = asyncio.get_running_loop()
        reader, writer = await asyncio.open_connection(*address_of(brokers.url("b.1")), limit=1024)
        writer.writelines(map(encode, greeting(SLOW)))
        await brokers.wait_until(lambda: node.node.client_named(SLOW) is not None, "the client")
        connection = node.client_lines[node.node.client_named(SLOW)].connection
        assert connection is not None
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer.transport.pause_reading()
        most_answers = most_bytes = 0
        until = loop.time() + 20
        sequence = 1
        while node.node.client_named(SLOW) is not None and loop.time() < until:
            requests = [
                Frame(number, PublishRequest(number, Publication({"x": 1}), 0.0))
                for number in range(sequence, sequence + 500)
            ]
            sequence += 500
            writer.writelines(map(encode, requests))
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await turn()
            if node.node.client_named(SLOW) is not None:
                most_answers = max(most_answers, len(link_of(node).mailbox.answers))
            most_bytes = max(most_bytes, connection._transport.get_write_buffer_size())
        assert node.node.client_named(SLOW) is None, f"{most_answers} answers and {most_bytes} bytes wait for it"
        assert most_answers < 2_000
        assert most_bytes < 2 * WRITE_HIGH_BYTES
        load.publish(50)
        await overlay_at_rest(brokers, load.clients)
        assert load.got == load.expected()
        writer.transport.abort()
        del reader
