"""TID brokers, driven by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

from octopia.content import Value, parse_filter
from octopia.ids import AdvertisementId, PublicationId, SubscriptionId
from octopia.overlay import Scot, parse_tree
from octopia.settings import PathSelection
from octopia.tid.core import TidBroker
from octopia.tid.messages import (
    TidAdvertise,
    TidPublish,
    TidSubscribe,
    TidUnadvertise,
    TidUnsubscribe,
)
from support import HandDriven, at, make_settings, pub


def tid(host: str, number: int = 0) -> AdvertisementId:
    return AdvertisementId(at(host), 1, number)


def sub_id(host: str, number: int = 0) -> SubscriptionId:
    return SubscriptionId(at(host), 1, number)


def advertised(host: str, number: int = 0, text: str = "x > 0", *, ordered: bool = False) -> TidAdvertise:
    return TidAdvertise(tid(host, number), parse_filter(text), ordered)


def unadvertised(host: str, number: int = 0) -> TidUnadvertise:
    return TidUnadvertise(tid(host, number))


def bound(host: str, number: int, tree: AdvertisementId, text: str = "x > 0") -> TidSubscribe:
    return TidSubscribe(sub_id(host, number), parse_filter(text), tree)


def unsubscribed(host: str, number: int = 0) -> TidUnsubscribe:
    return TidUnsubscribe(sub_id(host, number))


def published(tree: AdvertisementId, number: int = 0, hop: int = 1, **attributes: Value) -> TidPublish:
    return TidPublish(PublicationId(tree.host_broker, 1, number), pub(**attributes), tree, hop, 0.0)


def make_tid_broker(
    name: str,
    tree: str = "a-b, b-c",
    clusters: int = 2,
    algorithm: str = "tid-static",
    selection: PathSelection = PathSelection.LINEAR,
    **settings: Any,
) -> TidBroker:
    """Return one broker of an overlay, by default of the six brokers of the paper's Fig. 1."""
    neighbourhood = Scot(parse_tree(tree), clusters).neighbourhood(at(name))
    chosen = make_settings(algorithm, **settings)
    routing = dataclasses.replace(chosen.routing, path_selection=selection)
    return TidBroker(neighbourhood, dataclasses.replace(chosen, routing=routing))


class TidOverlay(HandDriven):
    """An overlay of TID brokers between which nothing moves unless a test says so."""

    def __init__(self, tree: str = "a-b, b-c", clusters: int = 2, **settings: Any):
        super().__init__(tree, clusters)
        self.brokers = {name: make_tid_broker(name, tree, clusters, **settings) for name in self.brokers}

    def check(self) -> None:
        for broker in self.brokers.values():
            broker.check()
