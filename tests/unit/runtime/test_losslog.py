"""The log of losses: one line per burst and cause, with the number of publications."""

from __future__ import annotations

import logging

import pytest

from octopia.broker import Loss
from octopia.ids import BrokerId, ClientId
from octopia.protocol import Cause
from octopia.runtime.eventlog import EventLog
from octopia.runtime.losslog import BURST_MAX_S, QUIET_S, LossLog

A0 = BrokerId("a", 0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def losses(clock: Clock, caplog: pytest.LogCaptureFixture) -> LossLog:
    caplog.set_level(logging.WARNING, "octopia")
    return LossLog(EventLog(clock, broker="b.0"), clock)


def test_a_burst_is_one_line(losses: LossLog, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(1000):
        losses.note(Loss(Cause.LINK_DOWN, 2, A0))
        losses.flush()
    assert caplog.messages == []
    clock.now_s = QUIET_S
    losses.flush()
    losses.flush()
    assert caplog.messages == ["event=publications_lost broker=b.0 cause=link_down neighbour=a.0 count=2000"]


def test_a_long_burst_is_a_line_from_time_to_time(
    losses: LossLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    while clock.now_s <= 2.5 * BURST_MAX_S:
        losses.note(Loss(Cause.SLOW_CLIENT, 1, ClientId("S")))
        losses.flush()
        clock.now_s += 0.5
    assert len(caplog.messages) == 2
    assert all("client=S" in line for line in caplog.messages)


def test_causes_and_links_have_lines_of_their_own(losses: LossLog, caplog: pytest.LogCaptureFixture) -> None:
    for loss in (Loss(Cause.RESTART, 0, A0), Loss(Cause.LINK_DOWN, 1, A0), Loss(Cause.SHUTDOWN, 3)):
        losses.note(loss)
    losses.flush(is_over=True)
    assert [line.partition("cause=")[2] for line in caplog.messages] == [
        "restart neighbour=a.0 count=unknown",
        "link_down neighbour=a.0 count=1",
        "shutdown count=3",
    ]
