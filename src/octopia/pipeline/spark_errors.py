"""The errors that Spark raises, each as one sentence.

Spark wraps a cause in several layers: a failed job, a lost task, Java exceptions in each other, the traceback of a
Python worker. The innermost layer is what people need.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JError)
"""The errors that Spark raises; Py4JError wraps unexpected Java exceptions, such as one for an unknown file system."""

_TRACEBACK = "Traceback (most recent call last):"
_CALLING = "An error occurred while calling"
_LOST_TASK = re.compile(r".*most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor \S+\): ")
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: ")
_CONDITION = re.compile(r"^\[([A-Z][A-Z0-9_.]+)\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_UNREADABLE = re.compile(r"Encountered error while reading file (?:file:/+)?(?P<file>.*?)\.(?: |$)(?P<rest>.*)")
_NO_PYTHON = re.compile(r'Cannot run program "(?P<python>[^"]*)".*?(?P<reason>[A-Z][\w ]*)$')
_NO_S3 = "org.apache.hadoop.fs.s3a.S3AFileSystem not found"
_NEEDS_AWS = (
    "Spark has no jars for s3a: name hadoop-aws, in the version of Spark's own hadoop-client jars, "
    'as "spark.jars.packages" = "org.apache.hadoop:hadoop-aws:VERSION" in [pipeline.spark] of octopia.toml'
)
_UNREADABLE_CONDITIONS = ("FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", "FAILED_READ_FILE.NO_HINT")


def spark_message(error: BaseException) -> str:
    """Return the innermost cause of an error as one line, without stack traces."""
    text = str(error).strip() or type(error).__name__
    if _TRACEBACK in text:
        return _end_of_traceback(text)
    first, *more = text.splitlines()
    # The first line of a Java exception may only name the method that was called.
    line = more[0].removeprefix(": ") if more and first.startswith(_CALLING) else first
    return _simplified(line)


def is_unreadable_input(error: BaseException) -> bool:
    """Return whether an error is about a file that Spark could not read."""
    return "[FAILED_READ_FILE" in str(error)


def _end_of_traceback(text: str) -> str:
    """Return the line of the last traceback that names the exception: the first one that is not indented."""
    lines = text.rpartition(_TRACEBACK)[2].splitlines()
    return next((line for line in lines if line and not line[0].isspace()), lines[-1].strip())


def _simplified(line: str) -> str:
    if _NO_S3 in line:
        return _NEEDS_AWS
    line = _LOST_TASK.sub("", line)
    while _JAVA_CLASS.match(line):
        line = _JAVA_CLASS.sub("", line)
    condition = _CONDITION.match(line)
    line = _STATE.sub("", _CONDITION.sub("", line))
    if python := _NO_PYTHON.match(line):
        return f"no Python at {python['python']} ({python['reason']})"
    if condition and (unreadable := _UNREADABLE.match(line)):
        # A path of a local file begins with one slash, however many Spark has written.
        file = f"/{unreadable['file']}" if "file:/" in line else unreadable["file"]
        why = "it is not Parquet, or it is damaged" if condition[1] in _UNREADABLE_CONDITIONS else unreadable["rest"]
        return f"the file {file} cannot be read: {why}"
    return line
