"""The tables that the studies of the paper's evaluation produce, and their CSV files.

A row is one run, or one point of it. Delays are means in virtual time; what a clock measured says so. Messages
went over links between brokers, and are those of the kind that the study is about. A table may be empty: that study was
not run.
"""

from __future__ import annotations

import csv
import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, assert_never

from octopia.errors import InvalidData

OCTOPIA = "OctopiA"
TID = "TID"
STATIC = "static"
DYNAMIC = "dynamic"
TID_STATIC = "tid-static"
TID_DYNAMIC = "tid-dynamic"
SYSTEMS = (OCTOPIA, TID)
ALGORITHMS = (STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC)

_PLACES = 6


@dataclasses.dataclass(frozen=True, slots=True)
class PublisherRow:
    """One run of the publisher study; ``table_size_mean`` is of the CLTs or SRTs of all brokers."""

    publishers: int
    system: str
    seed: int
    advertisements: int
    advertisement_delay_ms: float
    table_size_mean: float
    advertisement_messages: int
    confirmation_messages: int
    """Which tell clients that what they issued is in force; the paper has none."""
    duplicate_share: float
    """Of the advertisement messages, those that were discarded: 0 to 1."""


@dataclasses.dataclass(frozen=True, slots=True)
class SubscriberRow:
    """One run of the subscriber study."""

    subscribers: int
    system: str
    seed: int
    subscriptions: int
    subscription_delay_ms: float
    prt_size_mean: float
    subscription_messages: int
    """With those that set bits of cluster index vectors."""
    confirmation_messages: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One run of the delivery study, in which dynamic routing is forced onto static paths."""

    subscribers: int
    algorithm: str
    seed: int
    publications: int
    deliveries: int
    publication_delay_ms: float
    publication_messages: int


@dataclasses.dataclass(frozen=True, slots=True)
class CostRow:
    """What a publication costs at one broker, on average, in the real code and by the clock of the machine."""

    subscribers: int
    algorithm: str
    publications: int
    match_us: float
    """To find the matching subscriptions."""
    select_us: float
    """To choose links while all links of the broker are free."""
    select_congested_us: float
    """To choose links while all links of the broker are congested."""
    visits_each: float
    """How many brokers a publication visits, on average."""

    @property
    def path_selection_us(self) -> float:
        """The time to select paths when it matters: dynamic routing selects when links are congested."""
        return self.select_congested_us if self.algorithm in (DYNAMIC, TID_DYNAMIC) else self.select_us


@dataclasses.dataclass(frozen=True, slots=True)
class BurstRow:
    """One run of the burst study."""

    rate_per_minute: int
    algorithm: str
    seed: int
    publications: int
    """Of all publishers, the bursty one and the others."""
    deliveries: int
    publication_delay_ms: float
    share_below_1s: float
    stable_ms: float | None
    """From the start of the burst until delays are normal again; none if they never were."""
    queue_length_mean: float
    """Of the output queues of all links between brokers, from the start of the burst to the last delivery."""
    publication_messages: int
    shrinking_ms: float | None
    """How long, until delays were normal again, the longest queue was getting shorter (CE < 1)."""
    seconds: float
    """How long the run took, by the clock of the machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceRow:
    """The longest delay among some thousand deliveries in sequence; a point in the paper's Figs. 17 to 20."""

    rate_per_minute: int
    algorithm: str
    seed: int
    sequence: int
    delay_ms_max: float
    time_ms: float
    """When the last of them was delivered, since the start of the burst."""


@dataclasses.dataclass(frozen=True, slots=True)
class RealRow:
    """One run over real sockets, by the clock, and the same workload in virtual time."""

    study: str
    algorithm: str
    seed: int
    publications: int
    deliveries: int
    offered: float
    """How many times what slow links carry was offered to them; 0 if no link was slow."""
    publication_delay_ms: float
    share_below_1s: float
    publication_messages: int
    simulated_delay_ms: float
    simulated_messages: int
    processors_used: float
    """Of all processors of the machine, by brokers and clients, mean: 0 to 1."""
    processors: str
    """Whether there were ``enough``, or they were ``short`` and may have been the bottleneck; else ``unknown``."""


AS_ASSUMED = "all"
"""The parameter of rows in which nothing is changed."""


@dataclasses.dataclass(frozen=True, slots=True)
class SensitivityRow:
    """What one of our results becomes when one assumption of the cost model is changed."""

    parameter: str
    value: str
    quantity: str
    result: str


@dataclasses.dataclass(frozen=True, slots=True)
class AuditRow:
    """What the audit of one run found."""

    run: str
    deliveries: int
    missing: int
    unwanted: int
    duplicate: int

    @property
    def is_clean(self) -> bool:
        """Whether every delivery came exactly once, and to those that wanted it."""
        return not (self.missing or self.unwanted or self.duplicate)


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """The results of all studies."""

    publishers: tuple[PublisherRow, ...] = ()
    subscribers: tuple[SubscriberRow, ...] = ()
    delivery: tuple[DeliveryRow, ...] = ()
    costs: tuple[CostRow, ...] = ()
    bursts: tuple[BurstRow, ...] = ()
    sequences: tuple[SequenceRow, ...] = ()
    real: tuple[RealRow, ...] = ()
    sensitivity: tuple[SensitivityRow, ...] = ()


_ROWS: dict[str, type[Any]] = {
    "publishers": PublisherRow,
    "subscribers": SubscriberRow,
    "delivery": DeliveryRow,
    "costs": CostRow,
    "bursts": BurstRow,
    "sequences": SequenceRow,
    "real": RealRow,
    "sensitivity": SensitivityRow,
}

R = TypeVar("R")
Run = PublisherRow | SubscriberRow | DeliveryRow | CostRow | BurstRow | SequenceRow


def side_of(row: Run) -> str:
    """Return the system or the algorithm that a row is about."""
    by_system = isinstance(row, PublisherRow | SubscriberRow)
    known: tuple[str, ...] = SYSTEMS if by_system else ALGORITHMS
    side: str = getattr(row, "system" if by_system else "algorithm")
    if side not in known:
        raise InvalidData(f'expected one of {", ".join(known)} in a {type(row).__name__}, got "{side}"')
    return side


def key_of(row: Run) -> tuple[int, ...]:
    """Return what two rows have in common that are compared with each other; how large a run was comes first."""
    match row:
        case PublisherRow():
            return row.publishers, row.seed
        case SubscriberRow() | DeliveryRow():
            return row.subscribers, row.seed
        case CostRow():
            return (row.subscribers,)
        case BurstRow() | SequenceRow():
            return row.rate_per_minute, row.seed
        case _:
            assert_never(row)


def write_tables(tables: Tables, folder: Path) -> list[Path]:
    """Write a CSV file for each table; an empty one has its header only."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.csv" for name in _ROWS]
    for path in paths:
        write_csv(path, _ROWS[path.stem], getattr(tables, path.stem))
    return paths


def read_tables(folder: Path) -> Tables:
    """Read the CSV files of a folder; a table whose file is not there is empty."""
    paths = [folder / f"{name}.csv" for name in _ROWS]
    return Tables(**{path.stem: read_csv(path, _ROWS[path.stem]) for path in paths if path.exists()})


def write_csv(path: Path, row_type: type[R], rows: Iterable[R]) -> None:
    """Write rows in their order; floats are rounded to six places, and none is an empty cell."""
    names = _columns(row_type)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text_of(getattr(row, name)) for name in names] for row in rows)


def read_csv(path: Path, row_type: type[R]) -> tuple[R, ...]:
    """Read the rows of a file that ``write_csv`` wrote."""
    readers = _columns(row_type)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file)
    except (OSError, ValueError) as error:
        raise InvalidData(f"expected a table in {path}, got: {error}") from None
    if header != list(readers):
        raise InvalidData(f"expected the columns {', '.join(readers)} in {path}, got {', '.join(header)}")
    return tuple(_row_of(row_type, readers, line, f"{path}:{number}") for number, line in enumerate(lines, start=2))


def _row_of(row_type: type[R], readers: dict[str, Callable[[str], Any]], line: Sequence[str], place: str) -> R:
    try:
        return row_type(*(read(cell) for read, cell in zip(readers.values(), line, strict=True)))
    except ValueError as error:
        raise InvalidData(f"expected a row of {row_type.__name__} at {place}, got: {error}") from None


def _columns(row_type: type[Any]) -> dict[str, Callable[[str], Any]]:
    """Return what reads a cell of each column."""
    types = typing.get_type_hints(row_type)
    names = [field.name for field in dataclasses.fields(row_type)]
    return {name: types[name] if types[name] in (int, float, str) else _optional_float for name in names}


def _optional_float(cell: str) -> float | None:
    return float(cell) if cell else None


def _text_of(value: object) -> str:
    if value is None:
        return ""
    return repr(round(value, _PLACES)) if isinstance(value, float) else str(value)
