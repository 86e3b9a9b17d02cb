"""The settings of the pipeline: which Spark it uses, and where its tables are stored.

Settings come from the ``[pipeline]`` table of ``octopia.toml`` in the current folder, or of the file that
OCTOPIA_CONFIG names. Command-line options take precedence::

    [pipeline]
    master = "spark://machine:7077"     # or: remote = "sc://machine:15002"
    storage = "s3a://bucket/octopia"    # the root of relative paths; by default the current folder
    python = "/opt/octopia/bin/python"  # of the workers of another master; by default the path of this one
    ui = false
    partitions = 8                      # of shuffles
    [pipeline.spark]                    # any Spark property
    "spark.executor.memory" = "4g"
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from octopia.errors import UsageError
from octopia.tomlfile import Table, read_toml

CONFIG_VARIABLE = "OCTOPIA_CONFIG"
_DEFAULT_FILE = "octopia.toml"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Compile Java code once, without optimising it. The cache for it is then 48 MiB by default, and a study of many
workloads fills it: Java would stop compiling, with a warning."""
_NO_CONF: Mapping[str, str] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The settings of Spark and storage; without ``master`` and ``remote``, Spark runs on all cores of this machine."""

    master: str | None = None
    remote: str | None = None
    storage: str = ""
    python: str = ""
    ui: bool = False
    partitions: int = 0
    spark: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_CONF)

    def for_small_tables(self) -> PipelineSettings:
        """Return the settings for jobs of seconds, which end before optimising Java code pays off."""
        options = f"{_QUICK} {self.spark.get(JAVA_OPTIONS, '')}".rstrip()
        return dataclasses.replace(self, partitions=self.partitions or 2, spark={**self.spark, JAVA_OPTIONS: options})

    def with_options(
        self, master: str | None = None, remote: str | None = None, storage: str | None = None, ui: bool | None = None
    ) -> PipelineSettings:
        """Return the settings, replaced by the options that are given."""
        if master and remote:
            raise UsageError(f"expected --master or --remote, got both: {master} and {remote}")
        chosen = self
        if master or remote:
            chosen = dataclasses.replace(chosen, master=master, remote=remote)
        if storage is not None:
            chosen = dataclasses.replace(chosen, storage=storage)
        return chosen if ui is None else dataclasses.replace(chosen, ui=ui)


def load_settings() -> PipelineSettings:
    """Return the settings of the configuration file, or the defaults if there is none."""
    named = os.environ.get(CONFIG_VARIABLE)
    path = Path(named or _DEFAULT_FILE)
    if not named and not path.exists():
        return PipelineSettings()
    top = read_toml(path)
    table = top.table("pipeline")
    settings = PipelineSettings() if table is None else _read(table)
    top.finish()
    return settings


def _read(table: Table) -> PipelineSettings:
    conf = table.table("spark")
    master, remote = table.text("master", None), table.text("remote", None)
    if master and remote:
        raise table.error("expected master or remote, got both")
    return PipelineSettings(
        master=master,
        remote=remote,
        storage=table.text("storage", ""),
        python=table.text("python", ""),
        ui=table.boolean("ui", default=False),
        partitions=table.integer("partitions", 0, minimum=0),
        spark={key: conf.text(key) for key in conf} if conf is not None else _NO_CONF,
    )
