"""Its place makes ``tests/`` importable, so that every test can say ``from support import …``.

It also says who runs what: tests of the pipeline go to two processes, so that no more than two Sparks are started, and
every other test goes to whoever is free. How long an example of Hypothesis takes is never a reason to fail. Signals are
those of a terminal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("octopia", deadline=None)
settings.load_profile("octopia")

# A shell that starts the tests in the background lets them ignore SIGINT, and so every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

PIPELINE = "tests/pipeline/"
STUDIES = ("tests/pipeline/test_paper_", "tests/pipeline/test_demo_")
"""The slow half of it."""
ALONE = "tests/pipeline/test_local_cluster.py"
"""Starts a Spark of its own."""


@pytest.fixture(autouse=True, scope="session")
def _no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let commands find no contexts of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("OCTOPIA_CONTEXT", raising=False)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class FewSparks(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ALONE) or not nodeid.startswith(PIPELINE):
                return nodeid
            return "studies" if nodeid.startswith(STUDIES) else "pipeline"

    return FewSparks(config, log)
