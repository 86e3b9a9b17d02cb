"""Parquet tables and JSON files, read with pyarrow from a local path or a URI."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from octopia.errors import InvalidData, MissingDependency

try:
    import pyarrow as pyarrow
    import pyarrow.dataset
    from pyarrow import fs as fs
except ImportError:
    raise MissingDependency(
        'expected pyarrow to read tables, got none: pip install ".[parquet]" in the checkout'
    ) from None


def read_table(path: str) -> pyarrow.Table:
    """Return a whole table."""
    with _dataset(path) as found:
        return found.to_table()


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


def locate(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path within it."""
    try:
        # Spark's scheme s3a is s3 everywhere else.
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(absolute(path).replace("s3a://", "s3://", 1))
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidData(f"expected a path or a URI, got {path}: {first_line(error)}") from None
    return found


def absolute(path: str) -> str:
    """Return a path as an absolute path; URIs stay as they are."""
    return path if "://" in path or path.startswith("/") else str(pathlib.Path(path).absolute())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
