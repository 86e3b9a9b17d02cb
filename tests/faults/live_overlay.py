"""An overlay of broker processes over loopback that faults can be done to.

The tree is a path of three regions in two clusters. Every broker has an overlay file of its own. With proxies, the
addresses in it lead through one relay per link, and clients reach each broker through a relay, too.

=================  ======  =====================================================================================
place              broker  role
=================  ======  =====================================================================================
publisher's host   a.0     the publisher is its client
leaf               a.1     no clients; publications for cluster 1 enter through it
inner              b.0     the only way from a.0 to c.0
subscriber's host  c.0     a subscriber to everything; others are at c.1 and b.1
=================  ======  =====================================================================================
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping
from pathlib import Path

from processes import Process, free_ports
from proxy import Proxy

from octopia.addresses import Address
from octopia.client.operators import ask
from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree
from octopia.protocol import Command, Verb
from octopia.settings import Algorithm

TREE, CLUSTERS = "path:3", 2
SCOT = Scot(parse_tree(TREE), CLUSTERS)
NAMES = tuple(map(str, SCOT.brokers))
SETTLE_S = 120.0


class Place(enum.StrEnum):
    """The broker that a fault happens to."""

    PUBLISHER_HOST = "publisher-host"
    LEAF = "leaf"
    INNER = "inner"
    SUBSCRIBER_HOST = "subscriber-host"

    @property
    def broker(self) -> str:
        """The name of the broker."""
        return {"publisher-host": "a.0", "leaf": "a.1", "inner": "b.0", "subscriber-host": "c.0"}[self]


SLOW = (("a.0", "b.0"), ("a.1", "b.1"), ("b.0", "c.0"))
"""The links that are slow in a congested overlay."""
SLOW_RATE = 60
"""Their rate in publications per second."""


class LiveOverlay:
    """Broker processes, their overlay files, and the relays between them."""

    def __init__(
        self,
        folder: Path,
        *,
        congested: bool,
        proxied: bool,
        algorithm: Algorithm = Algorithm.DYNAMIC,
        options: Iterable[str] = (),
    ):
        self._folder = folder
        self._congested = congested
        self._proxied = proxied
        self._algorithm = algorithm
        self._options = tuple(options)
        self._ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self._doors: dict[str, int] = {}
        self._link_ports: dict[tuple[str, str], int] = {}
        self._client_proxies: dict[str, Proxy] = {}
        self._link_proxies: dict[tuple[str, str], Proxy] = {}
        self.processes: dict[str, Process] = {}
        self.others: list[Process] = []

    # Life.

    async def start(self, logs: Mapping[str, Path]) -> None:
        """Start all brokers, some with a log of their own, and wait until they are ready."""
        if self._proxied:
            await self._start_proxies()
        await asyncio.gather(*(self.start_broker(name, log=logs.get(name)) for name in NAMES))
        await asyncio.gather(*(process.hear("ready") for process in self.processes.values()))

    async def start_broker(self, name: str, *options: str, log: Path | None = None) -> None:
        """Start a broker, or start it again."""
        self.processes[name] = await self._start_process(name, self._ports[name], *options, log=log)

    async def start_twin(self, name: str) -> Process:
        """Start a second broker under a name, at another port; return when it listens."""
        [port] = free_ports(1)
        twin = await self._start_process(name, port)
        self.others.append(twin)
        await twin.hear("listening")
        return twin

    async def stop(self) -> None:
        """End all processes and relays."""
        await asyncio.gather(*(each.kill() for each in (*self.processes.values(), *self.others)))
        for proxy in self._proxies():
            await proxy.stop()

    def url(self, name: str) -> str:
        """Return the URL at which clients reach a broker."""
        return f"octopia://127.0.0.1:{self._doors.get(name, self._ports[name])}"

    def tracebacks(self) -> list[str]:
        """Return the names of the logs with a traceback."""
        return [path.name for path in sorted(self._folder.glob("*.log")) if "Traceback" in path.read_text()]

    # Faults.

    def cut(self, name: str) -> None:
        """Break all connections of a broker."""
        for proxy in self._proxies_of(name):
            proxy.cut()

    def swallow(self, name: str) -> None:
        """Swallow all bytes from and to a broker."""
        for proxy in self._proxies_of(name):
            proxy.swallow()

    def heal(self, name: str) -> None:
        """Relay the bytes of a broker again."""
        for proxy in self._proxies_of(name):
            proxy.heal()

    # Waiting.

    async def noticed(self, name: str) -> None:
        """Wait until all neighbours of a broker have noticed that their link to it is down."""
        await asyncio.gather(*(each.until(f"down {name}") for each in self._neighbours_of(name)))

    async def overdue(self, name: str, timeout_s: float) -> None:
        """Wait until all neighbours of a broker drop publications for it: it has been down for too long."""
        await asyncio.gather(*(each.until(f"overdue {name}", timeout_s) for each in self._neighbours_of(name)))

    async def at_rest(self) -> None:
        """Wait until no broker has anything to do, and none has had since they all said so."""
        while True:
            waits = [self.processes[each].until("at-rest", SETTLE_S) for each in NAMES]
            silent = [each for each in await asyncio.gather(*waits, return_exceptions=True) if each is not None]
            reasons = [each for found in await asyncio.gather(*map(self._unrest, NAMES)) for each in found]
            assert not silent, f"{silent[0]}: {'; '.join(reasons)}"
            if not reasons:
                return

    def _neighbours_of(self, name: str) -> list[Process]:
        return [self.processes[str(each)] for each in SCOT.neighbourhood(BrokerId.parse(name)).neighbours]

    async def release(self) -> None:
        """Give the slow links their full rate."""
        for source, target in SLOW if self._congested else ():
            await ask(Address("127.0.0.1", self._ports[source]), Command(Verb.THROTTLE, target, rate=0.0))

    async def _unrest(self, name: str) -> list[str]:
        process = self.processes[name]
        assert process.is_running, f"expected {name} to run, but it has ended"
        return (await process.ask("rest", "rest"))["unrest"]

    # Files and relays.

    async def _start_process(self, name: str, port: int, *options: str, log: Path | None = None) -> Process:
        path = self._folder / f"{name}-{port}.toml"
        path.write_text(self._text(name, port))
        log = log or self._folder / f"{name}.log"
        return await Process.start(name, "broker_process.py", str(path), name, *self._options, *options, log=log)

    def _text(self, name: str, port: int) -> str:
        ports = {each: self._link_ports.get((name, each), self._ports[each]) for each in NAMES} | {name: port}
        brokers = "".join(f'[brokers."{each}"]\nport = {ports[each]}\n' for each in NAMES)
        slow = "".join(f'[[link]]\nfrom = "{low}"\nto = "{high}"\nrate = {SLOW_RATE}\n' for low, high in SLOW)
        routing = f'[routing]\nalgorithm = "{self._algorithm}"\n'
        return f'tree = "{TREE}"\nclusters = {CLUSTERS}\n{brokers}{routing}{slow if self._congested else ""}'

    async def _start_proxies(self) -> None:
        for name in NAMES:
            self._client_proxies[name] = Proxy(self._ports[name])
            self._doors[name] = await self._client_proxies[name].start()
        for low, high in (*SCOT.alinks, *SCOT.ilinks):
            dialler, target = sorted((low, high))  # of two neighbours, the one with the lower id dials
            link = str(dialler), str(target)
            self._link_proxies[link] = Proxy(self._ports[link[1]])
            self._link_ports[link] = await self._link_proxies[link].start()

    def _proxies(self) -> list[Proxy]:
        return [*self._client_proxies.values(), *self._link_proxies.values()]

    def _proxies_of(self, name: str) -> list[Proxy]:
        assert self._proxied, "expected an overlay with proxies"
        return [self._client_proxies[name], *(proxy for link, proxy in self._link_proxies.items() if name in link)]
