"""Tokens over sockets: who is let in, what they may do, and when they must leave."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from recorders import until
from secured import Secured
from stranger import Stranger, greeting

import octopia
from octopia.addresses import Address
from octopia.cli.contexts import find_for_client
from octopia.client.credentials import Credentials
from octopia.client.operators import Operator, are_wanted, ask_status, is_wanted
from octopia.client.urls import parse_url
from octopia.content import Publication
from octopia.errors import AccessDenied, ClosedByPeer, RequestRefused, UsageError
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Answer, CloseCode, Command, Opening, Role, Verb
from octopia.runtime import operating
from octopia.runtime.gate import ENDED, REFUSAL
from octopia.runtime.local import Overlay
from octopia.security import watching
from octopia.security.tokens import TokenRole
from octopia.settings import ResourceLimits, SecuritySettings
from support import at

PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers look at their files whenever they need them."""
    monkeypatch.setattr(watching, "LOOK_S", 0.0)


@contextlib.asynccontextmanager
async def running(folder: Path, tree: str = "path:1", clusters: int = 1) -> AsyncIterator[tuple[Secured, Overlay]]:
    secured = Secured(folder, tree, clusters, has_tokens=True)
    async with secured.run() as overlay:
        yield secured, overlay


def test_wrong_tokens_are_refused_at_once_with_one_and_the_same_reason(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            right = secured.add_token("feed", advertise="TRUE")
            other = secured.add_token("other", advertise="TRUE")
            expired = secured.add_token("old", advertise="TRUE", lives_s=-1)
            revoked = secured.add_token("gone", advertise="TRUE")
            secured.revoke("gone")
            mixed = f"feed.{other.partition('.')[2]}"
            wrong = ["", "feed", "feed.", "nobody.x", right[:-1], right + "x", mixed, expired, revoked]
            for token in wrong:
                begin = time.monotonic()
                with pytest.raises(AccessDenied) as caught:
                    await overlay.connect("a.0", ca=secured.ca, token=token)
                assert time.monotonic() - begin < 2.0
                assert caught.value.reason == REFUSAL, token
            async with overlay.connect("a.0", ca=secured.ca, token=right) as client:
                assert client.is_connected

    asyncio.run(test())


def test_the_token_comes_from_the_environment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            monkeypatch.setenv("OCTOPIA_TOKEN", secured.add_token("feed", advertise="TRUE"))
            monkeypatch.setenv("OCTOPIA_CA", str(secured.ca))
            async with overlay.connect("a.0") as client:
                assert client.is_connected

    asyncio.run(test())


def test_a_client_reads_and_publishes_within_its_filters(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path, "path:2", 2) as (secured, overlay):
            feed = secured.add_token("feed", advertise="symbol IN ('IBM', 'SAP') AND account IS NOT NULL")
            reader = secured.add_token("reader", read="symbol = 'IBM'", hide=("account",))
            async with (
                overlay.connect("a.0", ca=secured.ca, token=feed) as publisher,
                overlay.connect("b.1", ca=secured.ca, token=reader) as subscriber,
            ):
                with pytest.raises(RequestRefused, match="may advertise only what is within"):
                    await publisher.advertise("symbol IS NOT NULL AND account IS NOT NULL")
                with pytest.raises(RequestRefused, match="the token reader may not publish"):
                    await subscriber.advertise("symbol = 'IBM'")
                for text in ("account = 'x'", "account IS NULL", "symbol = 'IBM' AND account LIKE 'x%'"):
                    with pytest.raises(RequestRefused, match="attributes that the token hides, got account"):
                        await subscriber.subscribe(text)
                subscription = await subscriber.subscribe("price >= 0 OR symbol IS NOT NULL")
                await publisher.advertise("symbol IN ('IBM', 'SAP') AND account IS NOT NULL AND price >= 0")
                with pytest.raises(RequestRefused, match=r"may publish only what matches .* got no symbol"):
                    await publisher.publish({"price": 1, "account": "x"})
                for price, symbol in enumerate(["SAP", "IBM", "SAP", "IBM"]):
                    await publisher.publish({"symbol": symbol, "price": price, "account": "secret"}, payload=b"text")
                got = [await subscription.next(timeout=PATIENCE_S) for _ in range(2)]
                assert sorted(each["price"] for each in got) == [1, 3]
                assert all(each.publication.attributes.keys() == {"symbol", "price"} for each in got)
                assert [each.payload for each in got] == [b"text"] * 2
                await subscription.unsubscribe()
                assert [each async for each in subscription] == [], "nothing else came"

    asyncio.run(test())


@pytest.mark.parametrize("how", ["revoked", "expired", "changed", "replaced"])
def test_an_open_connection_ends_with_its_token(tmp_path: Path, how: str):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            lives_s = 1.0 if how == "expired" else None
            token = secured.add_token("feed", advertise="TRUE", read="TRUE", lives_s=lives_s)
            kept = secured.add_token("kept", advertise="TRUE", read="TRUE")
            ends: list[octopia.OctopiaError] = []
            async with overlay.connect("a.0", ca=secured.ca, token=kept) as other:
                client = await overlay.connect("a.0", ca=secured.ca, token=token, on_error=ends.append)
                subscription = await client.subscribe("x > 0")
                if how == "revoked":
                    secured.revoke("feed")
                elif how == "changed":
                    _drop(secured, "feed")
                    secured.tokens.write_text(secured.tokens.read_text() + _entry(token, 'read = "x > 1"'))
                elif how == "replaced":
                    _drop(secured, "feed")
                    secured.add_token("feed", advertise="TRUE", read="TRUE")
                if how == "changed":
                    # It comes back with what it may read now.
                    state = overlay._servers[at("a.0")].broker.state
                    await until(lambda: [str(each.interest) for each in state.prt] == ["x > 0 AND x > 1"])
                else:
                    with pytest.raises(ClosedByPeer, match="token") as caught:
                        async with asyncio.timeout(PATIENCE_S):
                            await subscription.next()
                    assert isinstance(caught.value, AccessDenied)
                    assert overlay._servers[at("a.0")].broker.table_sizes()["prt"] == 0
                assert other.is_connected
                await client.close()

    asyncio.run(test())


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_token_that_ends_within_the_handshake_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    async def test() -> None:
        async with asking(tmp_path) as (secured, overlay):
            server = overlay._servers[at("a.0")]
            token = secured.add_token("feed", advertise="TRUE", read="TRUE", lives_s=60.0)
            opening, hello = greeting("slow")
            slow = await Stranger.connect(overlay.url("a.0"))
            slow.say(msgspec.structs.replace(opening, token=token))
            await slow.hear(Opening)
            if how == "revoked":
                secured.revoke("feed")
            else:
                later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=2)
                monkeypatch.setattr(server.gate, "_now", lambda: later)
            await until(lambda: server.gate.permissions_for(token) is None)
            server._expiry.check()  # The broker notices the end before the client greets.
            slow.say(hello)
            closing = (await slow.until_closed()).closing
            assert closing is not None
            assert (closing.code, closing.reason) == (CloseCode.ACCESS_DENIED, ENDED)
            assert not server.node.clients

    asyncio.run(test())


def _drop(secured: Secured, name: str) -> None:
    from octopia.security.tokens import read_tokens, write_tokens

    write_tokens(secured.tokens, [each for each in read_tokens(secured.tokens).values() if each.name != name])


def _entry(token: str, more: str) -> str:
    import hashlib

    name, _, secret = token.partition(".")
    return f'\n[[token]]\nname = "{name}"\nsha256 = "{hashlib.sha256(secret.encode()).hexdigest()}"\n{more}\n'


def test_a_function_gives_a_fresh_token_when_the_old_one_has_expired(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            asked: list[str] = []

            async def fresh() -> str:
                if not asked:
                    asked.append(secured.add_token("first", read="TRUE", lives_s=1.0))
                elif not _is_valid(secured, asked[-1]) and len(asked) == 1:
                    asked.append(secured.add_token("second", read="TRUE"))
                return asked[-1]

            back = asyncio.Event()
            async with overlay.connect("a.0", ca=secured.ca, token=fresh, on_reconnect=back.set) as client:
                await client.subscribe("x > 0")
                await asyncio.wait_for(back.wait(), PATIENCE_S)
                assert len(asked) == 2
                assert client.is_connected

    asyncio.run(test())


def _is_valid(secured: Secured, token: str) -> bool:
    from octopia.security.tokens import read_tokens

    return read_tokens(secured.tokens)[token.partition(".")[0]].is_valid(datetime.datetime.now(datetime.UTC))


def test_an_operator_is_a_client_within_the_filters_of_its_token(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            idle = secured.add_token("idle", role=TokenRole.OPERATOR)
            with pytest.raises(AccessDenied, match="the token idle may send commands, but has no filter"):
                await overlay.connect("a.0", ca=secured.ca, token=idle)
            boss = secured.add_token("boss", role=TokenRole.OPERATOR, advertise="x > 0")
            async with overlay.connect("a.0", ca=secured.ca, token=boss) as client:
                await client.advertise("x > 1")
                with pytest.raises(RequestRefused, match="the token boss may not read"):
                    await client.subscribe("x > 1")

    asyncio.run(test())


@contextlib.asynccontextmanager
async def asking(folder: Path, **limits: int) -> AsyncIterator[tuple[Secured, Overlay]]:
    """Run a broker with limits and tokens, and without TLS."""
    secured = Secured(folder, "path:1", 1, has_tokens=True)
    security = SecuritySettings(client_tokens=str(secured.tokens))
    plain = dataclasses.replace(overlay_from_text("path:1", 1), security=security, limits=ResourceLimits(**limits))
    async with Overlay(plain) as overlay:
        yield secured, overlay


async def ask_as_operator(overlay: Overlay, token: str, source: str = "127.0.0.1") -> Stranger:
    address = overlay._addresses[at("a.0")]
    asker = Stranger(*await asyncio.open_connection(address.host, address.port, local_addr=(source, 0)))
    asker.say(Opening(Role.OPERATOR, "o", token=token), Command(Verb.PING))
    return asker


def test_a_client_that_asks_has_few_connections_and_an_operator_has_any(tmp_path: Path):
    async def test() -> None:
        async with asking(tmp_path, clients=3, connections_per_address=8) as (secured, overlay):
            client = secured.add_token("feed", advertise="TRUE")
            boss = secured.add_token("boss", role=TokenRole.OPERATOR)
            askers = [await ask_as_operator(overlay, client) for _ in range(3)]
            for asker in askers:
                await asker.hear(Answer)
            refused = (await (await ask_as_operator(overlay, client)).until_closed()).closing
            assert refused is not None
            assert refused.code is CloseCode.LIMIT
            assert refused.reason.startswith("expected at most 3 connections with commands for the token feed")
            askers += [await ask_as_operator(overlay, boss) for _ in range(20)]
            for asker in askers:
                await asker.hear(Answer)
                await asker.leave()
            admission = overlay._servers[at("a.0")].admission
            await overlay.wait_until(lambda: not admission._desks, "room")
            again = await ask_as_operator(overlay, client)
            await again.hear(Answer)
            await again.leave()

    asyncio.run(test())


def test_a_client_that_asks_from_elsewhere_is_limited_by_its_address(tmp_path: Path):
    async def test() -> None:
        async with asking(tmp_path, connections_per_address=2) as (secured, overlay):
            client = secured.add_token("feed", advertise="TRUE")
            boss = secured.add_token("boss", role=TokenRole.OPERATOR)
            askers = [await ask_as_operator(overlay, client, "127.0.0.2") for _ in range(2)]
            for asker in askers:
                await asker.hear(Answer)
            refused = (await (await ask_as_operator(overlay, client, "127.0.0.2")).until_closed()).closing
            assert refused is not None
            assert "expected at most 2 connections per address" in refused.reason
            askers.append(await ask_as_operator(overlay, boss, "127.0.0.2"))
            for asker in askers:
                await asker.hear(Answer)
                await asker.leave()

    asyncio.run(test())


def test_a_client_that_asks_nothing_more_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(operating, "IDLE_S", 0.2)

    async def test() -> None:
        async with asking(tmp_path) as (secured, overlay):
            client = secured.add_token("feed", advertise="TRUE")
            boss = secured.add_token("boss", role=TokenRole.OPERATOR)
            staying = await ask_as_operator(overlay, boss)
            asker = await ask_as_operator(overlay, client)
            closing = (await asker.until_closed()).closing
            assert closing is not None
            assert (closing.code, closing.reason) == (CloseCode.TIMEOUT, "expected a command within 0.2 s")
            staying.items.clear()
            staying.say(Command(Verb.PING))
            await staying.hear(Answer)
            await staying.leave()

    asyncio.run(test())


OPERATORS_ONLY = set(Verb) - {Verb.PING, Verb.OVERLAY, Verb.WANTED}


def test_a_client_may_ask_for_addresses_and_for_what_it_may_publish_only(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path, "path:2", 1) as (secured, overlay):
            feed = Credentials(secured.add_token("feed", advertise="x > 0", read="TRUE"), secured.ca)
            async with Operator(parse_url(overlay.url("a.0")), feed) as asker:
                [overlay_report] = await asker.ask(Command(Verb.OVERLAY))
                assert list(overlay_report["brokers"]) == ["a.0", "b.0"]
                [wanted] = await asker.ask(Command(Verb.WANTED, attributes={"x": 1}))
                assert wanted == {"wanted": False}
                with pytest.raises(RequestRefused, match=r"expected x > 0, got x = 0"):
                    await asker.ask(Command(Verb.WANTED, attributes={"x": 0}))
                for verb in OPERATORS_ONLY:
                    with pytest.raises(RequestRefused, match="expected the token of an operator, got feed"):
                        await asker.ask(Command(verb))

    asyncio.run(test())


def test_brokers_of_other_machines_are_asked_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def elsewhere(_: Address) -> bool:
        return False

    async def test() -> None:
        async with running(tmp_path, "path:2", 2) as (secured, overlay):
            reader = secured.add_token("screen", read="TRUE")
            monkeypatch.setattr("octopia.client.operators.is_here", elsewhere)
            monkeypatch.setattr("octopia.cli.contexts.is_here", elsewhere)
            monkeypatch.setenv("OCTOPIA_CA", str(secured.ca))
            assert await find_for_client(overlay.url("a.0")) is None
            monkeypatch.setenv("OCTOPIA_TOKEN", secured.add_token("feed", advertise="x > 0"))
            entry = await find_for_client(overlay.url("a.0"))
            assert entry is not None
            assert await is_wanted(entry, "a.0", {"x": 1}) is False
            async with overlay.connect("b.1", ca=secured.ca, token=reader) as screen:
                await screen.subscribe("x = 1")
                assert await are_wanted(entry, "b.0", [{"x": 1}, {"x": 2}]) == [True, False]
                # A client may ask only about what it may publish.
                assert await are_wanted(entry, "b.0", [{"x": 0}]) == [None]

    asyncio.run(test())


def test_a_token_that_loses_its_role_loses_its_connection(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            boss = Credentials(secured.add_token("boss", role=TokenRole.OPERATOR, read="TRUE"), secured.ca)
            async with Operator(parse_url(overlay.url("a.0")), boss) as operator:
                await operator.ask(Command(Verb.REPORT))
                text = secured.tokens.read_text()
                secured.tokens.write_text(text.replace('role = "operator"', 'role = "client"'))
                server = overlay._servers[at("a.0")]
                await until(lambda: not server.guests)

    asyncio.run(test())


def test_operators_need_a_token_of_that_role(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path, "path:2", 1) as (secured, overlay):
            address = parse_url(overlay.url("a.0"))
            with pytest.raises(AccessDenied):
                async with Operator(address, Credentials("", secured.ca)):
                    pass
            boss = Credentials(secured.add_token("boss", role=TokenRole.OPERATOR), secured.ca)
            async with Operator(address, boss) as operator:
                [report] = await operator.ask(Command(Verb.PING))
                assert report["id"] == "a.0"
                secured.revoke("boss")
                server = overlay._servers[at("a.0")]
                await until(lambda: not server.guests)
                with pytest.raises(AccessDenied):
                    await operator.ask(Command(Verb.PING))

    asyncio.run(test())


def test_an_operator_sees_the_whole_overlay_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def test() -> None:
        async with running(tmp_path, "path:2", 2) as (secured, overlay):
            monkeypatch.setenv("OCTOPIA_TOKEN", secured.add_token("boss", role=TokenRole.OPERATOR))
            monkeypatch.setenv("OCTOPIA_CA", str(secured.ca))
            status = await ask_status(parse_url(overlay.url("b.1")))
            assert status.is_whole, status.problems

    asyncio.run(test())


def test_tokens_that_cannot_be_read_leave_the_old_ones_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            token = secured.add_token("feed", advertise="TRUE")
            async with overlay.connect("a.0", ca=secured.ca, token=token) as client:
                secured.tokens.write_text("[[token]]\nname = 3\n")
                await until(lambda: any("stale_credentials" in each.message for each in caplog.records))
                assert client.is_connected
                async with overlay.connect("a.0", ca=secured.ca, token=token) as again:
                    await again.advertise("x > 0")
                    await again.publish(Publication({"x": 1}))

    asyncio.run(test())


def test_a_token_that_is_no_text_is_the_callers_mistake():
    with pytest.raises(UsageError, match="expected a token"):
        octopia.connect(token=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="got a longer one"):
        octopia.connect(token="x" * 1001)


def test_a_function_that_fails_and_an_authority_that_is_missing_are_reported(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):

            def fail() -> str:
                raise KeyError("vault")

            with pytest.raises(octopia.Unavailable, match=r"from the program's function, got: KeyError\('vault'\)"):
                await overlay.connect("a.0", ca=secured.ca, token=fail, timeout=0.3)
            with pytest.raises(octopia.BrokenCredentials, match=r"missing\.pem"):
                await overlay.connect("a.0", ca=tmp_path / "missing.pem", token="x")

    asyncio.run(test())


def test_a_client_survives_a_function_that_fails_for_a_while(tmp_path: Path):
    async def test() -> None:
        async with running(tmp_path) as (secured, overlay):
            token, calls = secured.add_token("feed", read="TRUE"), []

            def flaky() -> str:
                calls.append(len(calls))
                if len(calls) in (2, 3):
                    raise OSError("no network")
                return token

            back = asyncio.Event()
            async with overlay.connect("a.0", ca=secured.ca, token=flaky, on_reconnect=back.set):
                overlay.crash("a.0")
                await overlay.restart("a.0")
                await asyncio.wait_for(back.wait(), PATIENCE_S)
                assert len(calls) >= 4

    asyncio.run(test())
