"""Lines: a publisher, brokers or relays in a row, and subscribers, one process each."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import socket
import time
from collections.abc import Callable, Iterator, Sequence

from network_load import CHOICES, run_publisher, run_subscribers
from network_processes import Child, Wrong, run_relay
from octopia.experiments.local_overlay import READY_S, at_free_addresses, cpu_s_of, free_addresses, running
from octopia.overlay.files import Address, overlay_from_text

FAN = 2 * CHOICES

Expectation = Callable[[int, int], dict[int, list[int]]]
"""From the first number and the count, the publications that each subscriber must get."""


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """One measurement, with the CPU time of each process in the middle."""

    cpu_s_by_process: list[float]
    wall_s: float
    delays_ms: list[float]

    @property
    def cpu_s(self) -> float:
        """The CPU time of all processes in the middle."""
        return sum(self.cpu_s_by_process)


class Line:
    """A publisher, brokers or relays, and subscribers."""

    def __init__(self, pids: Sequence[int], publisher: Child, subscribers: Child, expectation: Expectation):
        self._pids = pids
        self._publisher = publisher
        self._subscribers = subscribers
        self._expectation = expectation
        self._next = 0

    def run(self, count: int, rate: float = 0.0, *, in_order: bool = True) -> Round:
        """Publish, and wait until everything has arrived; rerouted publications may arrive in any order."""
        first, self._next = self._next, self._next + count
        expected = self._expectation(first, count)
        self._subscribers.tell(sum(map(len, expected.values())), bool(rate))
        self._publisher.tell(first, count, rate)
        self._subscribers.hear()
        self._publisher.hear()
        gc.collect()
        before_s, begin = self._cpu_s(), time.monotonic()
        self._publisher.tell("go")
        last_s, delays_ms = self._subscribers.hear()
        cpu_s = [after_s - each_s for after_s, each_s in zip(self._cpu_s(), before_s, strict=True)]
        self._subscribers.tell("check")
        got = self._subscribers.hear()
        check(got if in_order else {each: sorted(numbers) for each, numbers in got.items()}, expected)
        return Round(cpu_s, last_s - begin, delays_ms)

    def _cpu_s(self) -> list[float]:
        return list(map(cpu_s_of, self._pids))


def check(got: dict[int, list[int]], expected: dict[int, list[int]]) -> None:
    """Fail unless every subscriber got the expected publications, once and in order."""
    for subscriber, numbers in expected.items():
        found = got[subscriber]
        if found != numbers:
            missing, doubled = len(set(numbers) - set(found)), len(found) - len(set(found))
            strange = len(set(found) - set(numbers))
            raise Wrong(
                f"expected {len(numbers)} publications at subscriber {subscriber}, once and in order, "
                f"got {len(found)}: {missing} missing, {doubled} duplicated, {strange} not for it"
            )


def everything(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications that the only subscriber must get."""
    return {0: list(range(first, first + count))}


def ranges(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications that subscribers with RANGES must get."""
    numbers = range(first, first + count)
    high = {n: [each for each in numbers if each % CHOICES >= n] for n in range(CHOICES)}
    low = {n + CHOICES: [each for each in numbers if each % CHOICES < n] for n in range(CHOICES)}
    return high | low


def halves(first: int, count: int) -> dict[int, list[int]]:
    """Return the publications for the receivers of a relay that alternates between two halves."""
    numbers = range(first, first + count)
    return {n: [each for each in numbers if each % 2 == n // (FAN // 2)] for n in range(FAN)}


# Lines.


@contextlib.contextmanager
def clients(
    first: Address,
    last: Address,
    pids: Sequence[int],
    interests: list[list[str]],
    expectation: Expectation,
    has_session: bool,
) -> Iterator[Line]:
    """Connect a publisher and subscribers."""
    with contextlib.ExitStack() as stack:
        subscribers = Child("subscriber", run_subscribers, last, interests, has_session)
        stack.callback(subscribers.end)
        subscribers.hear()
        publisher = Child("publisher", run_publisher, first, has_session)
        stack.callback(publisher.end)
        publisher.hear()
        yield Line(pids, publisher, subscribers, expectation)


@contextlib.contextmanager
def broker_line(length: int, interests: list[list[str]], expectation: Expectation) -> Iterator[Line]:
    """Run brokers in a row, one process per broker."""
    overlay = at_free_addresses(overlay_from_text(f"path:{length}", 1))
    first, last = overlay.scot.brokers[0], overlay.scot.brokers[-1]
    with (
        running(overlay, length) as workers,
        clients(overlay.addresses[first], overlay.addresses[last], workers.pids, interests, expectation, True) as line,
    ):
        yield line


@contextlib.contextmanager
def relay_line(length: int, receivers: int, expectation: Expectation) -> Iterator[Line]:
    """Run relays in a row, one process per relay."""
    addresses = free_addresses(length)
    with contextlib.ExitStack() as stack:
        relays: list[Child] = []
        for place in reversed(range(length)):
            onward = addresses[place + 1] if place + 1 < length else None
            relay = Child("relay", run_relay, addresses[place], onward, 2 if receivers > 1 else 1)
            stack.callback(relay.end)
            relay.hear()
            relays.append(relay)
        pids = [relay.pid for relay in relays]
        yield stack.enter_context(clients(addresses[0], addresses[-1], pids, [[]] * receivers, expectation, False))


def wait_for(address: Address) -> None:
    """Wait until a process listens at an address."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((address.host, address.port)):
            return
        time.sleep(0.01)
    raise Wrong(f"no process listens at {address}")
