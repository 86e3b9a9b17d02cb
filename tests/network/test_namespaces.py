"""Congestion on a real link: twelve hosts, two ways that carry little, and brokers that notice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from namespaces import why_not

from congestion import BROKERS, CAPPED, PUBLISHER, SUBSCRIBERS, WINDOW_MS, play
from octopia.transport.settings import BROKER_LINK

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "none")

PUBLICATIONS = 1500


def test_a_capped_link_is_seen_as_congested_and_nothing_is_lost(tmp_path: Path):
    outcome = asyncio.run(play(tmp_path, PUBLICATIONS))
    seen = outcome.statuses[PUBLISHER]
    about_a_window = 1.25 * BROKER_LINK.window_bytes
    for number, link in enumerate(CAPPED):
        watched = seen["watched"][link]
        assert watched["seen_after_ms"] is not None, f"the link to {link} was never seen as congested"
        assert watched["seen_after_ms"] <= 5 * WINDOW_MS
        # Each class has a window of its own; two are in use here.
        assert BROKER_LINK.window_bytes / 4 < watched["unsent_max"] <= 2 * about_a_window
        # What waits longer than the kernel's patience is sent once more, and then waits twice.
        assert 0 < max(backlog[number] for backlog in outcome.backlogs) <= 2 * about_a_window
    assert sum(seen["cases"].values()) > 0, "expected publications to be routed around the slow link"
    assert outcome.received["numbers"] == [list(range(PUBLICATIONS))] * len(SUBSCRIBERS)
    assert outcome.received["doubled"] == [0] * len(SUBSCRIBERS)
    assert {name: status["dropped"] for name, status in outcome.statuses.items()} == dict.fromkeys(BROKERS, 0)
