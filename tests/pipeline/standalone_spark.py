"""A Spark master and a worker as processes of their own, started from the jars of pyspark."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
from processes import free_ports
from recorders import until

from octopia.pipeline.java import java_home


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Yield the URL of a master with one worker; both are stopped when the block ends."""
    home = Path(pyspark.__file__).parent
    # A worker starts executors with the script of Spark, which asks for the version of Scala.
    known = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
    java = [str(java_home() / "bin" / "java"), "-cp", f"{home}/jars/*", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    [port] = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    limits = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work")]
    commands = [
        [*java, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)],
        [*java, "org.apache.spark.deploy.worker.Worker", url, *here, *limits],
    ]
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            process = subprocess.Popen(command, env=known, cwd=folder, stdout=log, stderr=log)
            stack.callback(_stop, process)
            _wait_for(port, process)
        yield url


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the master listens; the worker is found by Spark when it is there."""
    asyncio.run(until(lambda: process.poll() is not None or _listens(port)))
    assert process.poll() is None, f"expected a master on port {port}, got none: exit code {process.poll()}"


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
