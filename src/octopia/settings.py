"""Routing settings: the ``[routing]`` table of overlay and scenario files."""

from __future__ import annotations

import dataclasses
import enum


class Algorithm(enum.StrEnum):
    """The routing algorithm, which also determines the broker class."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    TID_STATIC = "tid-static"
    TID_DYNAMIC = "tid-dynamic"

    # A router is looked up for every publication, and the hash of an enum is a slow Python function.
    __hash__ = str.__hash__

    @property
    def is_tid(self) -> bool:
        """True if brokers route by tree ids (TID), as the baseline does."""
        return self in (Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC)

    @property
    def is_dynamic(self) -> bool:
        """True if publications may leave static paths when links are congested."""
        return self in (Algorithm.DYNAMIC, Algorithm.TID_DYNAMIC)


class PathSelection(enum.StrEnum):
    """The method by which TID-based routing finds the other bound copies of a subscription."""

    LINEAR = "linear"
    INDEXED = "indexed"


@dataclasses.dataclass(frozen=True, slots=True)
class RoutingSettings:
    """The settings that all brokers of an overlay share.

    ``tau`` and ``window_ms`` are the threshold and the time window of Eq. 3; ``confirmations`` are those of D5; only
    TID-based routing uses ``path_selection``.
    """

    algorithm: Algorithm = Algorithm.DYNAMIC
    tau: float = 10.0
    window_ms: float = 50.0
    confirmations: bool = True
    path_selection: PathSelection = PathSelection.LINEAR
