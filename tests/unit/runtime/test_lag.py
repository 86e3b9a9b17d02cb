"""The admission of new clients by the lag of the event loop, with a clock of the test's own."""

from __future__ import annotations

import pytest

from octopia.protocol.handshake import RETRY_MS_MAX
from octopia.runtime import lag as module
from octopia.runtime.lag import LAG_MAX_S, SLOT_S, LagGate

TICK_S = 0.1


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_loop_that_keeps_up_admits_all(clock: Clock):
    gate = LagGate(TICK_S)
    for _ in range(10):
        clock.now_s += TICK_S + LAG_MAX_S / 2
        assert gate.retry_ms() == 0
        gate.ticked()
        assert gate.retry_ms() == 0


def test_an_overdue_tick_is_noticed_before_it_comes(clock: Clock):
    gate = LagGate(TICK_S)
    clock.now_s += TICK_S + 2 * LAG_MAX_S
    assert gate.lag_s == pytest.approx(2 * LAG_MAX_S)
    assert gate.retry_ms() > 0
    gate.ticked()
    assert gate.retry_ms() > 0
    clock.now_s += TICK_S
    gate.ticked()
    assert gate.retry_ms() == 0


def test_clients_that_are_turned_away_come_back_one_after_another(clock: Clock):
    gate = LagGate(TICK_S)
    clock.now_s += TICK_S + 1.0
    retries_ms = [gate.retry_ms() for _ in range(1000)]
    assert retries_ms == sorted(retries_ms)
    assert retries_ms[0] >= 1000
    assert retries_ms[-1] - retries_ms[0] == pytest.approx(1000 * SLOT_S * 1000, abs=2)
    assert max(gate.retry_ms() for _ in range(100_000)) == RETRY_MS_MAX
