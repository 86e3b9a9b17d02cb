"""Places of tables and files: local paths and URIs, which mean the same to Spark and to pyarrow.

Spark reads and writes tables with its own file systems, while this process and the workers read many of them with
pyarrow. ``for_spark`` and ``locate`` give both the same place, or refuse it: ``s3a://`` and ``s3://`` are one store,
``hdfs://`` needs the library of Hadoop, and others have the same name on both sides or are refused.

A cache of something that was read from a place is keyed by the place and its ``fingerprint``, so a file that was
replaced is read again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re

from octopia.errors import InvalidData, MissingDependency

try:
    import pyarrow as pyarrow
    import pyarrow.dataset
    from pyarrow import fs as fs
except ImportError:
    raise MissingDependency(
        'expected pyarrow to read tables, got none: pip install ".[parquet]" in the checkout'
    ) from None

DRAFT = ".draft-"
"""The prefix of folders whose contents are unfinished."""


_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_S3 = ("s3", "s3a")
_AS_THEY_ARE = ("gs", "abfs", "abfss")
_LIBHDFS = ("HADOOP_HOME", "ARROW_LIBHDFS_DIR")


def is_uri(path: str) -> bool:
    """Return whether a path begins with a scheme, such as ``s3a://`` or ``dbfs:/``."""
    return _URI.match(path) is not None


def absolute(path: str) -> str:
    """Return a path as an absolute path; URIs stay as they are."""
    return path if is_uri(path) or path.startswith("/") else str(pathlib.Path(path).absolute())


def for_spark(path: str) -> str:
    """Return the URI by which Spark finds the place that ``locate`` finds, whatever its default file system is."""
    scheme, rest = _split(path)
    if scheme in _S3:
        return f"s3a:{rest}"
    return path if scheme else f"file:{absolute(path)}"


def locate(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path within it; S3 is configured by AWS's variables."""
    scheme, rest = _split(path)
    try:
        if not scheme:
            return fs.LocalFileSystem(), absolute(path).rstrip("/") or "/"
        if scheme in _S3:
            endpoint = _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
            return _s3(endpoint, _variable("AWS_REGION", "AWS_DEFAULT_REGION")), rest.strip("/")
        if scheme == "hdfs":
            _require_libhdfs(path)
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidData(f"expected a place that can be read, got {path}: {first_line(error)}") from None
    return found


def info_of(path: str) -> fs.FileInfo:
    """Return what is at a place; its type is ``NotFound`` if nothing is."""
    system, place = locate(path)
    try:
        return system.get_file_info(place)
    except OSError as error:
        raise InvalidData(f"expected a place that can be read, got {path}: {first_line(error)}") from None


def _split(path: str) -> tuple[str, str]:
    """Return the scheme of a path and the rest; raise an error for one that Spark and pyarrow do not share."""
    found = _URI.match(path)
    if found is None:
        return "", path
    scheme, rest = found[1].lower(), path[found.end() - 1 :]
    if scheme == "dbfs":
        raise InvalidData(f"expected a path that all programs see, got {path}: use its mount, /dbfs/{rest.lstrip('/')}")
    if scheme not in (*_S3, *_AS_THEY_ARE, "file", "hdfs"):
        raise InvalidData(f"expected a path, or a URI such as s3a://bucket/folder or hdfs://machine/folder, got {path}")
    return scheme, rest


def _require_libhdfs(path: str) -> None:
    """Raise an error if pyarrow would not find the library of Hadoop, which it looks for with many complaints."""
    if not any(os.environ.get(name) for name in _LIBHDFS):
        raise InvalidData(f"expected the library of Hadoop for {path}, got none: set HADOOP_HOME and CLASSPATH")


def _variable(*names: str) -> str | None:
    """Return the value of the first environment variable that is set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


@functools.lru_cache(maxsize=4)
def _s3(endpoint: str | None, region: str | None) -> fs.FileSystem:
    return fs.S3FileSystem(endpoint_override=endpoint, region=region)


def can_rename(system: fs.FileSystem) -> bool:
    """Return whether a file system renames files and folders at once; object stores copy and delete them."""
    return system.type_name in ("local", "hdfs")


def fingerprint(*paths: str) -> str:
    """Return a digest of the names, sizes and times of files, or of all files in folders.

    Spark gives every file that it writes a new name, so tables that were made again differ. Missing places count as
    empty.
    """
    found = [each for path in paths for each in _files_at(path)]
    listing = sorted(f"{each.path} {each.size} {each.mtime_ns}" for each in found if each.type == fs.FileType.File)
    return hashlib.sha256("\n".join(listing).encode()).hexdigest()


def _files_at(path: str) -> list[fs.FileInfo]:
    system, place = locate(path)
    here = info_of(path)
    if here.type == fs.FileType.File:
        return [here]
    try:
        return list(system.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True)))
    except OSError as error:
        raise InvalidData(f"expected a file or folder at {path}, got: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
