"""How publications are routed: the ``[routing]`` table of overlay and scenario files."""

from __future__ import annotations

import dataclasses
import enum


class Algorithm(enum.StrEnum):
    """Which broker runs, and how it routes."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    TID_STATIC = "tid-static"
    TID_DYNAMIC = "tid-dynamic"

    # A router is looked up for every publication, and the hash that enums have is a function in Python.
    __hash__ = str.__hash__

    @property
    def is_tid(self) -> bool:
        """Whether brokers route by tree ids, as the rival does."""
        return self in (Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC)

    @property
    def is_dynamic(self) -> bool:
        """Whether publications may leave static paths where links are congested."""
        return self in (Algorithm.DYNAMIC, Algorithm.TID_DYNAMIC)


class PathSelection(enum.StrEnum):
    """How TID-based routing finds the other bound copies of a subscription."""

    LINEAR = "linear"
    INDEXED = "indexed"


@dataclasses.dataclass(frozen=True, slots=True)
class RoutingSettings:
    """What all brokers of an overlay agree on.

    ``tau`` and ``window_ms`` are the threshold and the time window of Eq. 3; ``confirmations`` are those of D5;
    ``path_selection`` matters to TID-based routing only.
    """

    algorithm: Algorithm = Algorithm.DYNAMIC
    tau: float = 10.0
    window_ms: float = 50.0
    confirmations: bool = True
    path_selection: PathSelection = PathSelection.LINEAR
