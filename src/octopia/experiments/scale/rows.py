"""The rows of the study's tables, one type per table. Messages are those between brokers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from octopia.experiments.scale.names import Fault, Series, Source, System


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRow:
    """One system at one size. Values that only a simulation gives are None in rows by formula."""

    series: Series
    tree: str
    regions: int
    clusters: int
    brokers: int
    links: int
    subscriptions: int
    publishers: int
    publishers_per_symbol: int
    system: System
    source: Source
    messages_per_advertisement: float
    messages_per_subscription: float
    """Without messages that set bits of cluster index vectors, and without confirmations."""
    bit_messages_per_subscription: float
    confirmations_per_subscription: float | None
    advertisement_entries: float
    """The mean size of the CLT or SRT of a broker."""
    subscription_entries: float
    """The mean size of the PRT of a broker."""
    messages_per_publication: float | None
    false_positives_per_publication: float
    """The clusters that a publication enters although no subscription there matches it."""
    deliveries_per_publication: float
    hops: float
    """The mean number of links between brokers on the path of a delivery."""
    busiest_link: float | None
    """The copies on the busiest direction of a link, per publication; under a flood an upper bound."""
    delay_ms: float | None
    delay_ms_p99: float | None
    bytes_per_entry: float | None
    """The growth of the simulator's process per PRT entry; its brokers share the filters."""
    memory_mib: float | None
    """The peak of the simulator's process."""
    seconds: float | None
    """The CPU time of the run."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """A total by formula and by simulation."""

    series: Series
    tree: str
    clusters: int
    subscriptions: int
    system: System
    quantity: str
    formula: int
    simulated: int

    @property
    def agrees(self) -> bool:
        """True if formula and simulation are equal."""
        return self.formula == self.simulated


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """One fault and its repair; messages and bytes are those of both, beside no other traffic."""

    series: Series
    tree: str
    regions: int
    clusters: int
    brokers: int
    subscriptions: int
    system: System
    source: Source
    fault: Fault
    prt_entries: int
    """The size of the PRT of the broker that crashed, or of one end of the link."""
    local_subscriptions: int
    """The subscriptions of the clients of the broker that crashed; they subscribe again."""
    exchange_messages: int
    """Digests, requests for missing entries, and answers of secondary brokers."""
    subscription_messages: int
    unsubscription_messages: int
    gap_messages: int
    """Notices to subscribers that they may have missed publications."""
    other_messages: int
    """Confirmations, bits of cluster index vectors, and statuses."""
    messages: int
    bytes: int | None
    """The size of all these messages on the wire, without acknowledgements and heartbeats of sessions."""
    repair_ms: float | None
    """The virtual time from the restart until the broker routes publications, or from the repair until all is quiet."""
    seconds: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """The cost of PRT entries in the process of one broker, measured by its resident memory and CPU time."""

    system: System
    entries: int
    bytes_per_entry: float
    index_bytes_per_entry: float
    """The part of it that the index for matching takes."""
    wire_bytes: float
    """The size of the message that brings an entry."""
    insert_us: float
    """The time to decode and store an entry."""
    match_us: float
    """The time to match a publication."""


Row = GrowthRow | FailureRow | MemoryRow | CheckRow


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """All rows of the study, or those that are finished."""

    growth: Sequence[GrowthRow]
    failures: Sequence[FailureRow]
    memory: Sequence[MemoryRow]
    checks: Sequence[CheckRow]

    def named(self) -> Iterator[tuple[str, type[Row], Sequence[Row]]]:
        """Yield each table with its name and the type of its rows."""
        yield "growth", GrowthRow, self.growth
        yield "failures", FailureRow, self.failures
        yield "memory", MemoryRow, self.memory
        yield "checks", CheckRow, self.checks
