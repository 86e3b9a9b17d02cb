"""Spark sessions.

A session from ``open_session`` logs errors only, serves no web page unless asked, starts the right Python, and needs no
Java other than the one from pip. With a remote Spark, only settings of the driver are set here.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator

from pyspark.sql import SparkSession

from octopia.errors import JobFailed
from octopia.pipeline.configuration import JAVA_OPTIONS, PipelineSettings
from octopia.pipeline.java import java_home
from octopia.pipeline.object_stores import properties_of, variables_of
from octopia.pipeline.spark_addresses import check_address
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message

HERE = "local[*,3]"
"""All cores of this machine; a task whose worker dies is tried three times, as on other masters."""
_LOG_SETTINGS = "log4j2.properties"
_LOCAL_MEMORY = "2g"


@contextlib.contextmanager
def open_session(settings: PipelineSettings, name: str = "octopia") -> Iterator[SparkSession]:
    """Yield a session that is stopped when the block ends."""
    session = make_session(settings, name)
    try:
        yield session
    except BaseException:
        # Spark would log errors about being stopped, which are not the cause.
        if settings.remote is None:
            with contextlib.suppress(Exception):
                session.sparkContext.setLogLevel("OFF")
        raise
    finally:
        with contextlib.suppress(Exception):
            session.stop()


def make_session(settings: PipelineSettings, name: str = "octopia") -> SparkSession:
    """Return a new session, or the existing one of this process."""
    check_address(settings)
    os.environ.update(variables_of(settings.spark))
    # A Spark Connect server has its own Java, and its workers their own Python.
    if settings.remote is None or settings.remote.startswith("local"):
        os.environ["JAVA_HOME"] = str(java_home())
    if settings.remote is None or is_here(settings):
        os.environ["PYSPARK_PYTHON"] = worker_python(settings)
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_here(settings):
        # Otherwise Spark guesses an address, and prints a warning about it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    builder = builder.remote(settings.remote) if settings.remote else builder.master(settings.master or HERE)
    for key, value in spark_properties(settings).items():
        builder = builder.config(key, value)
    _silence_interrupts()
    try:
        with warnings.catch_warnings(), without_interrupts():
            # A Spark Connect server started here applies static settings, but still warns that they cannot be set.
            warnings.simplefilter("ignore" if settings.remote else "default")
            return builder.getOrCreate()
    except (*SPARK_ERRORS, RuntimeError, OSError) as error:
        where = settings.remote or settings.master or "this machine"
        raise JobFailed(f"expected Spark at {where}, got none: {spark_message(error)}") from error


def _silence_interrupts() -> None:
    """Keep py4j from logging a traceback on Ctrl-C, also through the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_worth_logging not in root.filters:
        root.addFilter(_is_worth_logging)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Block Ctrl-C until Spark has started, so that it is always stopped.

    Spark's processes inherit the blocked signal; this process stops them in order. A thread that is started before the
    block would still take the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_here(settings: PipelineSettings) -> bool:
    """Return whether Spark runs on this machine."""
    return (settings.remote or settings.master or "local").startswith("local")


def worker_python(settings: PipelineSettings) -> str:
    """Return the Python of workers: this one, unless they are on other machines and another one is named."""
    if is_here(settings):
        return sys.executable
    return settings.python or os.environ.get("PYSPARK_PYTHON") or sys.executable


def spark_properties(settings: PipelineSettings) -> dict[str, str]:
    """Return the properties of a session; the user's own take precedence."""
    properties = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
    }
    # A few shuffle partitions per core are enough on one machine. Elsewhere the number of cores is not known here:
    # adaptive execution starts from Spark's default and merges small partitions.
    partitions = settings.partitions or (2 * (os.cpu_count() or 1) if is_here(settings) else 0)
    if partitions:
        properties["spark.sql.shuffle.partitions"] = str(partitions)
    if settings.remote is None or is_here(settings):
        properties |= {
            "spark.ui.enabled": str(settings.ui).lower(),
            "spark.ui.showConsoleProgress": "false",
            # Spark loads many classes: with a small metaspace, Java would collect garbage several times at start.
            JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_log_settings()} -XX:+UseSerialGC -XX:MetaspaceSize=256m",
        }
    if is_here(settings):
        properties |= {
            "spark.driver.memory": _LOCAL_MEMORY,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    if settings.remote is None or is_here(settings):
        properties |= properties_of(os.environ)
    own = dict(settings.spark)
    if JAVA_OPTIONS in properties and JAVA_OPTIONS in own:
        own[JAVA_OPTIONS] = f"{properties[JAVA_OPTIONS]} {own[JAVA_OPTIONS]}"
    return properties | own


def _log_settings() -> str:
    return str(importlib.resources.files("octopia.pipeline") / _LOG_SETTINGS)
