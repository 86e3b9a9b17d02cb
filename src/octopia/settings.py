"""Routing, resource limits, the log and security: the tables of overlay files that do not describe the overlay."""

from __future__ import annotations

import dataclasses
import enum

KEEP_MAX_S = 86_400.0
"""The longest time for which brokers keep the session of a client that is disconnected."""


class Algorithm(enum.StrEnum):
    """The routing algorithm, which also determines the broker class."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    ADAPTIVE = "adaptive"
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
        return self in (Algorithm.DYNAMIC, Algorithm.ADAPTIVE, Algorithm.TID_DYNAMIC)


class PathSelection(enum.StrEnum):
    """The method by which TID-based routing finds the other bound copies of a subscription."""

    LINEAR = "linear"
    INDEXED = "indexed"


class TidCopies(enum.StrEnum):
    """The copies that TID-based dynamic routing sends over one link.

    Subscriptions behind the same link may be reached over different trees. One copy per tree reaches them all. One copy
    per next hop, as in PADRES, has the tree of one of them, and the others may miss the publication.
    """

    PER_TREE = "per-tree"
    PER_HOP = "per-hop"


@dataclasses.dataclass(frozen=True, slots=True)
class RoutingSettings:
    """The settings that all brokers of an overlay share; the defaults are those of the network.

    ``tau`` and ``window_ms`` are the threshold and the time window of Eq. 3; ``confirmations`` are those of D5; only
    TID-based routing uses ``path_selection`` and ``tid_copies``. Only adaptive routing uses the other times: a link is
    congested if its queue takes longer than ``wait_ms``, stays so for ``hold_ms``, and is tried again after
    ``probe_ms`` if it was slow.
    """

    algorithm: Algorithm = Algorithm.ADAPTIVE
    tau: float = 10.0
    window_ms: float = 50.0
    confirmations: bool = True
    path_selection: PathSelection = PathSelection.LINEAR
    wait_ms: float = 50.0
    hold_ms: float = 500.0
    probe_ms: float = 5_000.0
    tid_copies: TidCopies = TidCopies.PER_TREE


PAPER_ROUTING = RoutingSettings(Algorithm.DYNAMIC)
"""The defaults of scenarios and of runs of workloads: the paper's algorithm."""


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The resources that one broker grants; 0 is no limit. The names of the fields are the names of the limits.

    Both rates hold publishers back by withholding credit, as does ``memory_bytes``, the size of all publications that
    wait in a broker; its default is a share of the machine. Requests and connections beyond other limits are refused.
    """

    clients: int = 100_000
    subscriptions_per_client: int = 10_000
    advertisements_per_client: int = 1_000
    publications_per_second_per_client: float = 0.0
    bytes_per_second_per_client: float = 0.0
    connections_per_address: int = 1_000
    connections_without_greeting: int = 10_000
    memory_bytes: int = 0


class LogFormat(enum.StrEnum):
    """The form of a line in the log: ``key=value`` pairs, or a JSON object."""

    TEXT = "text"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """The least important events that are logged."""

    WARNING = "warning"
    INFO = "info"


@dataclasses.dataclass(frozen=True, slots=True)
class LogSettings:
    """The form and the detail of the log of a broker process."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.WARNING


UNLIMITED = ResourceLimits(**{field.name: 0 for field in dataclasses.fields(ResourceLimits)})


@dataclasses.dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The files with which brokers and clients identify themselves; an empty path means that there is none.

    ``{broker}`` in a path stands for the name of a broker. ``own_operator`` is the hash of a secret that the command
    made which runs the brokers, for its own operators; it is in no file.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    client_tokens: str = ""
    own_operator: str = dataclasses.field(default="", repr=False)

    @property
    def has_tls(self) -> bool:
        """True if connections are encrypted."""
        return bool(self.certificate)

    @property
    def has_tokens(self) -> bool:
        """True if clients and operators need a token."""
        return bool(self.client_tokens)


class Limit(enum.StrEnum):
    """The name of a limit, with the noun that it bounds and the remedy for someone who is refused."""

    CLIENTS = "clients", "clients at this broker", "connect to another broker"
    SUBSCRIPTIONS = "subscriptions_per_client", "subscriptions per client", "withdraw some"
    ADVERTISEMENTS = "advertisements_per_client", "advertisements per client", "withdraw some"
    PUBLICATION_RATE = "publications_per_second_per_client", "publications per second per client", "publish less"
    BYTE_RATE = "bytes_per_second_per_client", "bytes per second per client", "publish less"
    ADDRESS = "connections_per_address", "connections per address", "close some"
    GREETING = "connections_without_greeting", "connections that have not greeted yet", "connect again later"
    MEMORY = "memory_bytes", "bytes of publications that wait", "publish less"

    noun: str
    remedy: str

    def __new__(cls, name: str, noun: str, remedy: str) -> Limit:
        """Return a member whose value is the name of the limit."""
        member = str.__new__(cls, name)
        member._value_, member.noun, member.remedy = name, noun, remedy
        return member

    def of(self, limits: ResourceLimits) -> float:
        """Return the value of this limit."""
        value: float = getattr(limits, self.value)
        return value

    def allows(self, limits: ResourceLimits, used: int) -> bool:
        """Return whether one more may be added to those in use."""
        return not self.of(limits) or used < self.of(limits)

    def refusal(self, limits: ResourceLimits) -> str:
        """Return the sentence for a request beyond this limit."""
        return (
            f"expected at most {self.of(limits):,.15g} {self.noun}, got one more: "
            f"{self.remedy}, or raise {self.value} in [limits] of the overlay file"
        )
