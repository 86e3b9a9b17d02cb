"""Reading workloads and other tables without Spark, from this machine or from wherever a URI points to."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import posixpath
from collections.abc import Iterator
from typing import Any

from octopia.content import Disjunction, Publication, parse_filter
from octopia.errors import InvalidData, MissingDependency, OctopiaError
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.overlay.files import overlay_from_text

try:
    import pyarrow
    import pyarrow.dataset
    from pyarrow import fs as fs
except ImportError:
    raise MissingDependency('expected pyarrow to read tables, got none: pip install "octopia[parquet]"') from None

MANIFEST = "workload.json"
ABOUT_PUBLICATIONS = ("number", "at_ms", "publisher")
"""The columns of a table of publications that are not attributes."""
_ISSUED = ("number", "id", "client", "broker", "filter")


@dataclasses.dataclass(frozen=True, slots=True)
class Issued:
    """An advertisement or a subscription, and the client at a broker that issues it."""

    id: str
    client: str
    broker: BrokerId
    text: str
    filter: Disjunction


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """A publication with its number, its publisher, and the time when it is due."""

    number: int
    at_ms: float
    publisher: str
    publication: Publication


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """A workload in memory; publications stay as columns, since they are many."""

    name: str
    tree: str
    scot: Scot
    advertisements: tuple[Issued, ...]
    subscriptions: tuple[Issued, ...]
    _publications: pyarrow.Table

    @property
    def publications(self) -> int:
        """How many publications there are."""
        return int(self._publications.num_rows)

    def timed(self, first: int | None = None) -> Iterator[Timed]:
        """Yield the publications by number, all or the first so many."""
        table = self._publications if first is None else self._publications.slice(0, first)
        for batch in table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                number, at_ms, publisher = (row.pop(name) for name in ABOUT_PUBLICATIONS)
                content = {name: value for name, value in row.items() if value is not None}
                # The number travels along, so that whoever receives a publication knows which one it is.
                yield Timed(number, at_ms, publisher, Publication(content, number.to_bytes(8, "big")))


@functools.lru_cache(maxsize=2)
def load_workload(path: str) -> Workload:
    """Read a workload from its folder; the last ones read are remembered, since several runs may play the same."""
    manifest = read_json(posixpath.join(path, MANIFEST))
    try:
        tree, clusters = manifest["overlay"]["tree"], manifest["overlay"]["clusters"]
    except (KeyError, TypeError):
        raise InvalidData(f"expected the overlay in {path}/{MANIFEST}, got a file without it") from None
    publications = _read_columns(path, "publications", ABOUT_PUBLICATIONS).sort_by("number")
    return Workload(
        name=posixpath.basename(path.rstrip("/")),
        tree=tree,
        scot=overlay_from_text(tree, clusters).scot,
        advertisements=_read_issued(path, "advertisements"),
        subscriptions=_read_issued(path, "subscriptions"),
        _publications=publications,
    )


def _read_issued(path: str, name: str) -> tuple[Issued, ...]:
    rows = _read_columns(path, name, _ISSUED).sort_by("number").to_pylist()
    return tuple(_issued(row, f"{path}/{name}") for row in rows)


def _issued(row: dict[str, Any], where: str) -> Issued:
    try:
        broker, interest = BrokerId.parse(row["broker"]), parse_filter(row["filter"])
    except OctopiaError as error:
        raise InvalidData(f"{where}, {row['id']}: {error}") from None
    return Issued(row["id"], row["client"], broker, row["filter"], interest)


def _read_columns(path: str, name: str, columns: tuple[str, ...]) -> pyarrow.Table:
    table = read_arrow(posixpath.join(path, name))
    missing = [each for each in columns if each not in table.column_names]
    if missing:
        raise InvalidData(f"expected the columns {', '.join(columns)} in {path}/{name}, got no {', '.join(missing)}")
    return table


def read_arrow(path: str) -> pyarrow.Table:
    """Read a whole table."""
    with _dataset(path) as found:
        return found.to_table()


def count_rows(path: str) -> int:
    """Return how many rows a table has; only the ends of its files are read."""
    with _dataset(path) as found:
        return int(found.count_rows())


@contextlib.contextmanager
def _dataset(path: str) -> Iterator[pyarrow.dataset.Dataset]:
    system, place = locate(path)
    try:
        yield pyarrow.dataset.dataset(place, filesystem=system, format="parquet")
    except FileNotFoundError:
        raise InvalidData(f"expected a table at {path}, got none: was it made?") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidData(f"expected a Parquet table at {path}, got: {first_line(error)}") from None


def read_json(path: str) -> dict[str, Any]:
    """Read a small file."""
    system, place = locate(path)
    try:
        with system.open_input_stream(place) as stream:
            content = json.loads(stream.read())
    except FileNotFoundError:
        raise InvalidData(f"expected a file at {path}, got none") from None
    except (OSError, ValueError) as error:
        raise InvalidData(f"expected JSON at {path}, got: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise InvalidData(f"expected JSON with names and values at {path}, got {content!r:.50}")
    return content


def locate(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system that a path or URI belongs to, and the place in it."""
    try:
        # What Spark calls s3a is s3 to everybody else.
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(absolute(path).replace("s3a://", "s3://", 1))
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidData(f"expected a path or a URI, got {path}: {first_line(error)}") from None
    return found


def absolute(path: str) -> str:
    """Return a path that means the same in every process of this machine; URIs stay as they are."""
    return path if "://" in path or path.startswith("/") else str(pathlib.Path(path).absolute())


def first_line(error: BaseException) -> str:
    """Return what an error says, without the stack of a Java that nobody asked for."""
    said = str(error).strip().splitlines()
    if len(said) > 1 and said[0].startswith("An error occurred while calling"):
        return said[1].removeprefix(": ")  # The first line only tells which call of Java it was.
    return said[0] if said else type(error).__name__
