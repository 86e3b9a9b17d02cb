"""``octopia broker`` and ``octopia up``: run brokers on the network."""

from __future__ import annotations

import dataclasses
import ipaddress
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from octopia.addresses import Address
from octopia.cli.lazy import examples
from octopia.cli.options import Clusters, Http, HttpToken, OverlayArgument, complete_brokers, find_overlay
from octopia.cli.output import console, count_of, notify
from octopia.cli.status import REFRESH_S, status_table
from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay
from octopia.runtime.eventlog import JsonFormatter
from octopia.runtime.process import Workers, exclude_from_collection, run_brokers
from octopia.runtime.supervisor import READY, notify_supervisor
from octopia.settings import LogFormat, LogLevel, LogSettings
from octopia.transport.loop import run_loop

if TYPE_CHECKING:
    from octopia.http.process import HttpProcess
    from octopia.runtime.server import BrokerServer

_MOST_ROWS = 60
_PATIENCE_S = 5.0
"""The time that ``up`` waits for brokers that cannot start before it continues without them."""

Verbose = Annotated[bool, typer.Option("--verbose", help="Log every connection.")]
ListenHost = Annotated[
    str,
    typer.Option("--host", metavar="HOST", help="Listen at this host.", show_default="the host in the overlay file"),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON objects, one per line.")]


@examples(
    "octopia broker overlay.toml b.3",
    "octopia broker overlay.toml b.0 b.1 b.2 b.3",
    "octopia broker overlay.toml b.3 --http 7480",
    "octopia broker overlay.toml b.3 --host 0.0.0.0",
)
def broker(
    overlay: OverlayArgument,
    brokers: Annotated[
        list[str],
        typer.Argument(metavar="BROKER", help="The brokers to run here, such as b.3.", autocompletion=complete_brokers),
    ],
    clusters: Clusters = None,
    http: Http = None,
    http_token: HttpToken = "",
    host: ListenHost = "",
    verbose: Verbose = False,
    log_json: LogJson = False,
) -> None:
    """Run one or more brokers of an overlay in this process.

    All machines use the same overlay file, which gives the address of each broker. Without one, brokers listen on this
    machine only. Ctrl-C or SIGTERM stops the process after it has passed on all publications that it accepted.
    """
    found = find_overlay(overlay, clusters)
    chosen = list(dict.fromkeys(found.scot.broker(name) for name in brokers))
    _begin_log(found.log, verbose=verbose, log_json=log_json)
    screen = console(stderr=True)
    invitation, beside = _http_beside(found, str(chosen[0]), http, http_token)

    def show_addresses() -> None:
        for each in chosen:
            at = _listening(found, each, host)
            notify(screen, f"{each} listens at {at}{_audience([at])}")
        _warn_of_exposure(found, chosen, host, screen)
        for line in invitation:
            notify(screen, line)
        notify_supervisor(READY)

    exclude_from_collection()
    lost = run_loop(run_brokers(found, chosen, on_listening=show_addresses, beside=beside, host=host))
    if lost:
        notify(screen, f"stopped; {lost} publications could not be passed on in time and are lost")
        raise typer.Exit(1)
    notify(screen, "drained and stopped")


@examples(
    "octopia up overlay.toml",
    "octopia up path:3 --clusters 4 --processes 2",
    "octopia up paper:se --plain",
    "octopia up overlay.toml --plain --log-json",
    "octopia up path:3 --clusters 4 --http 7480",
)
def up(
    overlay: OverlayArgument,
    clusters: Clusters = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of processes that share the brokers.", show_default="one per CPU")
    ] = None,
    host: ListenHost = "",
    plain: Annotated[bool, typer.Option("--plain", help="Print a line when ready instead of a live table.")] = False,
    http: Http = None,
    http_token: HttpToken = "",
    verbose: Verbose = False,
    log_json: LogJson = False,
) -> None:
    """Run all brokers of an overlay on this machine.

    A table shows their state. Ctrl-C stops them after they have delivered all publications that they accepted; a second
    Ctrl-C stops them at once. A process that dies is restarted, at intervals of up to 10 s. The log goes to stderr.
    """
    found = find_overlay(overlay, clusters)
    _check_local(found)
    _begin_log(found.log, verbose=verbose, log_json=log_json)
    found, port = _http_process(found, http, http_token)
    workers = Workers(found, processes or os.cpu_count() or 1, host=host)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    screen = console()
    try:
        lost = _run_until_stopped(workers, port, found, screen, host, is_plain=plain or not screen.is_terminal)
    except KeyboardInterrupt:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        workers.stop_now()
        notify(screen, "all brokers were stopped at once; publications that they had not passed on are lost")
        raise typer.Exit(1) from None
    finally:
        if port is not None:
            port.stop()
    if lost:
        notify(screen, f"all brokers have stopped; {lost} publications could not be passed on in time and are lost")
        raise typer.Exit(1)
    notify(screen, "all brokers have stopped")


def _run_until_stopped(
    workers: Workers, port: HttpProcess | None, overlay: Overlay, screen: Console, host: str, *, is_plain: bool
) -> int:
    """Run until the first KeyboardInterrupt, and drain; return the number of publications that are lost."""
    try:
        _wait_until_ready(workers, overlay, screen, host)
        for line in () if port is None else port.invitation:
            notify(screen, line)
        notify_supervisor(READY)
        _warn_of_exposure(overlay, overlay.scot.brokers, host, console(stderr=True))
        if is_plain:
            _wait(workers, port)
        else:
            _watch(workers, port, overlay, screen)
    except KeyboardInterrupt:
        notify(screen, "stopping; accepted publications are delivered first; Ctrl-C again stops at once")
    except BaseException:
        workers.stop()
        raise
    return workers.stop()


def _http_beside(
    overlay: Overlay, broker: str, http: str | None, token: str
) -> tuple[list[str], Callable[[Sequence[BrokerServer]], AbstractAsyncContextManager[None]] | None]:
    """Return what to say about the live map, and what serves it in the process of the brokers."""
    if http is None:
        return [], None
    from octopia.http.process import beside, check, invitation
    from octopia.http.server import bind

    address, guard = check(http, token, overlay, broker)
    listener = bind(address)
    bound = Address(*listener.getsockname()[:2])
    return invitation(bound, guard), lambda servers: beside(overlay, servers, listener, guard)


def _http_process(overlay: Overlay, http: str | None, token: str) -> tuple[Overlay, HttpProcess | None]:
    """Return the overlay to run, whose brokers accept the process that serves HTTP, and that process."""
    if http is None:
        return overlay, None
    from octopia.http.process import HttpProcess, check, with_own_operator

    address, guard = check(http, token, overlay, str(overlay.scot.brokers[0]))
    overlay, own_token = with_own_operator(overlay)
    return overlay, HttpProcess(overlay, address, guard, own_token)


def _begin_log(settings: LogSettings, *, verbose: bool, log_json: bool) -> None:
    is_json = log_json or settings.format is LogFormat.JSON
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter("%(levelname)s %(message)s"))
    is_detailed = verbose or settings.level is LogLevel.INFO
    logging.basicConfig(level=logging.INFO if is_detailed else logging.WARNING, handlers=[handler])


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _listening(overlay: Overlay, broker: BrokerId, host: str) -> Address:
    at = overlay.addresses[broker]
    return dataclasses.replace(at, host=host or at.host)


def _audience(addresses: Sequence[Address]) -> str:
    """Return who can connect, for the end of a sentence: other machines need no mention."""
    return ", for this machine only" if all(_is_loopback(each.host) for each in addresses) else ""


def _warn_of_exposure(overlay: Overlay, brokers: Sequence[BrokerId], host: str, screen: Console) -> None:
    """Print a warning if other machines can reach brokers that nothing protects."""
    hosts = dict.fromkeys(_listening(overlay, each, host).host for each in brokers)
    exposed = [each for each in hosts if not _is_loopback(each)]
    if not exposed:
        return
    if not overlay.security.has_tls:
        notify(
            screen,
            f"warning: anyone who can reach {', '.join(exposed)} can publish, read everything, and act as a broker; "
            "configure [security] in the overlay file",
        )
    elif not overlay.security.has_tokens:
        notify(
            screen,
            f"warning: anyone who can reach {', '.join(exposed)} can publish and read everything; "
            "configure client_tokens in [security] of the overlay file",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_local(overlay: Overlay) -> None:
    here = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::")
    elsewhere = {address.host for address in overlay.addresses.values()}.difference(here)
    if elsewhere:
        raise UsageError(
            f"expected an overlay whose brokers are all on this machine, got {', '.join(sorted(elsewhere))}; "
            "start each machine's brokers with: octopia broker OVERLAY BROKER..."
        )


def _wait_until_ready(workers: Workers, overlay: Overlay, screen: Console, host: str) -> None:
    begin = time.monotonic()
    while not workers.is_ready():
        if workers.problems() and time.monotonic() - begin > _PATIENCE_S:
            break
        workers.wait(REFRESH_S)
    count, took = len(overlay.scot.brokers), time.monotonic() - begin
    addresses = [_listening(overlay, each, host) for each in overlay.scot.brokers]
    span = f"{addresses[0]} to {addresses[-1]}" if count > 1 else f"{addresses[0]}"
    where = f"{span}{_audience(addresses)}"
    up = count - len(workers.problems())
    share = count_of(count, "brokers") if up == count else f"{up} of {count_of(count, 'brokers')}"
    are, them = ("is", "it") if count == 1 else ("are", "them")
    notify(screen, f"{share} {are} up after {took:.1f} s, at {where}; Ctrl-C stops {them}")
    for broker, problem in workers.problems().items():
        notify(screen, f"{broker} is {problem}")


def _poll(workers: Workers, port: HttpProcess | None) -> dict[str, dict[str, Any]]:
    if port is not None:
        port.poll()
    return workers.poll()


def _wait(workers: Workers, port: HttpProcess | None) -> None:
    while True:
        _poll(workers, port)
        time.sleep(REFRESH_S)


def _watch(workers: Workers, port: HttpProcess | None, overlay: Overlay, screen: Console) -> None:
    begin = time.monotonic()
    brokers = [str(each) for each in overlay.scot.brokers]
    with Live(console=screen, auto_refresh=False) as live:
        while True:
            reports = _poll(workers, port)
            title = f"{overlay.name}: {len(reports)} of {len(brokers)} brokers, {time.monotonic() - begin:.0f} s"
            live.update(status_table(title, brokers[:_MOST_ROWS], reports, workers.problems()), refresh=True)
            time.sleep(REFRESH_S)
