"""The HTTP port of a protected overlay: for operators, as long as their tokens are valid, and HTTPS beyond loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from http_port import feed_of, get, next_message, tell
from raw_client import run
from secured import Secured
from websockets.exceptions import ConnectionClosed, InvalidStatus

from octopia.addresses import Address
from octopia.client.credentials import Credentials
from octopia.client.operators import Operator
from octopia.errors import AccessDenied, UsageError
from octopia.experiments.local_overlay import at_free_addresses, free_addresses
from octopia.http.access import tls_of
from octopia.http.process import check
from octopia.http.server import HttpServer, bind
from octopia.http.sources import LocalSource
from octopia.ids import BrokerId
from octopia.protocol import Command, Verb
from octopia.runtime.local import Overlay
from octopia.security.tokens import TokenRole, own_operator

WAIT_S = 20.0
PATHS = ["/", "/metrics", "/brokerz", "/linkz", "/civz", "/tablez", "/clientz", "/feed", "/main.js"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def secured(folder: Path) -> tuple[Secured, str, str]:
    """Return a protected overlay of two brokers, the token of an operator, and that of a client."""
    made = Secured(folder, "path:2", 1, has_tokens=True)
    operator = made.add_token("ops", role=TokenRole.OPERATOR)
    return made, operator, made.add_token("feed", advertise="TRUE", read="TRUE")


class Port:
    """An HTTP port beside the brokers of a protected overlay, in this process."""

    def __init__(self, made: Secured, host: str = "127.0.0.1"):
        self._made = made
        self._host = host
        self.overlay = made.run()

    async def __aenter__(self) -> Address:
        await self.overlay.start()
        described = self._made.overlay
        address, guard = check(f"{self._host}:0", "", described, "a.0")
        self.server = HttpServer(LocalSource(described, list(self.overlay._servers.values())), guard)
        tls = tls_of(described, "a.0") if guard.is_encrypted else None
        bound = await self.server.listen(bind(address), tls)
        return Address("127.0.0.1", bound.port)

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()
        await self.overlay.stop()


def test_only_operators_may_ask(tmp_path: Path) -> None:
    made, operator, client = secured(tmp_path)

    async def scenario() -> None:
        async with Port(made) as port:
            for path in PATHS:
                assert (await get(port, path))[0] == 401
                assert (await get(port, path, Authorization=f"Bearer {client}"))[0] == 401
                assert (await get(port, path, Authorization=f"Bearer {operator}x"))[0] == 401
            status, headers, body = await get(port, "/")
            assert headers["www-authenticate"] == "Bearer"
            assert b"expected the token of an operator" in body
            for path in set(PATHS) - {"/feed"}:
                assert (await get(port, path, Authorization=f"Bearer {operator}"))[0] == 200
            assert (await get(port, "/healthz"))[0] == 200
            status, headers, _ = await get(port, f"/?token={operator}")
            assert (status, headers["location"]) == (303, "/")
            cookie = headers["set-cookie"]
            assert cookie == f"octopia_token_{port.port}={operator}; HttpOnly; SameSite=Strict; Path=/"
            assert (await get(port, "/linkz", Cookie=cookie.partition(";")[0]))[0] == 200
            with pytest.raises(InvalidStatus, match="401"):
                async with feed_of(port):
                    raise AssertionError("expected no feed")

    run(scenario())


def test_a_feed_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    made, operator, _ = secured(tmp_path)

    async def scenario() -> None:
        headers = {"Authorization": f"Bearer {operator}"}
        async with Port(made) as port, feed_of(port, additional_headers=headers) as socket:
            await next_message(socket, lambda message: message["type"] == "tick")
            assert (await tell(socket, verb="throttle", link="a.0>b.0", rate=50))["ok"]
            made.revoke("ops")
            with pytest.raises(ConnectionClosed) as caught:
                await next_message(socket, lambda message: False)
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "the token has expired or was revoked")
            assert (await get(port, "/linkz", **headers))[0] == 401

    run(scenario())


def test_beyond_loopback_it_speaks_https_with_the_certificate_of_a_broker(tmp_path: Path) -> None:
    made, operator, _ = secured(tmp_path)

    def fetch(url: str, context: ssl.SSLContext) -> tuple[int, str]:
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {operator}"})
        with urllib.request.urlopen(asked, timeout=WAIT_S, context=context) as response:
            return response.status, response.read().decode()

    async def scenario() -> None:
        async with Port(made, "0.0.0.0") as port:
            trusting = ssl.create_default_context(cafile=made.ca)
            status, body = await asyncio.to_thread(fetch, f"https://{port}/linkz", trusting)
            assert (status, list(json.loads(body)["links"])) == (200, ["a.0>b.0", "b.0>a.0"])
            with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
                await asyncio.to_thread(fetch, f"https://{port}/linkz", ssl.create_default_context())
            reader, writer = await asyncio.open_connection(port.host, port.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" not in await asyncio.wait_for(reader.read(), WAIT_S)
            writer.close()
            shown = await asyncio.to_thread(ssl.get_server_certificate, (port.host, port.port))
            made.issue("a.0")  # A new certificate, without a restart.
            async with asyncio.timeout(WAIT_S):
                while await asyncio.to_thread(ssl.get_server_certificate, (port.host, port.port)) == shown:
                    pass
            assert (await asyncio.to_thread(fetch, f"https://{port}/healthz", trusting))[0] == 200

    run(scenario())


def test_brokers_accept_the_operator_of_their_own_command_only(tmp_path: Path) -> None:
    made, _, _ = secured(tmp_path)
    ours, theirs = own_operator(), own_operator()

    async def scenario() -> None:
        security = dataclasses.replace(made.overlay.security, own_operator=ours[1])
        async with Overlay(dataclasses.replace(made.overlay, security=security)) as overlay:
            at = dataclasses.replace(overlay._addresses[BrokerId("a", 0)], broker="a.0", speaks_tls=True)
            async with Operator(at, Credentials(ours[0], made.ca)) as accepted:
                (report,) = await accepted.ask(Command(Verb.REPORT))
            assert report["id"] == "a.0"
            with pytest.raises(AccessDenied):
                await Operator(at, Credentials(theirs[0], made.ca)).open()

    run(scenario())


def test_a_port_beyond_loopback_needs_no_other_token_than_those_of_operators(tmp_path: Path) -> None:
    made, _, _ = secured(tmp_path)
    _, guard = check("0.0.0.0:7480", "", made.overlay, "a.0")
    assert guard.needs_token
    without = dataclasses.replace(made.overlay, security=dataclasses.replace(made.overlay.security, client_tokens=""))
    with pytest.raises(UsageError, match="OCTOPIA_HTTP_TOKEN"):
        check("0.0.0.0:7480", "", without, "a.0")


def write_overlay(made: Secured, file: Path) -> None:
    """Write the file of a protected overlay at free addresses."""
    overlay = at_free_addresses(made.overlay)
    places = "\n".join(
        f'[brokers."{broker}"]\nhost = "{address.host}"\nport = {address.port}'
        for broker, address in overlay.addresses.items()
    )
    security = '[security]\nca = "ca.pem"\ncertificate = "{broker}.pem"\nkey = "{broker}.key"\n'
    file.write_text(f'tree = "path:2"\nclusters = 1\n{places}\n{security}client_tokens = "tokens.toml"\n')


@pytest.mark.parametrize("command", [["up", "--plain"], ["broker", "a.0"]], ids=["up", "broker"])
def test_the_commands_serve_operators_of_a_protected_overlay(command: list[str], tmp_path: Path) -> None:
    made, operator, client = secured(tmp_path)
    file = tmp_path / "overlay.toml"
    write_overlay(made, file)
    (port,) = free_addresses(1)
    name, *rest = command
    arguments = [sys.executable, "-m", "octopia", name, str(file), *rest, "--http", str(port.port)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            expected = f"open http://{port}/?token=TOKEN in a browser for a live map; TOKEN is the token of an operator"
            assert any(expected in line for line in lines)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://{port}/linkz", timeout=WAIT_S)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://{port}/linkz?token={client}", timeout=WAIT_S)
            with urllib.request.urlopen(f"http://{port}/linkz?token={operator}", timeout=WAIT_S) as response:
                links = json.loads(response.read())["links"]
            assert list(links) == (["a.0>b.0", "b.0>a.0"] if name == "up" else ["a.0>b.0"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)
    assert process.returncode == 0


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_the_page_works_with_the_token_of_an_operator_and_says_when_it_ends(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    made, operator, client = secured(tmp_path)

    async def scenario() -> None:
        async with Port(made) as port, playwright.async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                page = await browser.new_page()
                for refused in ("", f"?token={client}"):
                    answer = await page.goto(f"http://{port}/{refused}")
                    assert answer.status == 401
                    assert "expected the token of an operator" in await page.inner_text("body")
                complaints: list[str] = []
                page.on("console", lambda each: complaints.append(each.text) if each.type == "error" else None)
                page.on("pageerror", lambda error: complaints.append(str(error)))
                await page.goto(f"http://{port}/?token={operator}")
                await page.wait_for_selector("#connection[data-state=live]")
                assert page.url == f"http://{port}/"  # The token is in a cookie, and not in the history.
                await page.focus('[data-link="a.0>b.0"]')
                await page.keyboard.press("Enter")
                await page.fill("#link-rate", "20")
                await page.click("button[data-verb=throttle]")
                await page.wait_for_selector('[data-for="a.0>b.0"][data-text*="≤20/s"]')
                assert complaints == []
                made.revoke("ops")
                await page.wait_for_selector("#connection[data-state=denied]")
                assert "revoked" in await page.inner_text("#connection")
            finally:
                await browser.close()

    run(scenario())


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_page_whose_token_ends_while_it_is_not_connected_says_so(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    made, operator, _ = secured(tmp_path)

    async def scenario() -> None:
        running = Port(made)
        async with running as port, playwright.async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                page = await browser.new_page()
                await page.goto(f"http://{port}/?token={operator}")
                await page.wait_for_selector("#connection[data-state=live]")
                made.revoke("ops")
                for connection in list(running.server.connections):
                    connection.abort()  # The page has not been told why.
                await page.wait_for_selector("#connection[data-state=denied]")
            finally:
                await browser.close()

    run(scenario())
