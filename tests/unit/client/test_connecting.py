"""Connecting for the first time and again, and what is said if that cannot be."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable

import pytest
from processes import free_ports

import octopia
from fake_broker import PATIENCE_S, FakeBroker
from octopia.addresses import Address
from octopia.client import attempts, channel
from octopia.client.attempts import backoff_s
from octopia.client.urls import find_addresses, parse_url
from octopia.errors import ClosedByPeer, OctopiaError, OutcomeUnknown, Unavailable, UsageError
from octopia.link import LinkSettings
from octopia.protocol import CloseCode, Closing
from support import turn


async def fail_to_connect(url: str | list[str], timeout: float = 0.2) -> OctopiaError:
    with pytest.raises(OctopiaError) as caught:
        async with octopia.connect(url, timeout=timeout):
            pass
    return caught.value


class Stranger(asyncio.Protocol):
    """A server that is no broker: it says something and leaves."""

    def __init__(self, answer: bytes):
        self.answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self.answer)
        transport.close()


# URLs.


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("octopia://10.0.0.4:7411/b.3", Address("10.0.0.4", 7411, "b.3")),
        ("octopia://broker", Address("broker", 7400)),
        ("octopia://[::1]:7401/", Address("::1", 7401)),
    ],
)
def test_urls_are_read(url: str, address: Address):
    assert parse_url(url) == address


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://a:1", "its scheme is 'http'"),
        ("a:7400", "scheme"),
        ("octopia://", "no host"),
        ("octopia://a:99999", "Port out of range"),
        ("octopia://a:x", "Port could not be cast"),
        ("octopia://a:0", "from 1 to 65535"),
        ("octopia://me@a", "are allowed"),
        ("octopia://a/b", "region.cluster"),
        ("octopia://a..b", "a part that is empty or too long"),
        (f"octopias://{'a' * 64}", "a part that is empty or too long"),
    ],
)
def test_bad_urls_are_explained(url: str, problem: str):
    with pytest.raises(UsageError, match=problem):
        parse_url(url)


def test_urls_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OCTOPIA_URL", raising=False)
    assert find_addresses(None) == (Address("127.0.0.1", 7400),)
    monkeypatch.setenv("OCTOPIA_URL", "octopia://a, octopia://b:1")
    assert find_addresses(None) == (Address("a", 7400), Address("b", 1))
    assert find_addresses(["octopia://c"]) == (Address("c", 7400),)
    with pytest.raises(UsageError, match="got none"):
        find_addresses([])


# The first connection.


def test_the_opening_says_who_is_there():
    async def run() -> None:
        async with FakeBroker() as broker:
            async with octopia.connect(f"{broker.url}/b.3", name="feed") as client:
                assert client.is_connected
                assert client.name == "feed"
            assert not client.is_connected
            (opening,) = broker.openings
            assert (opening.sender, opening.broker) == ("feed", "b.3")

    asyncio.run(run())


def test_names_are_checked():
    assert octopia.connect()._opening.sender != octopia.connect()._opening.sender
    with pytest.raises(UsageError, match="printable name"):
        octopia.connect(name="a\nb")


def test_connect_is_awaited_or_entered():
    async def run() -> None:
        async with FakeBroker() as broker:
            client = await octopia.connect(broker.url)
            async with client as same:
                assert same is client
                await client.publish({"x": 1})
            with pytest.raises(UsageError, match="was closed"):
                async with client:
                    pass
            async with octopia.connect(broker.url) as client:
                await client.publish({"x": 2})
            assert not client.is_connected
            await client.close()
            assert broker.values() == [1, 2]
        with pytest.raises(AttributeError, match="write `client = await connect"):
            await octopia.connect().publish({"x": 1})

    asyncio.run(run())


@pytest.mark.parametrize("enters", [False, True])
def test_connect_is_used_once_so_that_no_client_leaks(enters: bool):
    async def run() -> None:
        async with FakeBroker() as broker:
            context = octopia.connect(broker.url)
            uses = [asyncio.ensure_future(each) for each in (context, context.__aenter__() if enters else context)]
            client, error = await asyncio.gather(*uses, return_exceptions=True)
            assert isinstance(error, UsageError)
            assert "got a second use; call connect() again" in str(error)
            await client.publish({"x": 1})
            assert len(broker.openings) == 1
            await client.close()

    asyncio.run(run())


def test_a_foreign_event_loop_is_refused_by_name():
    async def refused(call: Awaitable[object]) -> None:
        with pytest.raises(UsageError) as caught:
            await call
        home, foreign = re.findall(r"EventLoop (0x\w+) in thread '([\w-]+)'", str(caught.value))
        assert (home[1], foreign[1]) == ("MainThread", "foreign")
        assert home[0] != foreign[0]
        assert "connect_blocking" in str(caught.value)

    async def use(client: octopia.Client, issued: octopia.Advertisement, subscription: octopia.Subscription) -> None:
        await refused(client.publish({"x": 1}))
        await refused(client.publish_many([{"x": 1}]))
        await refused(client.advertise("x > 0"))
        await refused(client.subscribe("x > 0"))
        await refused(client.close())
        await refused(issued.unadvertise())
        await refused(subscription.unsubscribe())
        await refused(subscription.next())
        await refused(subscription.next_batch())
        await refused(anext(subscription))
        await refused(anext(aiter(subscription)))

    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            issued, subscription = await client.advertise("x > 0"), await client.subscribe("x > 0")
            broker.deliver([1], (2,))
            failures: list[BaseException] = []

            def run_foreign() -> None:
                try:
                    asyncio.run(use(client, issued, subscription))
                except BaseException as error:
                    failures.append(error)

            thread = threading.Thread(target=run_foreign, name="foreign")
            thread.start()
            await asyncio.to_thread(thread.join, PATIENCE_S)
            assert failures == []
            assert broker.values() == []
            assert (await subscription.next(timeout=PATIENCE_S))["x"] == 1

    asyncio.run(run())


def test_a_client_says_what_it_is():
    async def run() -> None:
        async with FakeBroker("b.3") as broker:
            async with octopia.connect(broker.url, name="feed") as client:
                assert repr(client) == "<Client 'feed', connected to b.3>"
                assert repr(await client.advertise("x > 0")) == "<Advertisement 'x > 0'>"
                subscription = await client.subscribe("x > 0 AND y = 'a'")
                assert repr(subscription) == "<Subscription \"x > 0 AND y = 'a'\", 0 buffered, 0 lost, 0 gaps>"
                broker.stop()
                await broker.until(lambda: bool(broker.goodbyes) or not broker.connections)
                while client.is_connected:
                    await turn()
                assert repr(client) == "<Client 'feed', reconnecting>"
            assert repr(client) == "<Client 'feed', closed>"
            assert repr(subscription).endswith("0 gaps, ended>")
            await broker.start()

    asyncio.run(run())


def test_without_a_broker_the_error_says_what_to_do():
    async def run() -> None:
        [port] = free_ports(1)
        error = await fail_to_connect(f"octopia://127.0.0.1:{port}")
        assert isinstance(error, Unavailable)
        assert str(error).startswith(f"no broker answers at 127.0.0.1:{port} (")
        assert "is one running? Start one with `octopia up` (tried for 0.2 s)" in str(error)

    asyncio.run(run())


def test_a_broker_that_starts_a_little_later_is_found():
    async def run() -> None:
        broker = FakeBroker()
        [broker.port] = free_ports(1)
        opening = asyncio.ensure_future(octopia.connect(["octopia://127.0.0.1:1", broker.url]))
        await turn()
        await broker.start()
        client = await opening
        await client.close()
        broker.stop()

    asyncio.run(run())


def test_silence_is_said_as_such(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(channel, "HANDSHAKE_S", 0.05)

    async def run() -> None:
        async with FakeBroker() as broker:
            broker.greets = False
            assert "has not sent a greeting within" in str(await fail_to_connect(broker.url))

    asyncio.run(run())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n"])
def test_garbage_is_said_as_such_and_at_once(answer: bytes):
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Stranger(answer), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        error = await fail_to_connect(f"octopia://127.0.0.1:{port}", timeout=PATIENCE_S)
        assert f"the server at 127.0.0.1:{port} is not an OctopiA broker: expected a kind of frame" in str(error)
        server.close()

    asyncio.run(run())


def test_a_closed_door_is_said_as_such():
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Stranger(b""), "127.0.0.1", 0)
        error = await fail_to_connect(f"octopia://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert "closed the connection before its greeting" in str(error)
        server.close()

    asyncio.run(run())


@pytest.mark.parametrize("code", [CloseCode.WRONG_BROKER, CloseCode.NOT_ALLOWED, CloseCode.NAME_TAKEN])
def test_a_refusal_is_final(code: CloseCode):
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.refusal = Closing(code, "go away")
            error = await fail_to_connect(broker.url, timeout=PATIENCE_S)
            assert isinstance(error, ClosedByPeer)
            assert (error.code, error.reason) == (code, "go away")
            assert len(broker.openings) == 1

    asyncio.run(run())


# Connecting again.


def test_hooks_tell_of_lost_connections():
    async def run() -> None:
        told: list[str] = []
        back = asyncio.Event()

        def on_reconnect() -> None:
            told.append("back")
            back.set()

        async with FakeBroker() as broker:
            hooks = {"on_disconnect": lambda reason: told.append(f"gone: {reason}"), "on_reconnect": on_reconnect}
            async with octopia.connect(broker.url, **hooks):
                broker.close(CloseCode.SHUTDOWN, "for tea")
                await asyncio.wait_for(back.wait(), PATIENCE_S)
        assert told == ["gone: the other end closed the connection (shutdown): for tea", "back"]

    asyncio.run(run())


def test_a_broker_that_wants_no_more_ends_the_client():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0")
            broker.accepts_data = False
            (session,) = broker.sessions.values()
            session.accept_data(False)
            broker.place()
            await client.advertise("x > 0")
            waiting = asyncio.create_task(client.publish({"x": 1}))
            await turn()
            broker.close(CloseCode.REPLACED, "somebody has your name")
            with pytest.raises(ClosedByPeer):
                await anext(subscription)
            with pytest.raises(ClosedByPeer):
                await waiting
            with pytest.raises(ClosedByPeer):
                await client.advertise("x > 1")
            assert len(broker.openings) == 1

    asyncio.run(run())


def test_another_broker_is_found_and_gets_a_new_session():
    """Back at the first broker, which still remembers, nothing may be taken for a duplicate."""

    async def run() -> None:
        async with (
            FakeBroker("a.0") as first,
            FakeBroker("b.0") as second,
            octopia.connect([first.url, second.url], name="me") as client,
        ):
            subscription = await client.subscribe("x > 0")
            await client.publish({"x": 1})
            first.stop()
            await second.until(lambda: bool(second.received))
            await client.publish({"x": 2})
            await first.start()
            second.stop()
            await first.until(lambda: len(first.received) == 3)
            await client.publish({"x": 3})
            assert (first.values(), second.values()) == ([1, 3], [2])
            assert subscription.gaps == 2
            first.deliver([7])
            assert (await anext(subscription))["x"] == 7

    asyncio.run(run())


def test_a_cut_at_the_second_broker_goes_unnoticed_too():
    async def run() -> None:
        async with (
            FakeBroker("a.0") as first,
            FakeBroker("b.0") as second,
            octopia.connect([first.url, second.url]) as client,
        ):
            subscription = await client.subscribe("x > 0")
            first.stop()
            await second.until(lambda: bool(second.received))
            await client.publish({"x": 1})
            second.cut()
            await client.publish({"x": 2})
            assert second.values() == [1, 2]
            assert subscription.gaps == 1

    asyncio.run(run())


def test_a_broker_that_only_opened_its_door_changes_nothing():
    """Back at the first broker the session goes on, although another one was tried meanwhile."""

    async def run() -> None:
        async with (
            FakeBroker("a.0") as first,
            FakeBroker("b.0") as second,
            octopia.connect([first.url, second.url]) as client,
        ):
            second.leaves_after_opening = True
            subscription = await client.subscribe("x > 0")
            first.stop()
            await second.until(lambda: bool(second.openings))
            await first.start()
            await client.publish({"x": 1})
            assert first.values() == [1]
            assert subscription.gaps == 0

    asyncio.run(run())


def test_a_silent_broker_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(channel, "CLIENT_LINK", LinkSettings(heartbeat_ms=20, suspicion_ms=60))

    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            await broker.until(lambda: len(broker.openings) >= 2)
            await client.publish({"x": 1})

    asyncio.run(run())


def test_the_outcome_is_unknown_if_the_client_ends_before_the_acknowledgement():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:

            def close(_: object) -> list[object]:
                broker.close(CloseCode.NOT_ALLOWED)
                return []

            broker.answer = close
            with pytest.raises(OutcomeUnknown):
                await client.publish({"x": 1})

    asyncio.run(run())


def test_waits_are_drawn_from_ranges_that_grow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempts.random, "uniform", lambda low, high: (low, high))
    ranges = [(0.0, 0.05), (0.1, 0.2), (0.4, 0.8), (1.5, 3.0), (1.5, 3.0)]
    assert [backoff_s(attempt) for attempt in (0, 1, 2, 3, 1000)] == ranges


@pytest.mark.parametrize("is_first", [True, False])
def test_a_busy_broker_says_when_to_come_back(is_first: bool):
    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with FakeBroker() as broker:
            client = None if is_first else await octopia.connect(broker.url)
            broker.refusal = Closing(CloseCode.BUSY, "later", retry_ms=400)
            broker.openings.clear()
            connecting = asyncio.ensure_future(octopia.connect(broker.url)) if client is None else None
            broker.forget()
            await broker.until(lambda: bool(broker.openings))
            begin, broker.refusal = loop.time(), None
            await broker.until(lambda: len(broker.openings) == 2)
            assert 0.35 < loop.time() - begin < 5.0
            client = client or await connecting
            await client.subscribe("x > 0")
            await client.close()

    asyncio.run(run())


def test_a_broker_that_stays_busy_is_named_as_the_reason():
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.refusal = Closing(CloseCode.BUSY, "b.3 is busy", retry_ms=10)
            error = await fail_to_connect(broker.url)
            assert isinstance(error, Unavailable)
            assert "b.3 is busy" in str(error)
            assert len(broker.openings) > 2

    asyncio.run(run())
