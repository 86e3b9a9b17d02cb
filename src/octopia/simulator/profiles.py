"""Cost profiles: the time that links and brokers take in virtual time.

``unit`` makes runs easy to follow: every link takes 1 ms, brokers take no time, bandwidth is unlimited. ``paper``
models the paper's testbed, 7 machines of 12 cores on one switch; its numbers are assumptions, and every run reports
them. A profile may also be a TOML file with the same keys.

A broker is one server: it handles one message at a time, and others wait. The cost of matching is proportional to the
size of the table, as for a linear matcher. So is the cost of a search for another path, in brokers that search their
table for one.

Copies between brokers are sent by *senders*, which send one copy at a time: one per direction of a link, one per
broker, or one per machine.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from octopia.errors import UsageError
from octopia.link import LinkSettings
from octopia.protocol import MessageKind
from octopia.protocol.messages import (
    Advertise,
    AdvertiseRequest,
    Message,
    Publish,
    PublishRequest,
    Subscribe,
    SubscribeRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from octopia.simulator.delays import ALL_KINDS, KEYS, Hops, Law, RandomDelay
from octopia.tid.messages import TidAdvertise, TidPublish, TidSubscribe
from octopia.tomlfile import Table, read_toml


class SenderScope(enum.StrEnum):
    """The output queues that share one sender: that of one link, all of a broker, or all of a machine."""

    LINK = "link"
    BROKER = "broker"
    MACHINE = "machine"


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """The costs of a profile; each name ends with its unit. A bandwidth of 0 is unlimited.

    ``jitter`` has the laws of the jitter of single message kinds, or of all kinds in place of ``jitter_ms``. ``delay``
    has those of whole hops, in place of the delay of the link, its jitter and ``message_us``. With a ``credit_kib``
    above 0, links have sessions, and a neighbour is sent no more than it has granted.
    """

    name: str
    description: str
    link_delay_ms: float = 0.0
    same_machine_delay_ms: float = 0.0
    client_delay_ms: float = 0.0
    jitter_ms: float = 0.0
    bandwidth_mbit_s: float = 0.0
    send_us: float = 0.0
    sender: SenderScope = SenderScope.LINK
    machines: int = 0
    message_us: float = 0.0
    match_us: float = 0.0
    match_per_subscription_us: float = 0.0
    intersect_per_entry_us: float = 0.0
    select_us: float = 0.0
    search_per_entry_us: float = 0.0
    credit_kib: float = 0.0
    jitter: Mapping[str, RandomDelay] = dataclasses.field(default_factory=dict, hash=False)
    delay: Mapping[str, RandomDelay] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def hops(self) -> Hops | None:
        """The delays of hops by message kind, or None if all kinds have the delay of the link and ``jitter_ms``."""
        return Hops(self.jitter, self.delay, self.jitter_ms) if self.jitter or self.delay else None

    @property
    def window_bytes(self) -> int:
        """The bytes of one traffic class that a link with a session may send before they are placed."""
        return max(1, round(self.credit_kib * 1024)) if self.credit_kib else LinkSettings().window_bytes

    @property
    def brokers_take_time(self) -> bool:
        """True if handling a message takes any time."""
        matching = (self.match_us, self.match_per_subscription_us, self.intersect_per_entry_us)
        return any((self.message_us, *matching, self.select_us, self.search_per_entry_us))

    def matching_us(self, subscriptions: int) -> float:
        """Return the time to match a publication against a table of that size."""
        return self.match_us + self.match_per_subscription_us * subscriptions

    def searching_us(self, subscriptions: int) -> float:
        """Return the time to search a table of that size for another path."""
        return self.search_per_entry_us * subscriptions

    def service_us(self, message: Message, advertisements: int, subscriptions: int) -> float:
        """Return the time that a broker with tables of these sizes takes for a message."""
        # Requests of clients have no kind.
        message_us = self._handling_us(getattr(message, "kind", None))
        match message:
            case Publish() | TidPublish() | PublishRequest():
                return message_us + self.matching_us(subscriptions) + self.select_us
            case Subscribe() | Unsubscribe() | TidSubscribe() | SubscribeRequest() | UnsubscribeRequest():
                return message_us + self.intersect_per_entry_us * advertisements
            case Advertise() | TidAdvertise() | AdvertiseRequest():
                return message_us + self.intersect_per_entry_us * subscriptions
            case _:
                return message_us

    def publication_us(self, subscriptions: int) -> float:
        """Return the time that a broker with this number of subscriptions takes for a publication of a neighbour."""
        return self._handling_us(MessageKind.PUBLICATION) + self.matching_us(subscriptions) + self.select_us

    def _handling_us(self, kind: str | None) -> float:
        """Return the time that a broker takes for any message of a kind; none if a law gives its whole delay."""
        is_whole = kind in self.delay or (kind is not None and ALL_KINDS in self.delay and kind not in self.jitter)
        return 0.0 if is_whole else self.message_us

    def assumptions(self) -> dict[str, str | float]:
        """Return the assumptions of this profile: every value that is not the default, by its key in a file."""
        return dict(self._assumed())

    def _assumed(self) -> Iterator[tuple[str, str | float]]:
        for field in dataclasses.fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, Mapping):
                for kind, random in value.items():
                    yield f"{field.name}.{kind}.law", random.law
                    yield f"{field.name}.{kind}.mean_ms", random.mean_ms
            elif value != field.default:
                yield field.name, value


UNIT = Profile(
    "unit",
    "every link takes 1 ms, brokers take no time, bandwidth is unlimited",
    link_delay_ms=1.0,
    same_machine_delay_ms=1.0,
    client_delay_ms=1.0,
)

# The cost of sending a publication is inferred from the paper: of bursts of 50,000 publications it says that nothing
# tended to normal during 157 s. A link that carried nothing else needed at least 3.1 ms for each, one with the ordinary
# traffic of our workload at least 2.05 ms. All other costs are guesses.
PAPER = Profile(
    "paper",
    "assumed costs of the paper's testbed: 7 machines of 12 cores on one switch, a Java broker that matches linearly",
    link_delay_ms=0.15,
    same_machine_delay_ms=0.05,
    client_delay_ms=0.05,
    jitter_ms=0.1,
    bandwidth_mbit_s=1000.0,
    send_us=3000.0,
    machines=7,
    message_us=60.0,
    match_us=20.0,
    match_per_subscription_us=0.1,
    intersect_per_entry_us=0.2,
    select_us=5.0,
    search_per_entry_us=0.05,
)

# The paper does not say what limits a broker's output. If it is the broker itself, each of its copies takes a share of
# the 3 ms: a broker of S_e has about 5 links, of which a publication needs some. 4 copies in 3 ms are 1,333 per second.
PAPER_BROKER_SENDER = dataclasses.replace(
    PAPER,
    name="paper-broker-sender",
    description="paper, with one sender per broker, which sends 4 copies in the 3 ms of a link",
    sender=SenderScope.BROKER,
    send_us=750.0,
)

# S_e has 8 brokers per machine. They send as many copies per second as with a sender of their own: 750 µs / 8.
PAPER_MACHINE_SENDER = dataclasses.replace(
    PAPER,
    name="paper-machine-sender",
    description="paper, with one sender per machine, as fast as the senders of 8 brokers together",
    sender=SenderScope.MACHINE,
    send_us=93.75,
)

# TID trees are longer than shortest paths if the copies of a flood race without memory. A hop of an advertisement takes
# 0.26 ms on average under ``paper``: 0.15 ms on the link, 0.05 ms of jitter and 0.06 ms at the broker.
_RACE = {MessageKind.ADVERTISEMENT.value: RandomDelay(Law.EXPONENTIAL, 0.25)}

PAPER_RACE_TREES = dataclasses.replace(
    PAPER,
    name="paper-race-trees",
    description="paper, with exponential hops of flooded advertisements, whatever the link",
    delay=_RACE,
)

PAPER_BROKER_SENDER_RACE_TREES = dataclasses.replace(
    PAPER_BROKER_SENDER,
    name="paper-broker-sender-race-trees",
    description=f"{PAPER_BROKER_SENDER.description}; exponential hops of flooded advertisements, whatever the link",
    delay=_RACE,
)

_NAMED = {
    profile.name: profile
    for profile in (
        UNIT,
        PAPER,
        PAPER_BROKER_SENDER,
        PAPER_MACHINE_SENDER,
        PAPER_RACE_TREES,
        PAPER_BROKER_SENDER_RACE_TREES,
    )
}


def find_profile(name: str) -> Profile:
    """Return a profile by its name, or read it from a TOML file."""
    if name in _NAMED:
        return _NAMED[name]
    if not name.endswith(".toml"):
        raise UsageError(f'expected a profile of {", ".join(_NAMED)}, or a .toml file, got "{name}"')
    return _read_profile(Path(name))


def _read_profile(path: Path) -> Profile:
    table = read_toml(path)
    costs: dict[str, float] = {}
    for field in dataclasses.fields(Profile):
        if field.type == "float":
            costs[field.name] = table.number(field.name, 0.0, minimum=0)
    profile = Profile(
        table.text("name", path.stem),
        table.text("description", ""),
        sender=table.choice("sender", SenderScope, SenderScope.LINK),
        machines=table.integer("machines", 0, minimum=0),
        jitter=_read_laws(table, "jitter"),
        delay=_read_laws(table, "delay"),
        **costs,
    )
    _check_laws(table, profile)
    table.finish()
    return profile if profile.description else dataclasses.replace(profile, description=_describe(profile, path))


def _describe(profile: Profile, path: Path) -> str:
    """Return the description of a profile that has none: its values."""
    values = {key: value for key, value in profile.assumptions().items() if key not in ("name", "description")}
    listed = ", ".join(f"{key} = {value}" for key, value in values.items())
    return f"read from {path.name}: {listed or 'nothing takes time'}"


def _read_laws(table: Table, key: str) -> dict[str, RandomDelay]:
    """Read the laws of message kinds, such as those of the tables [delay.advertisement] and [delay.all]."""
    kinds, laws = table.table(key), {}
    for kind in KEYS:
        random = kinds.table(kind) if kinds is not None else None
        if random is not None:
            laws[kind] = RandomDelay(random.choice("law", Law), random.number("mean_ms", minimum=0))
    return laws


def _check_laws(table: Table, profile: Profile) -> None:
    both = [kind for kind in profile.jitter if kind in profile.delay]
    if both:
        raise table.error(f"expected [jitter.{both[0]}] or [delay.{both[0]}], which replaces it, got both")
    if profile.jitter_ms and (ALL_KINDS in profile.jitter or ALL_KINDS in profile.delay):
        raise table.error(f"expected jitter_ms or a law for {ALL_KINDS} kinds, which replaces it, got both")


def write_profile(profile: Profile, folder: Path) -> Path:
    """Write a profile to a file that runs can name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{profile.name}.toml"
    costs = profile.assumptions().items()
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in costs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path.absolute()
