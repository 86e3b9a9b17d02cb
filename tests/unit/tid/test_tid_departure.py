"""The departure of a client with many subscriptions from a TID broker, in slices."""

from __future__ import annotations

import dataclasses

from octopia.ids import ClientId
from octopia.overlay import Scot, parse_tree
from octopia.tid.core import TidBroker
from support import at, make_settings, offer, want

CLIENT = ClientId("S")


def test_each_slice_withdraws_a_few() -> None:
    settings = dataclasses.replace(make_settings("tid-static"), slice_max=2)
    broker = TidBroker(Scot(parse_tree("a-b, b-c"), 1).neighbourhood(at("b.0")), settings)
    broker.attach(CLIENT, 0.0)
    broker.receive(CLIENT, [offer(0, "x > 0"), *(want(handle, "x > 5") for handle in range(3))], 0.0)
    broker.detach(CLIENT, 1.0)
    broker.check()
    left, fingerprint = broker.table_sizes(), broker.fingerprint()
    assert (left["prt"], left["srt"]) == (1, 1)
    assert broker.is_behind
    assert broker.next_deadline_ms == 1.0
    broker.wake(1.0)
    broker.check()
    assert broker.table_sizes() == {"clt": 0, "prt": 0, "srt": 0}
    assert not broker.is_behind
    assert broker.fingerprint() != fingerprint
