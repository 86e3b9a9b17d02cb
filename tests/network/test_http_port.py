"""The HTTP port beside real brokers: every path, the feed, its commands, and its limits."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import jsonschema
import pytest
from http_port import exchange, feed_of, get, http_beside, next_message, tell
from load import Load
from prometheus_client.parser import text_string_to_metric_families
from raw_client import run
from rest import overlay_at_rest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from octopia.addresses import Address
from octopia.errors import Unavailable
from octopia.http.limits import LIMITS
from octopia.http.server import bind
from octopia.runtime.local import Overlay
from support import ROOT

SCHEMA = ROOT / "docs" / "feed.schema.json"
HANDSHAKE = (
    b"GET /feed HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
JSON_PATHS = ["/brokerz", "/linkz", "/tablez", "/civz", "/clientz"]


def local() -> Overlay:
    return Overlay.local("path:3", 3)


def test_every_path_answers() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            assert (await get(port, "/healthz"))[::2] == (200, b"ok\n")
            assert (await get(port, "/readyz"))[0] == 200
            for path in JSON_PATHS:
                status, headers, body = await get(port, path)
                assert status == 200
                assert headers["content-type"] == "application/json"
                json.loads(body)
            for path in ("/", "/map.css", "/icon.svg", "/main.js", "/feed.js", "/draw.js", "/layout.js", "/chart.js"):
                status, headers, body = await get(port, path)
                assert status == 200
                assert body
                assert "script-src 'self'" in headers["content-security-policy"]
            assert (await get(port, "/clientz?broker=b.9"))[0] == 404
            status, _, body = await get(port, "/nothing")
            assert (status, body.startswith(b"expected one of the paths / /feed /healthz")) == (404, True)
            status, headers, body = await get(port, "/linkz", "HEAD")
            assert (status, body) == (200, b"")
            overlay.crash("b.1")
            await overlay.wait_until(lambda: not overlay.is_ready(), "the neighbours to notice")

    run(scenario())


def test_a_port_that_is_not_ready_says_which_brokers_are_not() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            overlay._servers[overlay._overlay.scot.broker("b.0")].lines[overlay._overlay.scot.broker("b.1")].cut()
            await overlay.wait_until(lambda: not overlay.is_ready(), "the link to be down")
            async with asyncio.timeout(10.0):
                while (answer := await get(port, "/readyz"))[0] == 200:
                    pass  # The port may have looked just before.
            assert answer[::2] == (503, b"not ready: b.0 b.1\n")

    run(scenario())


def test_metrics_are_what_prometheus_reads_and_equal_the_reports() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            load = await Load.begin(overlay, ["b.2"], ["a.0", "c.1"])
            load.publish(40, b"")
            await overlay_at_rest(overlay, load.clients)
            async with asyncio.timeout(10.0):
                while json.loads((await get(port, "/brokerz"))[2])["brokers"]["b.2"]["published"] < 40:
                    pass  # The port may have looked just before.
            status, headers, body = await get(port, "/metrics")
            assert status == 200
            assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            families = {family.name: family for family in text_string_to_metric_families(body.decode())}
            brokers = json.loads((await get(port, "/brokerz"))[2])["brokers"]
            published = {each.labels["broker"]: each.value for each in families["octopia_broker_published"].samples}
            assert published == {name: report["published"] for name, report in brokers.items()}
            assert published["b.2"] == 40
            sent = {(s.labels["broker"], s.labels["to"]): s.value for s in families["octopia_link_sent"].samples}
            assert sent == {
                (name, to): each["sent"] for name, rep in brokers.items() for to, each in rep["links"].items()
            }
            delays = families["octopia_delivery_delay_seconds"].samples
            assert {each.name.rpartition("_")[2] for each in delays} == {"bucket", "count", "sum"}
            assert {label for family in families.values() for each in family.samples for label in each.labels} <= {
                "broker",
                "to",
                "cause",
                "le",
            }
            load.leave()

    run(scenario())


def test_a_feed_shows_what_a_command_does() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port, feed_of(port) as socket:
            hello = json.loads(await socket.recv())
            assert hello["type"] == "hello"
            assert "throttle" in hello["can"]
            first = json.loads(await socket.recv())
            assert first["whole"]
            assert await tell(socket, verb="throttle", link="b.2>b.0", rate=50) == {
                "type": "done",
                "ref": 7,
                "ok": True,
            }
            tick = await next_message(socket, lambda each: "b.2>b.0" in each.get("links", {}))
            assert tick["links"]["b.2>b.0"]["rate"] == 50.0
            assert (await tell(socket, verb="cut", link="b.2>b.0"))["ok"]
            event = await next_message(socket, lambda each: each["type"] == "event" and each["kind"] == "down")
            assert event["text"] == "b.0 ↔ b.2 is cut."
            assert (await tell(socket, verb="heal", link="b.2>b.0"))["ok"]
            await overlay.wait_until(overlay.is_ready, "the link to be up")
            for algorithm in ("static", "dynamic", "adaptive"):
                assert (await tell(socket, verb="route", algorithm=algorithm))["ok"]
                assert {str(each.broker.algorithm) for each in overlay._servers.values()} == {algorithm}
            refused = await tell(socket, verb="route", algorithm="tid-static")
            assert not refused["ok"]
            assert refused["problem"].startswith("expected static or dynamic or adaptive routing at a broker")
            refused = await tell(socket, verb="throttle", link="b.2>c.0", rate=5)
            assert refused["problem"].startswith("expected a neighbour of b.2")
            assert "expected a command" in (await tell(socket, verb="explode"))["problem"]

    run(scenario())


def test_a_feed_is_what_its_schema_says() -> None:
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    jsonschema.Draft202012Validator.check_schema(schema)

    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port, feed_of(port) as socket:
            load = await Load.begin(overlay, ["b.2"], ["a.0", "b.0", "c.1"])
            commands = [
                {"verb": "throttle", "link": "b.2>b.0", "rate": 20},
                {"verb": "cut", "link": "a.0>a.1"},
                {"verb": "heal", "link": "a.0>a.1"},
                {"verb": "route", "algorithm": "static"},
                {"verb": "route", "algorithm": "dynamic"},
                {"verb": "lift", "link": "b.2>b.0"},
            ]
            seen = set()
            for command in commands:
                load.publish(30, b"")
                do = {"type": "do", "ref": 1, **command}
                validator.validate(do)
                await socket.send(json.dumps(do))
                message = {}
                while message.get("type") != "done":
                    message = json.loads(await asyncio.wait_for(socket.recv(), 10.0))
                    validator.validate(message)
                    seen.add(message["type"])
            while seen != {"hello", "tick", "event", "done"}:
                message = json.loads(await asyncio.wait_for(socket.recv(), 10.0))
                validator.validate(message)
                seen.add(message["type"])
            for _ in range(2):
                validator.validate(await next_message(socket, lambda each: each["type"] == "tick"))
            await overlay_at_rest(overlay, load.clients)
            assert load.got == load.expected()
            load.leave()

    run(scenario())


def test_the_schema_refuses_what_the_feed_never_sends() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for bad in ({"type": "tick"}, {"type": "bye"}, {"type": "done", "ref": 1}, {"type": "do", "ref": 1, "verb": "x"}):
        assert not validator.is_valid(bad), bad


def test_a_feed_as_server_sent_events() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            reader, writer = await asyncio.open_connection(port.host, port.port)
            writer.write(f"GET /feed HTTP/1.1\r\nHost: {port}\r\nAccept: text/event-stream\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"text/event-stream" in head
            lines = []
            while len(lines) < 3:
                line = await asyncio.wait_for(reader.readline(), 10.0)
                if line.startswith(b"data: "):
                    lines.append(json.loads(line[6:]))
            assert [each["type"] for each in lines] == ["hello", "tick", "tick"]
            assert lines[0]["can"] == []
            writer.close()

    run(scenario())


def test_another_site_gets_no_feed_and_a_program_may_only_listen() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            with pytest.raises(InvalidStatus) as caught:
                async with feed_of(port, origin="http://evil.example"):
                    pass
            assert caught.value.response.status_code == 403
            assert (await get(port, "/linkz", Host="evil.example"))[0] == 421
            async with feed_of(port, origin=None) as socket:
                assert json.loads(await socket.recv())["can"] == []
                answer = await tell(socket, verb="cut", link="b.2>b.0")
                assert answer["problem"] == "expected a command from the page of this port, got one from another client"
            assert overlay.is_ready()

    run(scenario())


def test_a_port_beyond_this_machine_wants_its_token() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay, token="s3cret", host="0.0.0.0") as port:
            assert (await get(port, "/healthz"))[0] == 200
            status, headers, _ = await get(port, "/linkz")
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert (await get(port, "/linkz", Authorization="Bearer s3cret"))[0] == 200
            assert (await get(port, "/?token=wrong"))[0] == 401
            status, headers, _ = await get(port, "/?token=s3cret")
            assert (status, headers["location"]) == (303, "/")
            cookie = headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert (await get(port, "/", Cookie=cookie.partition(";")[0]))[0] == 200
            with pytest.raises(InvalidStatus):
                async with feed_of(port):
                    pass
            async with feed_of(port, additional_headers={"Cookie": cookie.partition(";")[0]}) as socket:
                assert json.loads(await socket.recv())["can"]

    run(scenario())


def test_too_many_connections_and_feeds_are_refused() -> None:
    async def scenario() -> None:
        limits = dataclasses.replace(LIMITS, connections=3, feeds=1)
        async with local() as overlay, http_beside(overlay, limits) as port, feed_of(port) as socket:
            await socket.recv()
            with pytest.raises(InvalidStatus) as caught:
                async with feed_of(port):
                    pass
            assert caught.value.response.status_code == 503
            idle = [await asyncio.open_connection(port.host, port.port) for _ in range(2)]
            # The port may see this one before those.
            for _ in range(100):
                answer = await exchange(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if answer.startswith(b"HTTP/1.1 503 "):
                    break
            assert answer.startswith(b"HTTP/1.1 503 ")
            for _, writer in idle:
                writer.close()

    run(scenario())


def test_a_request_that_does_not_come_in_time_ends_its_connection() -> None:
    async def scenario() -> None:
        limits = dataclasses.replace(LIMITS, request_s=0.2)
        async with local() as overlay, http_beside(overlay, limits) as port:
            assert await exchange(port, b"GET /healthz HT") == b""
            assert await exchange(port, b"") == b""

    run(scenario())


def test_commands_are_limited() -> None:
    async def scenario() -> None:
        limits = dataclasses.replace(LIMITS, commands_per_second=3.0)
        async with local() as overlay, http_beside(overlay, limits) as port, feed_of(port) as socket:
            answers = [await tell(socket, verb="lift", link="b.2>b.0") for _ in range(8)]
            assert answers[0]["ok"]
            assert any("at most 3 commands per second" in each.get("problem", "") for each in answers)

    run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        b"\x81",
        b"\x82\x80\x00\x00\x00\x00",
        b"\x81\xff" + b"\x7f" * 8,
        b"\xff" * 64,
        b"\x81\x82\x00\x00\x00\x00\xff\xfe",
    ],
)
def test_a_websocket_that_breaks_the_protocol_is_closed(data: bytes) -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            async with feed_of(port) as socket:
                await socket.recv()
                socket.transport.write(data)
                if data == b"\x81":
                    socket.transport.write_eof()
                with pytest.raises(ConnectionClosed):
                    await next_message(socket, lambda _: False)
            assert (await get(port, "/healthz"))[0] == 200
            assert overlay.is_ready()

    run(scenario())


def test_an_address_that_is_taken_is_reported() -> None:
    with bind(Address("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unavailable, match="choose another port with --http"):
            bind(Address("127.0.0.1", port))


def test_requests_that_come_at_once_are_answered_in_order() -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            plain = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            last = b"GET /tablez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            answer = await exchange(port, plain * 50 + last)
            assert answer.count(b"HTTP/1.1 200 OK\r\n") == 51
            assert answer.rstrip().endswith(b"}")

    run(scenario())


async def flood(writer: asyncio.StreamWriter) -> None:
    """Send pings without an end."""
    ping = b"\x89\xfd" + bytes(4) + b"x" * 125
    while True:
        writer.write(ping * 1000)
        await writer.drain()


def test_one_who_pings_and_never_reads_is_dropped() -> None:
    async def scenario() -> None:
        limits = dataclasses.replace(LIMITS, backlog_bytes=16 * 1024)
        async with local() as overlay, http_beside(overlay, limits) as port:
            reader, writer = await asyncio.open_connection(port.host, port.port, limit=1)
            writer.write(HANDSHAKE)
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(flood(writer), 30.0)
            writer.transport.abort()
            assert (await get(port, "/healthz"))[0] == 200
            del reader

    run(scenario())


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (b"Upgrade: websocket\r\n", b"Upgrade: websocket\r\nX: 1\r\n folded\r\n", 400),
        (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 12", 400),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b"", 400),
    ],
)
def test_a_handshake_with_a_fault_is_answered(before: bytes, after: bytes, status: int) -> None:
    async def scenario() -> None:
        async with local() as overlay, http_beside(overlay) as port:
            answer = await exchange(port, HANDSHAKE.replace(before, after))
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())

    run(scenario())
