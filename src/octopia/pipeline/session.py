"""The one place where Spark sessions are made.

``open_session`` gives a session that is quiet (what Spark logs below an error is not for our users), has no web page
unless asked, knows which Python to start, and needs no Java but the one that pip brings. Where a Spark is far away, all
that is set here is what the driver decides.
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

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from octopia.errors import JobFailed
from octopia.pipeline.java import java_home
from octopia.pipeline.settings import JAVA_OPTIONS, PipelineSettings
from octopia.playing.files import first_line

SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises; the second where it did not foresee what Java would say, such as of a file system it lacks."""
HERE = "local[*,3]"
"""All cores of this machine; a task whose worker dies is tried three times, as elsewhere."""
_LOG_SETTINGS = "log4j2.properties"
_LOCAL_MEMORY = "2g"


@contextlib.contextmanager
def open_session(settings: PipelineSettings, name: str = "octopia") -> Iterator[SparkSession]:
    """Give a session for as long as the block runs."""
    session = make_session(settings, name)
    try:
        yield session
    except BaseException:
        # What Spark has to say about being stopped in the middle is not what went wrong.
        if settings.remote is None:
            with contextlib.suppress(Exception):
                session.sparkContext.setLogLevel("OFF")
        raise
    finally:
        with contextlib.suppress(Exception):
            session.stop()


def make_session(settings: PipelineSettings, name: str = "octopia") -> SparkSession:
    """Return a new session, or the one that this process has already."""
    # What runs on this machine needs a Java here; of what runs elsewhere, workers know their own Python.
    if settings.remote is None or settings.remote.startswith("local"):
        os.environ["JAVA_HOME"] = str(java_home())
    if is_here(settings):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        # Otherwise Spark looks for an address of its own, and warns about what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    builder = builder.remote(settings.remote) if settings.remote else builder.master(settings.master or HERE)
    for key, value in configuration(settings).items():
        builder = builder.config(key, value)
    _silence_interrupts()
    try:
        with warnings.catch_warnings(), _without_interrupts():
            # A server of Spark Connect that is started here takes what only it can change, and says that we cannot.
            warnings.simplefilter("ignore" if settings.remote else "default")
            return builder.getOrCreate()
    except (*SPARK_ERRORS, RuntimeError, OSError) as error:
        where = settings.remote or settings.master or "this machine"
        raise JobFailed(f"expected a Spark at {where}, got none: {first_line(error)}") from error


def _silence_interrupts() -> None:
    """Leave it to us to say that somebody pressed Ctrl-C: py4j would log where that met it, and to the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_worth_logging not in root.filters:
        root.addFilter(_is_worth_logging)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back until Spark has started, which would otherwise stay behind.

    Its processes never hear of it: they are stopped by this one, in order.
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
    """Whether all the work is done on this machine."""
    return (settings.remote or settings.master or "local").startswith("local")


def configuration(settings: PipelineSettings) -> dict[str, str]:
    """Return what is told to Spark; the user's own settings go first."""
    said = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # One partition of a shuffle for each core is plenty on one machine, and adaptive execution joins small ones.
        "spark.sql.shuffle.partitions": str(settings.partitions or (2 * (os.cpu_count() or 1))),
        "spark.sql.ansi.enabled": "true",
    }
    if settings.remote is None or is_here(settings):
        said |= {
            "spark.ui.enabled": str(settings.ui).lower(),
            "spark.ui.showConsoleProgress": "false",
            # Spark loads so many classes that Java would clean up all its memory several times before it has begun.
            JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_log_settings()} -XX:+UseSerialGC -XX:MetaspaceSize=256m",
        }
    if is_here(settings):
        said |= {
            "spark.driver.memory": _LOCAL_MEMORY,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    own = dict(settings.spark)
    if JAVA_OPTIONS in said and JAVA_OPTIONS in own:
        own[JAVA_OPTIONS] = f"{said[JAVA_OPTIONS]} {own[JAVA_OPTIONS]}"
    return said | own


def _log_settings() -> str:
    return str(importlib.resources.files("octopia.pipeline") / _LOG_SETTINGS)
