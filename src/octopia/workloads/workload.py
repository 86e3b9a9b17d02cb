"""The tables of a workload, read into memory without Spark."""

from __future__ import annotations

import dataclasses
import functools
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from octopia.content import Disjunction, Publication
from octopia.errors import InvalidData, OctopiaError
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.overlay.files import overlay_from_text
from octopia.workloads.arrow import read_json, read_table
from octopia.workloads.forms import FORM, read_filter
from octopia.workloads.places import fingerprint, pyarrow

WORKLOAD_FILE = "workload.json"
"""The file that describes a workload, beside its tables."""
BURST_PUBLISHER = "burst"
"""The name of the high-rate publisher of a burst."""
ABOUT_PUBLICATIONS = ("number", "at_ms", "publisher")
"""The columns of a table of publications that are not attributes."""
TABLES = ("publications", "advertisements", "subscriptions")
"""The tables that a run reads."""
ISSUED = pyarrow.schema(
    {
        "number": pyarrow.int64(),
        "id": pyarrow.string(),
        "client": pyarrow.string(),
        "broker": pyarrow.string(),
        "filter": pyarrow.string(),
        "is_burst": pyarrow.bool_(),
    }
)
"""The columns of a table of advertisements or subscriptions; ``is_burst`` is optional when a workload is read."""
ISSUED_WITH_FORM = ISSUED.append(pyarrow.field(FORM, pyarrow.binary()))
"""The columns of such a table as it is made."""


@dataclasses.dataclass(frozen=True, slots=True)
class Issued:
    """An advertisement or a subscription, with the client that issues it and the client's broker."""

    id: str
    client: str
    broker: BrokerId
    text: str
    filter: Disjunction


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """A publication with its number, its publisher, and the time at which it is due."""

    number: int
    at_ms: float
    publisher: str
    publication: Publication


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """A workload in memory; its many publications stay in columns."""

    name: str
    tree: str
    scot: Scot
    advertisements: tuple[Issued, ...]
    subscriptions: tuple[Issued, ...]
    _publications: pyarrow.Table

    def timed(self, first: int | None = None) -> Iterator[Timed]:
        """Yield all publications, or the ``first`` N, ordered by number."""
        table = self._publications if first is None else self._publications.slice(0, first)
        for batch in table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                number, at_ms, publisher = (row.pop(name) for name in ABOUT_PUBLICATIONS)
                content = {name: value for name, value in row.items() if value is not None}
                # The payload is the number, by which a subscriber identifies the publication.
                yield Timed(number, at_ms, publisher, Publication(content, number.to_bytes(8, "big")))

    def without_burst(self, first: int) -> Workload:
        """Return the workload with the first N publications of ordinary publishers."""
        ordinary = pyarrow.compute.not_equal(self._publications["publisher"], BURST_PUBLISHER)
        return dataclasses.replace(self, _publications=self._publications.filter(ordinary).slice(0, first))


def load_workload(path: str, first: int = 0) -> Workload:
    """Read a workload from its folder, or only its ``first`` N publications (0 for all).

    The last two are cached, since several runs may use the same one; one that was made again is read again.
    """
    return _load(path, fingerprint(*(posixpath.join(path, name) for name in (WORKLOAD_FILE, *TABLES))), first)


@functools.lru_cache(maxsize=2)
def _load(path: str, version: str, first: int) -> Workload:
    manifest = read_json(posixpath.join(path, WORKLOAD_FILE))
    try:
        tree, clusters = manifest["overlay"]["tree"], manifest["overlay"]["clusters"]
    except (KeyError, TypeError):
        raise InvalidData(f"expected the overlay in {path}/{WORKLOAD_FILE}, got a file without it") from None
    # Publications are numbered from 0.
    below = ("number", first) if first else None
    publications = _read_columns(path, "publications", ABOUT_PUBLICATIONS, below=below).sort_by("number")
    return Workload(
        name=posixpath.basename(path.rstrip("/")),
        tree=tree,
        scot=overlay_from_text(tree, clusters).scot,
        advertisements=_read_issued(path, "advertisements", version),
        subscriptions=_read_issued(path, "subscriptions", version),
        _publications=publications,
    )


@functools.lru_cache(maxsize=4)
def _read_issued(path: str, name: str, version: str) -> tuple[Issued, ...]:
    needed = [each for each in ISSUED.names if each != "is_burst"]
    rows = _read_columns(path, name, needed, (*needed, FORM)).sort_by("number").to_pylist()
    return tuple(_issued(row, f"{path}/{name}") for row in rows)


def _issued(row: dict[str, Any], where: str) -> Issued:
    try:
        broker, interest = BrokerId.parse(row["broker"]), read_filter(row["filter"], row.get(FORM))
    except OctopiaError as error:
        raise InvalidData(f"{where}, {row['id']}: {error}") from None
    return Issued(row["id"], row["client"], broker, row["filter"], interest)


def _read_columns(
    path: str, name: str, needed: Sequence[str], columns: Sequence[str] = (), below: tuple[str, int] | None = None
) -> pyarrow.Table:
    table = read_table(posixpath.join(path, name), columns, below)
    missing = [each for each in needed if each not in table.column_names]
    if missing:
        raise InvalidData(f"expected the columns {', '.join(needed)} in {path}/{name}, got no {', '.join(missing)}")
    return table
