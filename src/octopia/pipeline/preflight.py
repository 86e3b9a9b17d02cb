"""A check of Spark's workers before the first job: their Python, this package, its version, and the storage.

Workers on other machines have their own Python and their own view of the storage. Without the check, the first job
would fail after minutes with a Java stack trace.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import secrets
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from octopia.errors import MissingDependency, UsageError
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.storage import Storage

PROBES = 16
"""The number of tasks that look around; they run on all workers that are free."""
_NEEDED = ("octopia.workloads.places", "octopia.pipeline.truth", "octopia.workloads.simulated_run")
"""The modules that workers import, and with them all packages that they need."""


def check_workers(spark: SparkSession, storage: Storage) -> None:
    """Raise an error that names everything that Spark's workers lack."""
    with _marker(storage) as marker:
        probe = F.udf(_probe(storage.absolute(marker), _version(), _NEEDED), "string", useArrow=False)
        wanted = f"expected Python {platform.python_version()}, octopia {_version()} and the storage on Spark's workers"
        remedy = "install octopia there, or name another Python as python in [pipeline] of octopia.toml"
        try:
            rows = spark.range(0, PROBES, 1, PROBES).select(probe("id").alias("report")).collect()
        except SPARK_ERRORS as error:
            raise MissingDependency(f"{wanted}, got: {spark_message(error)}: {remedy}") from error
        reports = [json.loads(row.report) for row in rows]
        lacking = dict.fromkeys(f"{each['worker']}: {', '.join(each['lacks'])}" for each in reports if each["lacks"])
        if lacking:
            raise MissingDependency(f"{wanted}, got: {'; '.join(lacking)}: {remedy}")
        _check_reading(spark, storage, marker)


def _check_reading(spark: SparkSession, storage: Storage, marker: str) -> None:
    """Raise an error if Spark itself does not see the storage as this process does."""
    try:
        found = [row.value for row in spark.read.text(storage.for_spark(f"{marker}/seen")).collect()]
    except SPARK_ERRORS as error:
        raise UsageError(f"expected Spark to read the storage {storage.shown}, got: {spark_message(error)}") from error
    if found != [marker]:
        raise UsageError(f"expected Spark to read a file that this process wrote to {storage.shown}, got another one")


@contextlib.contextmanager
def _marker(storage: Storage) -> Iterator[str]:
    """Yield the name of a folder with a file that all workers must see."""
    folder = f".octopia-check-{secrets.token_hex(4)}"
    try:
        storage.write_text(f"{folder}/seen", folder)
        yield folder
    finally:
        storage.remove(folder)


def _version() -> str:
    return importlib.metadata.version("octopia")


def _probe(marker: str, version: str, needed: tuple[str, ...]) -> Callable[[int], str]:
    """Return a function that reports on a worker; it is sent by value, since this package may be missing there."""

    def probe(number: int) -> str:
        import importlib
        import importlib.metadata
        import json
        import socket
        import sys

        lacks = []
        for name in needed:
            try:
                importlib.import_module(name)
            except Exception as error:
                lacks.append(f"no {getattr(error, 'name', None) or name} ({error})")
                break
        else:
            try:
                found = importlib.metadata.version("octopia")
            except importlib.metadata.PackageNotFoundError:
                found = version  # It is imported from a folder.
            if found != version:
                lacks.append(f"octopia {found}")
            try:
                from octopia.workloads.places import locate

                system, place = locate(marker)
                with system.open_input_stream(f"{place}/seen") as stream:
                    stream.read()
                with system.open_output_stream(f"{place}/{number}") as stream:
                    stream.write(b"")
            except Exception as error:
                lacks.append(f"no access to the storage ({error})")
        worker = f"{sys.executable} on {socket.gethostname()}"
        return json.dumps({"worker": worker, "lacks": [" ".join(each.split()) for each in lacks]})

    return probe
