"""The result of an audit: deliveries of a run compared with the truth of its workload."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class AuditRow:
    """The audit of one run."""

    run: str
    deliveries: int
    missing: int
    unwanted: int
    duplicate: int
    may_miss: bool = False
    """True if the routing of the run may lose deliveries by design: missing ones are counted and are no fault."""

    @property
    def is_clean(self) -> bool:
        """True if every subscriber received what it was owed, once, and nothing else, except for known losses."""
        return not (self.unwanted or self.duplicate or (self.missing and not self.may_miss))

    @property
    def missing_share(self) -> float:
        """The share of the deliveries owed that are missing, from 0 to 1."""
        return self.missing / self.owed if self.owed else 0.0

    @property
    def owed(self) -> int:
        """The number of deliveries that the run should have made."""
        return self.deliveries - self.duplicate - self.unwanted + self.missing

    @property
    def faults(self) -> str:
        """The counts of all faults, as text."""
        return f"{self.missing:,} missing, {self.unwanted:,} unwanted, {self.duplicate:,} duplicate"


def audit_rows(summaries: Iterable[Mapping[str, Any]], may_miss: Collection[str] = ()) -> tuple[AuditRow, ...]:
    """Return the rows for the summaries that the pipeline's audit prints; ``may_miss`` are runs with known losses."""
    return tuple(
        AuditRow(
            each["run_id"],
            each["deliveries"],
            each["missing"],
            each["unwanted"],
            each["duplicates"],
            each["run_id"] in may_miss,
        )
        for each in summaries
    )
