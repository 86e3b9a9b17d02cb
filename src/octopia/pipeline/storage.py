"""Where tables and small files lie: on this machine, or wherever Spark reads from.

A ``Storage`` has a root; names are relative to it unless they are absolute paths or URIs. Tables are Parquet folders,
which count as written once Spark has marked them so; small files are written beside their place and moved there. So
whoever reads sees all of a thing, or nothing.
"""

from __future__ import annotations

import json
import posixpath
import secrets
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from octopia.errors import InvalidData, JobFailed, UsageError
from octopia.pipeline.session import SPARK_ERRORS
from octopia.playing.files import absolute, count_rows, first_line, locate, read_json

_DONE = "_SUCCESS"


class Storage:
    """A place for tables and small files."""

    def __init__(self, root: str = ""):
        self.root = root

    def path(self, name: str) -> str:
        """Return the full path of a name."""
        if not self.root or "://" in name or name.startswith("/"):
            return name
        return posixpath.join(self.root, name)

    def check(self) -> None:
        """Refuse a root that is no folder and cannot be one."""
        system, path = self._locate("")
        if not self.root or system.get_file_info(path).type == fs.FileType.Directory:
            return
        try:
            system.create_dir(path, recursive=True)
        except OSError as error:
            raise UsageError(f"expected a folder as storage, got {self.root}: {first_line(error)}") from None

    # Tables.

    def write(self, frame: DataFrame, name: str) -> None:
        """Write a table in place of what was there."""
        try:
            frame.write.mode("overwrite").parquet(self.absolute(name))
        except SPARK_ERRORS as error:
            raise JobFailed(f"expected to write the table {self.path(name)}, got: {first_line(error)}") from error

    def read(self, spark: SparkSession, name: str, schema: StructType | None = None) -> DataFrame:
        """Read a table that was written to its end, and check that it has the columns of a schema."""
        self.require_table(name)
        try:
            frame = spark.read.parquet(self.absolute(name))
        except SPARK_ERRORS as error:
            raise InvalidData(f"expected a table at {self.path(name)}, got: {first_line(error)}") from error
        return frame if schema is None else with_columns_of(schema, frame, self.path(name))

    def has_table(self, name: str) -> bool:
        """Whether a table is there that was written to its end."""
        return self.exists(posixpath.join(name, _DONE))

    def require_table(self, name: str) -> None:
        """Refuse a table that is not there, or was not written to its end."""
        if not self.has_table(name):
            raise InvalidData(
                f"expected a finished table at {self.path(name)}, got none: was it made, and to its end ({_DONE})?"
            )

    def count_rows(self, name: str) -> int:
        """Return how many rows a finished table has, as its files say themselves: no job of Spark is needed."""
        self.require_table(name)
        return count_rows(self.path(name))

    # Small files.

    def exists(self, name: str) -> bool:
        """Whether a file or folder is there."""
        system, path = self._locate(name)
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a small file."""
        return read_json(self.path(name))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a small file, in one step."""
        system, path = self._locate(name)
        draft = f"{path}.{secrets.token_hex(4)}.draft"
        try:
            system.create_dir(posixpath.dirname(path), recursive=True)
            with system.open_output_stream(draft) as stream:
                stream.write((json.dumps(content, indent=2) + "\n").encode())
            system.move(draft, path)
        except OSError as error:
            raise UsageError(f"expected a place to write {self.path(name)}, got: {first_line(error)}") from None

    def names_in(self, folder: str) -> list[str]:
        """Return the names of what lies in a folder, sorted; none if there is no such folder."""
        system, path = self._locate(folder)
        try:
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        except OSError as error:
            raise UsageError(f"expected a folder at {self.path(folder)}, got: {first_line(error)}") from None
        return sorted(each.base_name for each in found)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        system, path = self._locate(folder)
        if system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)

    def move(self, source: str, target: str) -> None:
        """Give a file or folder another name."""
        system, path = self._locate(source)
        try:
            system.move(path, self._locate(target)[1])
        except OSError as error:
            raise UsageError(f"expected to move {self.path(source)}, got: {first_line(error)}") from None

    def _locate(self, name: str) -> tuple[fs.FileSystem, str]:
        return locate(self.path(name))

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        system, path = self._locate(name)
        if system.get_file_info(path).type == fs.FileType.File:
            system.delete_file(path)

    def absolute(self, name: str) -> str:
        """Return the full path of a name as every process of this machine understands it."""
        return absolute(self.path(name))


def with_columns_of(schema: StructType, frame: DataFrame, where: str) -> DataFrame:
    """Return the columns of a schema, in its order and types; an error names those that are missing."""
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise InvalidData(
            f"expected the columns {', '.join(schema.names)} in {where}, got {', '.join(frame.columns)}: "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
    return frame.select(*(frame[field.name].cast(field.dataType) for field in schema.fields))
