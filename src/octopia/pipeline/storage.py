"""Storage of tables and JSON files, on this machine or on any file system that Spark reads.

A ``Storage`` has a root. Names are relative to it unless they are absolute paths or URIs. Tables are Parquet folders,
which are complete once Spark has marked them. JSON files are written under another name and then renamed. So a reader
sees a complete table or file, or none. Several tables that belong together are made in a draft folder first, so that
earlier ones stay if something fails.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from octopia.errors import InvalidData, JobFailed, UsageError
from octopia.pipeline.spark_errors import SPARK_ERRORS, is_unreadable_input, spark_message
from octopia.workloads.arrow import count_rows, read_json
from octopia.workloads.places import DRAFT, absolute, can_rename, first_line, for_spark, info_of, is_uri, locate

_DONE = "_SUCCESS"


class Storage:
    """A root folder for tables and JSON files."""

    def __init__(self, root: str = ""):
        self.root = root

    def path(self, name: str) -> str:
        """Return the full path of a name."""
        if not name:
            return self.root
        if not self.root or is_uri(name) or name.startswith("/"):
            return name
        return posixpath.join(self.root, name)

    @property
    def shown(self) -> str:
        """The root, as messages show it."""
        return self.root or "of the current folder"

    def check(self) -> None:
        """Raise an error if the root is not a folder and cannot be created."""
        system, path = self._locate("")
        if not self.root or info_of(self.root).type == fs.FileType.Directory:
            return
        try:
            system.create_dir(path, recursive=True)
        except OSError as error:
            raise UsageError(f"expected a folder as storage, got {self.root}: {first_line(error)}") from None

    # Tables.

    def write(self, frame: DataFrame, name: str) -> None:
        """Write a table, replacing an earlier one."""
        try:
            frame.write.mode("overwrite").parquet(self.for_spark(name))
        except SPARK_ERRORS as error:
            if is_unreadable_input(error):
                raise InvalidData(spark_message(error)) from error
            raise JobFailed(f"expected to write the table {self.path(name)}, got: {spark_message(error)}") from error

    def read(self, spark: SparkSession, name: str, schema: StructType | None = None) -> DataFrame:
        """Return a complete table, with the columns of a schema if one is given."""
        self.require_table(name)
        try:
            frame = spark.read.parquet(self.for_spark(name))
        except SPARK_ERRORS as error:
            raise InvalidData(f"expected a table at {self.path(name)}, got: {spark_message(error)}") from error
        return frame if schema is None else with_columns_of(schema, frame, self.path(name))

    def has_table(self, name: str) -> bool:
        """Return whether there is a complete table."""
        return self.exists(posixpath.join(name, _DONE))

    def require_table(self, name: str) -> None:
        """Raise an error if a table is missing or incomplete."""
        if not self.has_table(name):
            raise InvalidData(
                f"expected a finished table at {self.path(name)}, got none: was it made, and to its end ({_DONE})?"
            )

    def count_rows(self, name: str) -> int:
        """Return the number of rows of a complete table, without a Spark job."""
        self.require_table(name)
        return count_rows(self.path(name))

    # Drafts.

    @contextlib.contextmanager
    def draft(self, folder: str) -> Iterator[str]:
        """Yield the name of a new folder inside ``folder``; drafts are removed before and after the block."""
        for name in self.names_in(folder):
            if name.startswith(DRAFT):
                self.remove(posixpath.join(folder, name))
        draft = posixpath.join(folder, f"{DRAFT}{secrets.token_hex(4)}")
        self._make(draft)
        try:
            yield draft
        finally:
            self.remove(draft)

    def require_writable(self, folder: str) -> None:
        """Raise an error if nothing can be written into a folder, before work is done for it."""
        probe = posixpath.join(folder, f"{DRAFT}{secrets.token_hex(4)}")
        self._make(probe)
        self.remove(probe)

    def _make(self, folder: str) -> None:
        system, path = self._locate(folder)
        try:
            system.create_dir(path, recursive=True)
        except OSError as error:
            place = posixpath.dirname(self.path(folder)) or "the current folder"
            raise UsageError(f"expected a folder that can be written, got {place}: {first_line(error)}") from None

    def adopt(self, draft: str, folder: str, names: Sequence[str]) -> None:
        """Move the tables of a draft into a folder, replacing all earlier ones with these names."""
        for name in names:
            self.remove(posixpath.join(folder, name))
            if self.has_table(posixpath.join(draft, name)):
                self._move(posixpath.join(draft, name), posixpath.join(folder, name))

    def _move(self, table: str, target: str) -> None:
        system, origin = self._locate(table)
        _, place = self._locate(target)
        if can_rename(system):
            system.move(origin, place)
            return
        files = [each.path for each in system.get_file_info(fs.FileSelector(origin, recursive=True)) if each.is_file]
        # The mark of a complete table comes last.
        for path in sorted(files, key=lambda path: posixpath.basename(path) == _DONE):
            system.copy_file(path, place + path.removeprefix(origin))
        system.delete_dir(origin)

    # Files and folders.

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        return bool(info_of(self.path(name)).type != fs.FileType.NotFound)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file."""
        return read_json(self.path(name))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file atomically."""
        self.write_text(name, json.dumps(content, indent=2) + "\n")

    def write_text(self, name: str, content: str) -> None:
        """Write a file atomically: an object store shows it when it is complete, others when it is renamed."""
        system, path = self._locate(name)
        place = f"{path}.{secrets.token_hex(4)}.draft" if can_rename(system) else path
        try:
            system.create_dir(posixpath.dirname(path), recursive=True)
            with system.open_output_stream(place) as stream:
                stream.write(content.encode())
            if place != path:
                system.move(place, path)
        except OSError as error:
            raise UsageError(f"expected a place to write {self.path(name)}, got: {first_line(error)}") from None

    def names_in(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; none if there is no such folder."""
        system, path = self._locate(folder)
        try:
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise UsageError(f"expected a folder at {self.path(folder)}, got: {first_line(error)}") from None
        return sorted(each.base_name for each in found)

    def remove(self, folder: str) -> None:
        """Remove a folder and its contents, if it exists."""
        system, path = self._locate(folder)
        if system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)

    def _locate(self, name: str) -> tuple[fs.FileSystem, str]:
        return locate(self.path(name))

    def remove_file(self, name: str) -> None:
        """Remove a file, if it exists."""
        system, path = self._locate(name)
        if system.get_file_info(path).type == fs.FileType.File:
            system.delete_file(path)

    def absolute(self, name: str) -> str:
        """Return the absolute path of a name, for use by other processes."""
        return absolute(self.path(name))

    def for_spark(self, name: str) -> str:
        """Return the URI of a name, for use by Spark."""
        return for_spark(self.path(name))


def with_columns_of(schema: StructType, frame: DataFrame, where: str, optional: Sequence[str] = ()) -> DataFrame:
    """Return the columns of a schema, in its order and types; raise an error that names missing ones.

    A missing column is null if it is ``optional``.
    """
    missing = [name for name in schema.names if name not in (*frame.columns, *optional)]
    if missing:
        raise InvalidData(
            f"expected the columns {', '.join(schema.names)} in {where}, got {', '.join(frame.columns)}: "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
    found = {name: frame[name] if name in frame.columns else F.lit(None) for name in schema.names}
    return frame.select(*(found[field.name].cast(field.dataType).alias(field.name) for field in schema.fields))
