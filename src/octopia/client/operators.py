"""The operator's side of running brokers: ask for reports and addresses, and change links.

An operator connects like a client and sends one command after another. Brokers accept operators with a token of that
role, or, if they have no tokens, from their own machine only. ``runtime.operating`` is the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from octopia.addresses import Address
from octopia.client.credentials import Credentials, find_credentials
from octopia.content import Disjunction, Value, parse_filter
from octopia.errors import InvalidFilter, NetworkError, PeerError, RequestRefused, Unavailable
from octopia.protocol import Answer, CloseCode, Command, Opening, Role, Verb, WireItem
from octopia.transport import Connection
from octopia.wire import Limits

OPEN_S = 4.0
"""The time limit for connecting an operator, up to the broker's greeting."""
ANSWER_S = 5.0
"""The time limit for an answer to an operator."""
_CLOSING_S = 1.0
_ADVERTISEMENTS_MAX = 100
"""The advertisements of each region that a filter is compared with."""
_COMMANDS_AT_ONCE = 50
ANSWER_LIMITS = Limits(control_bytes_max=64 * 1024 * 1024)
"""The size of an answer: one that lists tables may be large."""


def is_connected(report: dict[str, Any]) -> bool:
    """Return whether a broker accepts publications and all of its links are up."""
    return bool(report["ready"]) and all(link["up"] for link in report["links"].values())


class Asker:
    """The operator's side of a connection, which waits for one answer at a time."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.answers: asyncio.Queue[Answer | None] = asyncio.Queue()
        self.reason: PeerError | None = None

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Take the broker's Opening, then its answers."""
        for item in items:
            if isinstance(item, Opening) and not self.opened.done():
                connection.opened()
                self.opened.set_result(item.sender)
            elif isinstance(item, Answer):
                self.answers.put_nowait(item)

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing: commands are few."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Wake the call that waits for an answer: there will be none."""
        self.reason = reason
        self.answers.put_nowait(None)
        if not self.opened.done():
            self.opened.set_exception(reason or Unavailable("the connection was closed before the broker answered"))


class Operator:
    """A connection to a broker that carries commands; use it with ``async with``."""

    def __init__(self, address: Address, credentials: Credentials | None = None):
        self.address = address
        self._credentials = credentials or find_credentials()
        self._asker = Asker()
        self._connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        """True if commands can be sent."""
        return self._connection is not None and self._connection.is_open

    async def open(self) -> None:
        """Connect; raise Unavailable, or the reason why the broker does not accept this operator."""
        token = await self._credentials.token()
        try:
            async with asyncio.timeout(OPEN_S):
                await self._greet(await self._connect(), token)
        except TimeoutError:
            raise Unavailable(
                f"expected a greeting from a broker at {self.address} within {OPEN_S:g} s, got none"
            ) from None

    async def _connect(self) -> Connection:
        loop, address = asyncio.get_running_loop(), self.address
        tls = self._credentials.tls_towards(address)
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self._asker, ANSWER_LIMITS, tls), address.host, address.port
            )
        except UnicodeError:
            raise Unavailable(f"no broker can be at {address}: the host name is not valid") from None
        except OSError as error:
            raise Unavailable(
                f"no broker answers at {address} ({error.strerror or error}): is one running? "
                "Start one with `octopia up`"
            ) from None
        self._connection = connection
        return connection

    async def _greet(self, connection: Connection, token: str) -> None:
        connection.send([Opening(Role.OPERATOR, "operator", broker=self.address.broker, token=token)])
        try:
            await self._asker.opened
        except BaseException:
            # A peer that has not greeted may never close its end.
            connection.abort()
            await connection.wait_closed()
            raise

    def drop(self) -> None:
        """Close the connection, and do not wait for its end."""
        if self._connection is not None:
            self._connection.close(CloseCode.DONE)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._connection is None:
            return
        if isinstance(error, asyncio.CancelledError):
            self._connection.abort()  # The time of the caller is over.
        await self._close(self._connection)

    @staticmethod
    async def _close(connection: Connection) -> None:
        """Close the connection, and wait for its end; an event loop that stops earlier reports an error."""
        connection.close(CloseCode.DONE)
        try:
            async with asyncio.timeout(_CLOSING_S):
                await connection.wait_closed()
        except TimeoutError:
            connection.abort()
            await connection.wait_closed()

    async def ask(self, *commands: Command) -> list[dict[str, Any]]:
        """Send commands, and return the reports."""
        assert self._connection is not None
        self._connection.send(commands)
        try:
            return [
                report_of(await asyncio.wait_for(self._asker.answers.get(), ANSWER_S), self._asker) for _ in commands
            ]
        except TimeoutError:
            raise Unavailable(
                f"expected an answer from the broker at {self.address} within {ANSWER_S:g} s, got none"
            ) from None


async def ask(address: Address, *commands: Command) -> list[dict[str, Any]]:
    """Send commands to a broker over a new connection, and return its reports."""
    async with Operator(address) as operator:
        return await operator.ask(*commands)


def report_of(answer: Answer | None, asker: Asker) -> dict[str, Any]:
    """Return the report of an answer; raise RequestRefused, or the reason why the connection ended."""
    if answer is None:
        raise asker.reason or Unavailable("the broker closed the connection")
    if answer.problem:
        raise RequestRefused(answer.problem)
    return answer.report


@dataclasses.dataclass(frozen=True, slots=True)
class OverlayStatus:
    """The state of a running overlay: the reports of the brokers that answered, and why the others did not."""

    name: str
    tree: str
    clusters: int
    brokers: tuple[str, ...]
    reports: dict[str, dict[str, Any]]
    problems: dict[str, str]

    @property
    def is_whole(self) -> bool:
        """True if all brokers run and are connected to all of their neighbours."""
        return not self.problems and all(map(is_connected, self.reports.values()))


async def ask_overlay(entry: Address) -> tuple[dict[str, Any], dict[str, Address]]:
    """Ask one broker for its overlay; return the answer, and the addresses of all brokers by name."""
    (overlay,) = await ask(entry, Command(Verb.OVERLAY))
    has_tls, brokers = entry.speaks_tls, overlay["brokers"].items()
    # Under TLS a broker is identified by its name.
    return overlay, {name: Address(host, port, name if has_tls else "", has_tls) for name, (host, port) in brokers}


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """The answers of all brokers of an overlay to the same command, and why the others gave none."""

    overlay: dict[str, Any]
    addresses: dict[str, Address]
    reports: dict[str, dict[str, Any]]
    problems: dict[str, str]

    @property
    def brokers(self) -> tuple[str, ...]:
        """The names of all brokers."""
        return tuple(self.addresses)


async def ask_everyone(entry: Address, command: Command) -> Answers:
    """Ask one broker for its overlay, and then all brokers the same; raise RequestRefused if nobody does it."""
    overlay, addresses = await ask_overlay(entry)
    reports: dict[str, dict[str, Any]] = {}
    known, problems = overlay["problems"], dict[str, str]()
    refusals: list[RequestRefused] = []

    async def collect(broker: str, address: Address) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                [reports[broker]] = await ask(address, command)
        except (NetworkError, TimeoutError):
            problems[broker] = known.get(broker, "not running")
        except PeerError as error:
            problems[broker] = known.get(broker, str(error))
        except RequestRefused as error:
            problems[broker] = str(error)
            refusals.append(error)

    await asyncio.gather(*(collect(broker, address) for broker, address in addresses.items()))
    if refusals and not reports:
        raise refusals[0]
    return Answers(overlay, addresses, reports, problems)


async def ask_status(entry: Address) -> OverlayStatus:
    """Ask one broker for its overlay, and then all brokers for their reports."""
    return status_of(await ask_everyone(entry, Command(Verb.REPORT)))


def status_of(found: Answers) -> OverlayStatus:
    """Return the state of an overlay from the answers of its brokers."""
    overlay = found.overlay
    return OverlayStatus(
        overlay["name"], overlay["tree"], overlay["clusters"], found.brokers, found.reports, found.problems
    )


async def is_wanted(entry: Address, host: str, attributes: Mapping[str, Value]) -> bool | None:
    """Return whether some subscription matches a publication of clients of the broker ``host`` now, or None."""
    (answer,) = await are_wanted(entry, host, [attributes])
    return answer


async def are_wanted(entry: Address, host: str, publications: Sequence[Mapping[str, Value]]) -> list[bool | None]:
    """Return for each publication of clients of the broker ``host`` whether some subscription matches it now.

    Each broker knows the subscriptions of its cluster, so one broker per cluster is asked, those of the host's region.
    The answer is None if one of them cannot be asked, and no other says yes. Without a token, brokers of other machines
    would refuse to answer and log it, so they are not asked.
    """
    unknown: list[bool | None] = [None] * len(publications)
    has_token = bool(await find_credentials().token())
    if not (has_token or await is_here(entry)):
        return unknown
    region = host.rpartition(".")[0]
    brokers = await _brokers_where(entry, lambda name: name.rpartition(".")[0] == region)
    commands = [Command(Verb.WANTED, attributes=dict(each)) for each in publications]
    asked = brokers if has_token else await _those_here(brokers)
    answers = [[bool(each["wanted"]) for each in reports] for reports in await _ask_each(asked, commands)]
    if not answers:
        return unknown
    negative = False if len(answers) == len(brokers) else None
    return [any(of_one) or negative for of_one in zip(*answers, strict=True)]


async def is_here(address: Address) -> bool:
    """Return whether an address is one of this machine: whether a socket can be bound to it."""
    loop = asyncio.get_running_loop()
    try:
        for family, kind, _, _, place in await loop.getaddrinfo(address.host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as probe:
                probe.bind(place)
    except (OSError, UnicodeError):
        return False
    return True


async def ask_advertisements(entry: Address, host: str) -> list[Disjunction]:
    """Return advertisements of all regions, without those of brokers that do not answer.

    Each broker knows the advertisements of its region, so one broker per region is asked, those of the cluster of the
    broker ``host``. Brokers of other machines are not asked.
    """
    if not await is_here(entry):
        return []
    cluster = host.rpartition(".")[2]
    brokers = await _brokers_where(entry, lambda name: name.rpartition(".")[2] == cluster)
    found = []
    command = Command(Verb.TABLES, rows=_ADVERTISEMENTS_MAX)
    for (tables,) in await _ask_each(await _those_here(brokers), [command]):
        for each in tables["advertisements"]:
            with contextlib.suppress(InvalidFilter):  # Its text may be too long, or not whole.
                found.append(parse_filter(each["filter"]))
    return found


async def _brokers_where(entry: Address, is_asked: Callable[[str], bool]) -> list[Address]:
    """Return the addresses of the brokers whose names pass a test, or none if the entry does not answer."""
    try:
        _, addresses = await ask_overlay(entry)
    except (NetworkError, PeerError):
        return []
    return [address for name, address in addresses.items() if is_asked(name)]


async def _those_here(brokers: Sequence[Address]) -> list[Address]:
    return [each for each in brokers if await is_here(each)]


async def _ask_each(brokers: Sequence[Address], commands: Sequence[Command]) -> list[list[dict[str, Any]]]:
    """Send the same commands to several brokers, and return the reports of each that answers all of them."""
    answers = await asyncio.gather(*(_ask_in_parts(each, commands) for each in brokers), return_exceptions=True)
    return [each for each in answers if isinstance(each, list)]


async def _ask_in_parts(broker: Address, commands: Sequence[Command]) -> list[dict[str, Any]]:
    """Send many commands, some at a time: a broker that answers does nothing else."""
    reports: list[dict[str, Any]] = []
    async with Operator(broker) as operator:
        for begin in range(0, len(commands), _COMMANDS_AT_ONCE):
            reports += await operator.ask(*commands[begin : begin + _COMMANDS_AT_ONCE])
    return reports
