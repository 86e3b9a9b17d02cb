"""The result of an audit: deliveries of a run compared with the truth of its workload."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class AuditRow:
    """The audit of one run."""

    run: str
    deliveries: int
    missing: int
    unwanted: int
    duplicate: int

    @property
    def is_clean(self) -> bool:
        """True if every subscriber received what it was owed exactly once, and nothing else."""
        return not (self.missing or self.unwanted or self.duplicate)

    @property
    def owed(self) -> int:
        """The number of deliveries that the run should have made."""
        return self.deliveries - self.duplicate - self.unwanted + self.missing

    @property
    def faults(self) -> str:
        """The counts of all faults, as text."""
        return f"{self.missing:,} missing, {self.unwanted:,} unwanted, {self.duplicate:,} duplicate"


def audit_rows(summaries: Iterable[Mapping[str, Any]]) -> tuple[AuditRow, ...]:
    """Return the rows for the summaries that the pipeline's audit prints."""
    return tuple(
        AuditRow(each["run_id"], each["deliveries"], each["missing"], each["unwanted"], each["duplicates"])
        for each in summaries
    )
