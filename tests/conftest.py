"""Its place makes ``tests/`` importable, so that every test can say ``from support import …``.

It also says who runs what: all tests of the pipeline go to one process, so that there is one Spark to start, and every
other test to whoever is free. How long an example of Hypothesis takes is never a reason to fail.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("octopia", deadline=None)
settings.load_profile("octopia")

PIPELINE = "tests/pipeline/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return PIPELINE if nodeid.startswith(PIPELINE) else nodeid

    return OneSpark(config, log)
