"""The modules that a command or a program loads before it does anything: start-up time is mostly their number."""

from __future__ import annotations

import subprocess
import sys

import pytest
from processes import free_ports

BROKERS = ("octopia.broker", "octopia.matching", "octopia.node", "octopia.overlay", "octopia.runtime", "octopia.tid")
LARGE = ("networkx", "numpy", "pandas", "pyarrow", "matplotlib", "pyspark", "hypothesis", "opentelemetry")
MODULES_MAX = 450
"""The modules of a command that publishes, about 330 with those of Python itself, and room for other versions."""
NO_DATA = (*BROKERS, *LARGE, "octopia.simulator", "octopia.experiments", "octopia.pipeline", "octopia.workloads")


def loaded_by(code: str) -> set[str]:
    """Return the modules that a program has loaded at its end."""
    program = f"import atexit, sys\natexit.register(lambda: print('\\n' + ' '.join(sys.modules)))\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return set(done.stdout.splitlines()[-1].split())


def command(*arguments: str) -> str:
    return f"from octopia.cli import main\nsys.argv = ['octopia', *{arguments}]\nmain()"


@pytest.mark.parametrize(
    ("code", "needed", "unneeded"),
    [
        ("import octopia", "octopia", (*NO_DATA, "asyncio", "msgspec", "octopia.client", "octopia.errors")),
        ("import octopia.client", "octopia.client.client", (*NO_DATA, "lark", "rich", "typer", "uvloop", "tomllib")),
        (command("--help"), "rich.table", (*NO_DATA, "asyncio", "lark", "msgspec", "octopia.client")),
        (command("pub", "x"), "octopia.client.client", (*NO_DATA, "lark", "pydantic", "rich", "uvloop")),
        (
            command("pub", "x=1", "--url", "octopia://127.0.0.1:0"),
            "octopia.client.client",
            (*NO_DATA, "lark", "rich", "pydantic"),
        ),
        (command("sub", "x ="), "lark", (*NO_DATA, "pydantic", "rich", "uvloop")),
        (command("status", "--url", "nonsense"), "octopia.client.operators", (*NO_DATA, "lark", "pydantic")),
    ],
    ids=["import octopia", "import octopia.client", "--help", "pub, bad", "pub", "sub", "status"],
)
def test_only_what_is_needed_is_loaded(code: str, needed: str, unneeded: tuple[str, ...]) -> None:
    loaded = loaded_by(code)
    assert needed in loaded
    assert sorted(loaded.intersection(unneeded)) == []


def test_publishing_loads_few_modules() -> None:
    (port,) = free_ports(1)
    loaded = loaded_by(command("pub", "x=1", "--url", f"octopia://127.0.0.1:{port}", "--timeout", "0.1"))
    assert "octopia.client.channel" in loaded
    assert len(loaded) < MODULES_MAX
    # A package of the overlay may grow, but not by many modules that a client does not need.
    assert len([each for each in loaded if each.partition(".")[0] == "octopia"]) < 120
