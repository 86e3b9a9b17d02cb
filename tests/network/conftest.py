"""Fixtures of the tests over sockets."""

from __future__ import annotations

import math

import pytest

from octopia.runtime import lag


@pytest.fixture
def never_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the brokers of this process admit clients however far the event loop lags, for clients that never retry."""
    monkeypatch.setattr(lag, "LAG_MAX_S", math.inf)
