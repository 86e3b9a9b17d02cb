"""HTTP for a whole overlay on one machine: a separate process, which asks the brokers as an operator does.

Brokers are busy with publications, and their processes may die. This process keeps showing all brokers if one dies, and
costs each of them one report per tick.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence

from octopia.addresses import Address
from octopia.errors import Unavailable, UsageError
from octopia.http.access import is_encrypted, operators_of, tls_of
from octopia.http.guard import Guard, check_token
from octopia.http.server import HttpServer, bind
from octopia.http.sources import LocalSource, OperatorSource
from octopia.overlay.files import Overlay
from octopia.runtime.server import BrokerServer
from octopia.security.tokens import own_operator
from octopia.transport.loop import run_loop

REVIVE_S = 2.0
"""The shortest time between two starts of the process."""
STOP_S = 3.0
"""The time limit for it to stop."""
PARENT_S = 1.0
"""The interval at which it checks that its parent is there."""
_PORT_MAX = 65_535
_ANYWHERE = ("0.0.0.0", "::")

_log = logging.getLogger(__name__)


def parse_address(text: str) -> Address:
    """Return the address of a port such as ``7480`` or ``0.0.0.0:7480``; loopback unless it names a host."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _PORT_MAX:
        raise UsageError(f"expected a port from 0 to {_PORT_MAX}, or HOST:PORT, for HTTP, got {text!r}")
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def check(text: str, token: str, overlay: Overlay, broker: str) -> tuple[Address, Guard]:
    """Return the address and the guard of a port beside a broker.

    In an overlay with tokens, those of operators are accepted, and ``token``, if it is given. Raise UsageError if other
    machines could use the port without a token.
    """
    address = parse_address(text)
    accepts = operators_of(overlay, broker)
    secret = check_token(token)
    return address, Guard(address.host, secret, accepts, is_encrypted=is_encrypted(overlay, address.host))


def page_of(address: Address, guard: Guard) -> str:
    """Return the URL of the live map, as commands print it: a secret does not belong on a screen or in a log."""
    host = "127.0.0.1" if address.host in _ANYWHERE else address.host
    query = "?token=TOKEN" if guard.needs_token else ""
    scheme = "https" if guard.is_encrypted else "http"
    return f"{scheme}://{Address(host, address.port)}/{query}"


def invitation(address: Address, guard: Guard) -> list[str]:
    """Return the lines that a command prints about the live map."""
    token = f"; TOKEN is {guard.expected_token}" if guard.needs_token else ""
    lines = [f"open {page_of(address, guard)} in a browser for a live map{token}"]
    if address.host in _ANYWHERE:
        lines.append(f"other machines reach the live map at port {address.port} of every address of this machine")
    if not guard.is_local and not guard.is_encrypted:
        lines.append(
            f"warning: HTTP at {address} is not encrypted, so the token can be read on the way; configure a "
            "certificate in [security] of the overlay file"
        )
    return lines


def with_own_operator(overlay: Overlay) -> tuple[Overlay, str]:
    """Return an overlay whose brokers accept an operator of this command, and its token, empty without tokens."""
    if not overlay.security.has_tokens:
        return overlay, ""
    token, secret_hash = own_operator()
    return dataclasses.replace(overlay, security=dataclasses.replace(overlay.security, own_operator=secret_hash)), token


@contextlib.asynccontextmanager
async def beside(
    overlay: Overlay, servers: Sequence[BrokerServer], listener: socket.socket, guard: Guard
) -> AsyncIterator[None]:
    """Serve HTTP for the brokers of this process, in their event loop."""
    server = HttpServer(LocalSource(overlay, servers), guard)
    await server.listen(listener, tls_of(overlay, str(servers[0].id)) if guard.is_encrypted else None)
    try:
        yield
    finally:
        await server.close()


class HttpProcess:
    """The process that serves HTTP for a whole overlay."""

    def __init__(self, overlay: Overlay, address: Address, guard: Guard, own_token: str = ""):
        """Serve at an address; ``own_token`` is that of its operators at the brokers."""
        self._overlay = overlay
        self._guard = guard
        self._own_token = own_token
        self._context = multiprocessing.get_context("fork")
        self._listener: socket.socket | None = bind(address)
        self.address = Address(*self._listener.getsockname()[:2])
        self.invitation = invitation(self.address, guard)
        self._started_s = 0.0
        self._process = self._fork()

    def _fork(self) -> multiprocessing.process.BaseProcess:
        self._started_s = time.monotonic()
        listener = self._listener or bind(self.address)
        arguments = (self._overlay, listener, self._guard, self._own_token)
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        gc.freeze()
        try:
            process.start()
        finally:
            gc.unfreeze()
            listener.close()  # Only that process may hold it, and not the workers that are forked later.
            self._listener = None
        return process

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid or 0

    def poll(self) -> None:
        """Start the process again if it has died."""
        if not self._process.is_alive() and time.monotonic() - self._started_s > REVIVE_S:
            _log.warning("event=http_died exit_code=%s", self._process.exitcode)
            try:
                self._process = self._fork()
            except (OSError, Unavailable) as error:  # The brokers keep running; the next call tries again.
                _log.warning("event=http_not_restarted reason=%s", json.dumps(str(error)))

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join(STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(overlay: Overlay, listener: socket.socket, guard: Guard, own_token: str) -> None:
    """Serve HTTP until SIGTERM, or until the parent is gone; only the parent handles SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()

    async def main() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        server = HttpServer(OperatorSource(overlay, own_token), guard)
        await server.listen(listener, tls_of(overlay, str(overlay.scot.brokers[0])) if guard.is_encrypted else None)
        while not stop.is_set() and os.getppid() == parent:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PARENT_S)
        await server.close()

    run_loop(main())
