"""TLS over sockets: who may connect, as whom, and what everybody else is told."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
import trustme
from raw_client import address_of
from recorders import until
from secured import Secured
from stranger import Stranger, greeting

import octopia
from octopia.errors import TlsFailure, Unavailable
from octopia.ids import BrokerId
from octopia.overlay.files import overlay_from_text
from octopia.protocol import CloseCode, Closing, Opening, Role
from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer
from octopia.security import watching
from octopia.transport.loop import run_loop
from octopia.wire import Limits, Reader, encode
from support import at

LOOPS: list[Callable[[Coroutine[object, object, None]], object]] = [asyncio.run, run_loop]


@pytest.fixture
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers look at their files for every connection."""
    monkeypatch.setattr(watching, "LOOK_S", 0.0)


@pytest.mark.parametrize("run", LOOPS, ids=["asyncio", "uvloop"])
def test_publications_cross_an_overlay_under_tls(tmp_path: Path, run: Callable[..., object]):
    run(_cross(Secured(tmp_path, "path:3", 2)))


async def _cross(secured: Secured) -> None:
    async with secured.run() as overlay:
        assert overlay.url("a.0").startswith("octopias://")
        assert all(
            line.connection is not None and line.connection.peer_brokers == (str(peer),)
            for server in overlay._servers.values()
            for peer, line in server.lines.items()
        )
        async with (
            overlay.connect("a.0", ca=secured.ca) as publisher,
            overlay.connect("c.1", ca=secured.ca) as subscriber,
        ):
            subscription = await subscriber.subscribe("n >= 0")
            await publisher.advertise("n >= 0 AND text IS NOT NULL")
            await publisher.publish_many({"n": n, "text": "x" * 1000} for n in range(1000))
            await publisher.publish({"n": 1000}, payload=b"y" * 200_000)
            got = [await subscription.next(timeout=10) for _ in range(1001)]
        assert sorted(each["n"] for each in got) == list(range(1001))
        assert [len(each.payload) for each in got if each.payload] == [200_000]


def test_a_plain_client_is_told_to_use_tls(tmp_path: Path):
    asyncio.run(_plain_on_tls(Secured(tmp_path, "path:1", 1)))


async def _plain_on_tls(secured: Secured) -> None:
    async with secured.run() as overlay:
        url = overlay.url("a.0")
        begin = time.monotonic()
        with pytest.raises(TlsFailure, match="this broker speaks TLS: use octopias://"):
            await octopia.connect(url.replace("octopias", "octopia"), timeout=10)
        assert time.monotonic() - begin < 2.0
        stranger = await Stranger.connect(url.replace("octopias", "octopia"))
        stranger.say(*greeting("S"))
        closing = (await stranger.until_closed()).closing
        assert closing is not None
        assert closing.code is CloseCode.TLS_REQUIRED


def test_a_tls_client_is_told_that_a_broker_speaks_none():
    asyncio.run(_tls_on_plain())


async def _tls_on_plain() -> None:
    async with Overlay(overlay_from_text("path:1", 1)) as overlay:
        begin = time.monotonic()
        with pytest.raises(TlsFailure, match=r"does not speak TLS: use octopia://"):
            await octopia.connect(overlay.url("a.0").replace("octopia", "octopias"), timeout=10)
        assert time.monotonic() - begin < 2.0


def test_a_certificate_of_another_authority_is_not_accepted(tmp_path: Path):
    asyncio.run(_other_authority(tmp_path))


async def _other_authority(folder: Path) -> None:
    secured = Secured(folder, "path:1", 1)
    other = folder / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    async with secured.run() as overlay:
        with pytest.raises(TlsFailure, match="certificate of the other end is not accepted"):
            await overlay.connect("a.0", ca=other)
        with pytest.raises(TlsFailure, match="certificate of the other end is not accepted"):
            await overlay.connect("a.0")


def test_the_certificate_must_name_the_broker_of_the_url_or_its_host(tmp_path: Path):
    asyncio.run(_names(tmp_path))


async def _names(folder: Path) -> None:
    secured = Secured(folder, "path:1", 1)
    secured.issue("a.0", ["b.0"])
    async with secured.run() as overlay:
        host, port = address_of(overlay.url("a.0").replace("octopias", "octopia"))
        with pytest.raises(TlsFailure, match=r"expected a certificate that names a\.0, got one that names b\.0"):
            await overlay.connect("a.0", ca=secured.ca)
        async with octopia.connect(f"octopias://{host}:{port}", ca=secured.ca) as client:
            assert client.broker == "a.0"
    leaf = secured.authority.issue_cert("elsewhere.example")
    leaf.private_key_pem.write_to_path(folder / "a.0.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "a.0.pem")
    async with secured.run() as overlay:
        host, port = address_of(overlay.url("a.0").replace("octopias", "octopia"))
        with pytest.raises(TlsFailure, match="IP address mismatch"):
            await octopia.connect(f"octopias://{host}:{port}", ca=secured.ca)


def test_only_tls_1_3_is_spoken(tmp_path: Path):
    asyncio.run(_old_tls(Secured(tmp_path, "path:1", 1)))


async def _old_tls(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=secured.ca)
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with secured.run() as overlay:
        host, port = address_of(overlay.url("a.0").replace("octopias", "octopia"))
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            await asyncio.open_connection(host, port, ssl=context)


def test_who_does_not_shake_hands_is_dropped_after_two_seconds(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "octopia"):
        asyncio.run(_silent(Secured(tmp_path, "path:1", 1)))
    assert any("TLS handshake within 2 s" in each.message for each in caplog.records)


async def _silent(secured: Secured) -> None:
    async with secured.run() as overlay:
        begin = time.monotonic()
        stranger = await Stranger.connect(overlay.url("a.0").replace("octopias", "octopia"))
        stranger.say(b"\x16\x03\x01")
        assert (await stranger.until_closed()).items == []
        assert 1.5 < time.monotonic() - begin < 4.0


# Somebody who speaks as a broker.


async def speak_as(
    secured: Secured, overlay: Overlay, name: str, *, certificate: str | None, to: str
) -> tuple[Closing | None, list[object]]:
    """Greet a broker under the name of a neighbour, with some certificate or none; return why it closes, and all."""
    context = ssl.create_default_context(cafile=secured.ca)
    context.check_hostname = False
    if certificate is not None:
        context.load_cert_chain(secured.folder / f"{certificate}.pem", secured.folder / f"{certificate}.key")
    host, port = address_of(overlay.url(to).replace("octopias", "octopia"))
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    opening = Opening(Role.BROKER, name, secured.overlay.scot.fingerprint, to)
    writer.write(encode(opening))
    items: list[object] = []
    understood = Reader(Limits())
    async with asyncio.timeout(6.0):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                items += understood.feed(data)
                if isinstance(items[-1], Opening):
                    break
    writer.close()
    closing = items[-1] if items and isinstance(items[-1], Closing) else None
    return closing, items


@pytest.mark.parametrize(
    ("certificate", "named"),
    [(None, "no broker"), ("a.1", "a.1"), ("b.1", "b.1"), ("stray", "no broker")],
)
def test_nobody_speaks_as_a_broker_that_its_certificate_does_not_name(
    tmp_path: Path, certificate: str | None, named: str
):
    """With b.1 over a.0's link, or a client over it: it could set the bits of another cluster."""
    secured = Secured(tmp_path)
    stray = secured.authority.issue_cert("a.0")
    stray.private_key_pem.write_to_path(tmp_path / "stray.key")
    stray.cert_chain_pems[0].write_to_path(tmp_path / "stray.pem")

    async def test() -> None:
        async with secured.run() as overlay:
            closing, items = await speak_as(secured, overlay, "a.0", certificate=certificate, to="b.0")
            assert closing is not None
            assert closing.code is CloseCode.NOT_ALLOWED
            assert closing.reason == f"expected a certificate that names a.0, got one that names {named}"
            assert items == [closing]
            assert overlay._servers[at("b.0")].is_connected, "the neighbour itself is not disturbed"

    asyncio.run(test())


def test_the_broker_that_a_certificate_names_is_heard(tmp_path: Path):
    secured = Secured(tmp_path)

    async def test() -> None:
        async with secured.run() as overlay:
            closing, items = await speak_as(secured, overlay, "a.0", certificate="a.0", to="b.0")
            assert closing is None
            assert any(isinstance(each, Opening) for each in items)

    asyncio.run(test())


def test_a_broker_with_the_certificate_of_another_is_not_dialled(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """a.0 dials b.0, at whose address somebody shows a certificate of b.1."""
    secured = Secured(tmp_path)
    secured.issue("b.0", ["b.1"])

    async def test() -> None:
        servers = {broker: BrokerServer(secured.overlay, broker) for broker in (at("a.0"), at("b.0"))}
        try:
            addresses = dict(secured.overlay.addresses)
            for broker, server in servers.items():
                addresses[broker] = await server.listen(dataclasses.replace(addresses[broker], port=0))
            for server in servers.values():
                server.start(addresses)
            await until(lambda: any("names b.0, got one that names b.1" in each.message for each in caplog.records))
            assert not servers[at("a.0")].node.links[at("b.0")].is_up
        finally:
            await asyncio.gather(*(server.stop() for server in servers.values()))

    asyncio.run(test())


@contextlib.asynccontextmanager
async def started(server: BrokerServer) -> AsyncIterator[str]:
    address = await server.listen(dataclasses.replace(server.address, port=0))
    server.start()
    yield f"octopias://{address}/{server.id}"
    await server.stop()


def test_certificates_are_read_again_when_they_change(
    tmp_path: Path, look_at_once: None, caplog: pytest.LogCaptureFixture
):
    secured = Secured(tmp_path, "path:1", 1)

    async def test() -> None:
        async with started(BrokerServer(secured.overlay, BrokerId("a", 0))) as url:
            async with octopia.connect(url, ca=secured.ca):
                pass
            other = trustme.CA()
            other_ca = tmp_path / "other.pem"
            other.cert_pem.write_to_path(other_ca)
            secured.issue("a.0", authority=other)
            async with octopia.connect(url, ca=other_ca):
                pass
            with pytest.raises(TlsFailure):
                await octopia.connect(url, ca=secured.ca)
            (tmp_path / "a.0.pem").write_text("nonsense")
            async with octopia.connect(url, ca=other_ca):
                pass
            await until(lambda: any("event=stale_credentials" in each.message for each in caplog.records))

    asyncio.run(test())


def test_a_missing_certificate_stops_a_broker_with_a_reason(tmp_path: Path):
    secured = Secured(tmp_path, "path:1", 1)
    (tmp_path / "a.0.key").unlink()

    async def test() -> None:
        BrokerServer(secured.overlay, BrokerId("a", 0))

    with pytest.raises(octopia.BrokenCredentials, match=r"a\.0\.key, got none"):
        asyncio.run(test())


def test_several_urls_are_tried_before_tls_is_given_up(tmp_path: Path):
    secured = Secured(tmp_path, "path:1", 1)

    async def test() -> None:
        async with secured.run() as overlay, Overlay(overlay_from_text("path:1", 1)) as plain:
            wrong = plain.url("a.0").replace("octopia", "octopias")
            async with octopia.connect([wrong, overlay.url("a.0")], ca=secured.ca) as client:
                assert client.is_connected
            with pytest.raises(Unavailable, match="does not speak TLS"):
                await octopia.connect([wrong, wrong], ca=secured.ca, timeout=0.5)

    asyncio.run(test())
