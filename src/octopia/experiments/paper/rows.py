"""The rows of the evaluation's tables, one type per table.

Rows are made when the trace of a run is summarised. Everything after that reads them: CSV files, claims, figures and
the report. A row is one run, or one point of it. Delays are means in virtual time unless the field says otherwise.
Messages are those between brokers, of the kind that the study is about. The table of a study that was not run is empty.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, assert_never

from octopia.experiments.audits import AuditRow
from octopia.experiments.paper.names import Contender, Model, StudyName, System
from octopia.experiments.sockets.rows import SocketRow
from octopia.pipeline.spec import HostKind

Side = System | Contender
"""One side of a comparison."""


@dataclasses.dataclass(frozen=True, slots=True)
class PublisherRow:
    """One run of the publisher study; ``table_size_mean`` is over the CLTs or SRTs of all brokers."""

    publishers: int
    model: Model
    system: System
    seed: int
    advertisements: int
    advertisement_delay_ms: float
    table_size_mean: float
    advertisement_messages: int
    confirmation_messages: int
    """Messages that confirm to clients that a request is in force; the paper has none."""
    duplicate_share: float
    """The share of advertisement messages that were discarded as duplicates, from 0 to 1."""


@dataclasses.dataclass(frozen=True, slots=True)
class SubscriberRow:
    """One run of the subscriber study."""

    subscribers: int
    model: Model
    system: System
    seed: int
    subscriptions: int
    subscription_delay_ms: float
    prt_size_mean: float
    """With TID, one entry per subscription and tree."""
    prt_subscriptions_mean: float
    """The distinct subscriptions in a PRT."""
    subscription_messages: int
    """Includes the messages that set bits of cluster index vectors."""
    confirmation_messages: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One run of the delivery study, in which dynamic routing is forced onto static paths."""

    subscribers: int
    model: Model
    algorithm: Contender
    seed: int
    publications: int
    deliveries: int
    publication_delay_ms: float
    path_length_mean: float
    """The mean number of links between brokers that a delivery has crossed."""
    publication_messages: int


@dataclasses.dataclass(frozen=True, slots=True)
class CostRow:
    """The mean cost of a publication at one broker: the real code, measured by the clock of the machine."""

    subscribers: int
    algorithm: Contender
    publications: int
    match_us: float
    """The time to find the matching subscriptions."""
    select_us: float
    """The time to choose links while all links of the broker are free."""
    select_congested_us: float
    """The time to choose links while all links of the broker are congested."""
    visits_each: float
    """The mean number of brokers that a publication visits."""

    @property
    def path_selection_us(self) -> float:
        """The time to select paths in the case that matters: dynamic routing selects when links are congested."""
        return self.select_congested_us if self.algorithm.algorithm.is_dynamic else self.select_us


@dataclasses.dataclass(frozen=True, slots=True)
class BurstRow:
    """One run of the burst study; columns with ``burst`` are about the publications of the burst alone."""

    rate_per_minute: int
    model: Model
    host: HostKind
    """The kind of broker that the bursty publisher is a client of."""
    algorithm: Contender
    seed: int
    publications: int
    """The publications of the bursty publisher and of all others."""
    deliveries: int
    publication_delay_ms: float
    share_below_1s: float
    """The share of deliveries that took less than one second."""
    publications_below_1s: float
    """The share of publications whose last delivery took less than one second."""
    burst_deliveries: int
    burst_delay_ms: float
    burst_share_below_1s: float
    burst_publications_below_1s: float
    stable_ms: float | None
    """The time from the start of the burst until delays are normal again; none if they never were."""
    burst_late_ms: float
    """The time from the start of the burst until its last delivery that took more than one second; 0 without any."""
    queue_length_mean: float
    """The mean over the output queues of all links between brokers, from the start of the burst on."""
    target_queue_length_mean: float
    """The same over the paper's target links: those on static paths from the bursty publisher to its subscribers."""
    publication_messages: int
    shrinking_ms: float | None
    """The time, before delays were normal again, in which the longest queue was getting shorter (CE < 1)."""
    seconds: float
    """The duration of the run by the clock of the machine."""

    @property
    def ordinary_delay_ms(self) -> float | None:
        """The mean delay of the deliveries that do not belong to the burst; none if there are none."""
        ordinary = self.deliveries - self.burst_deliveries
        total_ms = self.deliveries * self.publication_delay_ms - self.burst_deliveries * self.burst_delay_ms
        return total_ms / ordinary if ordinary else None


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceRow:
    """The longest delay among some thousand consecutive deliveries: a point in the paper's Figs. 17 to 20."""

    rate_per_minute: int
    model: Model
    host: HostKind
    algorithm: Contender
    seed: int
    sequence: int
    delay_ms_max: float
    time_ms: float
    """The time of the last of these deliveries, from the start of the burst."""


@dataclasses.dataclass(frozen=True, slots=True)
class BoundRow:
    """The least time in which links can carry the burst of one workload, by arithmetic (see ``bounds``)."""

    rate_per_minute: int
    model: Model
    host: HostKind
    seed: int
    one_path_ms: float
    """If every publication keeps to its static paths."""
    any_path_ms: float
    """For any choice of paths."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadRow:
    """The load of ordinary publications on the busiest links, without a burst."""

    model: Model
    system: System
    seed: int
    publications: int
    alink_per_s_max: float
    ilink_per_s_max: float
    ilink_share: float
    """The share of copies that cross an iLink, from 0 to 1."""


AS_ASSUMED = "all"
"""The parameter of rows in which no assumption is changed."""


@dataclasses.dataclass(frozen=True, slots=True)
class SensitivityRow:
    """One of our results after one assumption of the cost model was changed."""

    parameter: str
    value: str
    quantity: str
    result: str


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveRow:
    """Our results for one combination of the assumptions that decide most claims, at the scale tiny."""

    sender: str
    trees: str
    host: HostKind
    quantity: str
    result: str


SeededRow = PublisherRow | SubscriberRow | DeliveryRow | BurstRow | SequenceRow
"""The rows of runs in virtual time."""
RunRow = SeededRow | CostRow
"""The rows that claims compare."""
Row = RunRow | BoundRow | LoadRow | DecisiveRow | SocketRow | SensitivityRow | AuditRow
R = TypeVar("R", bound=Row)


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """All results of an evaluation, or those of a part of it."""

    publishers: tuple[PublisherRow, ...] = ()
    subscribers: tuple[SubscriberRow, ...] = ()
    delivery: tuple[DeliveryRow, ...] = ()
    costs: tuple[CostRow, ...] = ()
    bursts: tuple[BurstRow, ...] = ()
    sequences: tuple[SequenceRow, ...] = ()
    bounds: tuple[BoundRow, ...] = ()
    loads: tuple[LoadRow, ...] = ()
    sockets: tuple[SocketRow, ...] = ()
    sensitivity: tuple[SensitivityRow, ...] = ()
    decisive: tuple[DecisiveRow, ...] = ()
    audits: tuple[AuditRow, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        """Yield all rows, table by table."""
        return itertools.chain.from_iterable(self.of(row_type) for row_type in TABLES)

    def of(self, row_type: type[R]) -> tuple[R, ...]:
        """Return the table with rows of this type."""
        rows: tuple[R, ...] = getattr(self, TABLES[row_type])
        return rows

    def under(self, model: Model, host: HostKind | None = None) -> Tables:
        """Return the rows that hold under a model: its own, and those of the models whose runs hold for it.

        With a ``host``, rows of bursts are those with a host broker of this kind.
        """
        return tables_of(row for row in self if _holds(row, model) and _is_at(row, host))

    @property
    def models(self) -> tuple[Model, ...]:
        """The models under which something was run; bounds exist for all of them."""
        found = {row.model for row in self if isinstance(row, SeededRow)}
        return tuple(each for each in Model if each in found)

    def models_of(self, row_type: type[SeededRow]) -> tuple[Model, ...]:
        """Return the models under which a study was run that has rows of this type."""
        found = {row.model for row in self.of(row_type)}
        return tuple(each for each in Model if each in found)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the studies in virtual time."""
        return tuple(sorted({row.seed for row in self if isinstance(row, SeededRow)}))

    def of_seed(self, seed: int) -> Tables:
        """Return the rows with this seed, and those without one."""
        return tables_of(row for row in self if not isinstance(row, SeededRow) or row.seed == seed)

    @property
    def hosts(self) -> tuple[HostKind, ...]:
        """The kinds of host broker in bursts."""
        found = {row.host for row in self.bursts}
        return tuple(each for each in HostKind if each in found)

    def bounds_at(self, rate_per_minute: int) -> tuple[BoundRow, ...]:
        """Return the bounds at a rate of the workloads that were run; ``self`` has the rows under one model."""
        ran = {(row.rate_per_minute, row.host, row.seed) for row in self.bursts}
        mine = [row for row in self.bounds if row.rate_per_minute == rate_per_minute]
        return tuple(row for row in mine if (row.rate_per_minute, row.host, row.seed) in ran)

    def updated(self, newer: Iterable[Row]) -> Tables:
        """Return the tables with newer rows in the place of those of the same group.

        Rows of runs are in one order, regardless of when they were run. All others keep their place, or are added at
        the end.
        """
        groups = _by_group(self) | _by_group(newer)
        rows = list(itertools.chain.from_iterable(groups.values()))
        runs = sorted((row for row in rows if isinstance(row, SeededRow | BoundRow)), key=_place_of)
        return tables_of([*runs, *(row for row in rows if not isinstance(row, SeededRow | BoundRow))])


def _by_group(rows: Iterable[Row]) -> dict[tuple[type[object], Any], list[Row]]:
    groups: dict[tuple[type[object], Any], list[Row]] = {}
    for row in rows:
        groups.setdefault((type(row), group_of(row)), []).append(row)
    return groups


TABLES: dict[type[Any], str] = {typing.get_args(rows)[0]: name for name, rows in typing.get_type_hints(Tables).items()}
"""The name of the table of each type of row."""


def tables_of(rows: Iterable[Row]) -> Tables:
    """Put rows into their tables, in order."""
    tables: dict[str, Any] = {}
    for row in rows:
        tables.setdefault(TABLES[type(row)], []).append(row)
    return Tables(**{name: tuple(each) for name, each in tables.items()})


def side_of(row: RunRow) -> Side:
    """Return the system or the algorithm that a row is about."""
    return row.system if isinstance(row, PublisherRow | SubscriberRow) else row.algorithm


def is_of_tid(side: Side) -> bool:
    """Return whether a side is TID-based routing."""
    return side is System.TID if isinstance(side, System) else side.algorithm.is_tid


def size_of(row: RunRow | BoundRow) -> int:
    """Return the value of the field that the study of a row varies."""
    match row:
        case PublisherRow():
            return row.publishers
        case SubscriberRow() | DeliveryRow() | CostRow():
            return row.subscribers
        case BurstRow() | SequenceRow() | BoundRow():
            return row.rate_per_minute
        case _:
            assert_never(row)


def key_of(row: RunRow) -> tuple[int, int, str]:
    """Return the key that rows share if they are compared with each other: size, seed and host broker.

    Comparisons are made within the rows of one model.
    """
    seed = 0 if isinstance(row, CostRow) else row.seed
    host = row.host if isinstance(row, BurstRow | SequenceRow) else ""
    return size_of(row), seed, host


_WITHOUT_MODEL = CostRow | LoadRow | SocketRow | SensitivityRow | DecisiveRow | AuditRow


def _holds(row: Row, model: Model) -> bool:
    if isinstance(row, _WITHOUT_MODEL):
        return True
    if isinstance(row, BoundRow):
        return row.model is model
    return row.model is model.played_as(_STUDIES[type(row)], is_tid=is_of_tid(side_of(row)))


def _is_at(row: Row, host: HostKind | None) -> bool:
    return host is None or not isinstance(row, BurstRow | SequenceRow | BoundRow) or row.host is host


_STUDIES: dict[type[Any], StudyName] = {
    PublisherRow: StudyName.PUBLISHERS,
    SubscriberRow: StudyName.SUBSCRIBERS,
    DeliveryRow: StudyName.DELIVERY,
    BurstRow: StudyName.BURST,
    SequenceRow: StudyName.BURST,
}


def study_of(row_type: type[object]) -> StudyName | None:
    """Return the study in virtual time that has rows of this type; none if they are measured by the clock."""
    return _STUDIES.get(row_type)


def group_of(row: Row) -> object:
    """Return the group of a row: rows of one group are replaced together when they are measured again."""
    match row:
        case SocketRow():
            return row.brokers, row.seed
        case SensitivityRow():
            return row.quantity
        case LoadRow():
            return row.model, row.system, row.seed
        case DecisiveRow():
            return row.sender, row.trees, row.host
        case AuditRow():
            return row.run
        case CostRow():
            return row.subscribers
        case BoundRow():
            return size_of(row), row.model, row.host, row.seed
        case _:
            return (*key_of(row), row.model, side_of(row))


def _place_of(row: SeededRow | BoundRow) -> tuple[int, ...]:
    """Return what decides the order of rows of runs; the points of a curve stay in their order."""
    model = list(Model).index(row.model)
    if isinstance(row, BoundRow):
        return size_of(row), model, list(HostKind).index(row.host), row.seed
    host = list(HostKind).index(row.host) if isinstance(row, BurstRow | SequenceRow) else 0
    side = side_of(row)
    sides: list[Side] = list(System) if isinstance(side, System) else list(Contender)
    return size_of(row), model, host, sides.index(side), row.seed
