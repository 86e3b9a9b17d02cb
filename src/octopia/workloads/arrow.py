"""Parquet tables and JSON files, read with pyarrow from a local path or a URI."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from octopia.errors import InvalidData
from octopia.workloads.places import first_line, locate, pyarrow


def read_table(path: str, columns: Sequence[str] = (), below: tuple[str, int] | None = None) -> pyarrow.Table:
    """Return a table: all of it, or those of the columns that exist, or the rows with a number below a limit.

    Parts of files that have no such rows are not read.
    """
    with _dataset(path) as found:
        names = [each for each in found.schema.names if not columns or each in columns]
        rows = None if below is None else pyarrow.dataset.field(below[0]) < below[1]
        return found.to_table(columns=names, filter=rows)


def count_rows(path: str) -> int:
    """Return the number of rows of a table, read from the footers of its files."""
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
    """Return the object in a JSON file."""
    system, place = locate(path)
    try:
        with system.open_input_stream(place) as stream:
            content = json.loads(stream.read())
    except FileNotFoundError:
        raise InvalidData(f"expected a file at {path}, got none") from None
    except (OSError, ValueError) as error:
        raise InvalidData(f"expected JSON at {path}, got: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise InvalidData(f"expected a JSON object at {path}, got {content!r:.50}")
    return content
