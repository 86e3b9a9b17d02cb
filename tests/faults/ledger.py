"""The ledger of a run with faults: one rule for every fault, place and load.

Every publication that was accepted is, for each subscription that was owed it, delivered exactly once, or that
subscription was told of a loss after the publication was made. No subscription gets a publication twice, or one that it
does not want. A publication whose ``publish`` failed is owed to nobody, and may arrive once.

A subscription is owed what matches it and is made between its confirmation and its end. All times come from one
monotonic clock. The ledger knows nothing of brokers: tests with plain numbers check it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Callable, Mapping

Number = int
"""A publication, by a number that no other publication of the run has."""


class Outcome(enum.StrEnum):
    """The answer that a publisher got."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    FAILED = "failed"


@dataclasses.dataclass(slots=True)
class Made:
    """A publication: its attributes, the time at which it was made, and the publisher's answer."""

    attributes: Mapping[str, object]
    at_s: float
    outcome: Outcome = Outcome.PENDING


@dataclasses.dataclass(slots=True)
class Owed:
    """A subscription from its confirmation to its end: what it received, and when it was told of losses."""

    wants: Callable[[Mapping[str, object]], bool]
    confirmed_s: float
    ended_s: float = float("inf")
    received: Counter[Number] = dataclasses.field(default_factory=Counter)
    told_s: list[float] = dataclasses.field(default_factory=list)

    @property
    def last_told_s(self) -> float:
        """The last time that it was told of a loss; its end counts, since the program knows of that."""
        ended = [self.ended_s] if self.ended_s < float("inf") else []
        return max([*self.told_s, *ended], default=float("-inf"))

    def is_owed(self, made: Made) -> bool:
        """Return whether it must get a publication, or be told of a loss."""
        is_in_time = self.confirmed_s <= made.at_s < self.ended_s
        return made.outcome is Outcome.ACCEPTED and is_in_time and self.wants(made.attributes)


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The account of a run: owed = delivered + told + lost unheard, and the breaches by subscription."""

    accepted: int
    failed: int
    owed: int
    delivered: int
    told: int
    gaps: int
    lost_unheard: dict[str, list[Number]]
    doubled: dict[str, list[Number]]
    unwanted: dict[str, list[Number]]
    unknown: dict[str, list[Number]]
    pending: list[Number]

    @property
    def breaches(self) -> list[str]:
        """The breaches of the rule, as sentences; none if the rule holds."""
        named = {
            "missed without being told": self.lost_unheard,
            "received twice": self.doubled,
            "received without wanting it": self.unwanted,
            "received though nobody published it": self.unknown,
        }
        found = [f"{name} {what}: {_brief(each)}" for what, by in named.items() for name, each in by.items() if each]
        return found + [f"no answer to the publisher: {_brief(self.pending)}"] * bool(self.pending)

    @property
    def is_only_unheard(self) -> bool:
        """True if all that is wrong is that losses were not told."""
        others = (self.doubled, self.unwanted, self.unknown)
        return not self.pending and not any(each for by in others for each in by.values())


class Ledger:
    """Publications and subscriptions of one run, and what became of them."""

    def __init__(self) -> None:
        self.publications: dict[Number, Made] = {}
        self.subscriptions: dict[str, Owed] = {}

    # Publishers.

    def made(self, number: Number, attributes: Mapping[str, object], at_s: float) -> None:
        """Note a publication, before ``publish`` is called."""
        assert number not in self.publications, f"expected a new number, got {number} again"
        self.publications[number] = Made(attributes, at_s)

    def answered(self, number: Number, outcome: Outcome) -> None:
        """Note the end of ``publish``."""
        self.publications[number].outcome = outcome

    # Subscribers.

    def confirmed(self, name: str, wants: Callable[[Mapping[str, object]], bool], at_s: float) -> None:
        """Note a subscription that is in force; one that is made again needs another name."""
        assert name not in self.subscriptions, f"expected a new subscription, got {name} again"
        self.subscriptions[name] = Owed(wants, at_s)

    def received(self, name: str, number: Number) -> None:
        """Note a delivery."""
        self.subscriptions[name].received[number] += 1

    def told(self, name: str, at_s: float) -> None:
        """Note that a subscription was told of a loss."""
        self.subscriptions[name].told_s.append(at_s)

    def ended(self, name: str, at_s: float) -> None:
        """Note that the program has lost its subscription, and knows."""
        self.subscriptions[name].ended_s = at_s

    # Judgement.

    def missing(self, name: str, since_s: float = float("-inf")) -> list[Number]:
        """Return what a subscription is owed and does not have, of the publications made since a time."""
        owed = self.subscriptions[name]
        return [
            number
            for number, made in self.publications.items()
            if made.at_s >= since_s and not owed.received[number] and owed.is_owed(made)
        ]

    def judge(self, since_s: float = float("-inf"), *, excuses: bool = True) -> Verdict:
        """Return the account of all publications made since a time; without ``excuses`` every loss is a breach."""
        made = {number: each for number, each in self.publications.items() if each.at_s >= since_s}
        by_name = self.subscriptions.items()
        missing = {name: self.missing(name, since_s) for name, _ in by_name}
        unheard = {
            name: [n for n in missing[name] if not excuses or made[n].at_s > owed.last_told_s] for name, owed in by_name
        }
        owed_in_all = sum(owed.is_owed(each) for _, owed in by_name for each in made.values())
        missing_in_all = sum(map(len, missing.values()))
        outcomes = Counter(each.outcome for each in made.values())
        return Verdict(
            accepted=outcomes[Outcome.ACCEPTED],
            failed=outcomes[Outcome.FAILED],
            owed=owed_in_all,
            delivered=owed_in_all - missing_in_all,
            told=missing_in_all - sum(map(len, unheard.values())),
            gaps=sum(at_s >= since_s for _, owed in by_name for at_s in owed.told_s),
            lost_unheard=unheard,
            doubled={
                name: [n for n, count in owed.received.items() if n in made and count > 1] for name, owed in by_name
            },
            unwanted={
                name: [n for n in owed.received if n in made and not owed.wants(made[n].attributes)]
                for name, owed in by_name
            },
            unknown={name: [n for n in owed.received if n not in self.publications] for name, owed in by_name},
            pending=[number for number, each in made.items() if each.outcome is Outcome.PENDING],
        )


def _brief(numbers: list[Number]) -> str:
    shown = ", ".join(map(str, sorted(numbers)[:8]))
    return f"{len(numbers)} ({shown}{', …' if len(numbers) > 8 else ''})"
