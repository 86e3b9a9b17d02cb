"""Clients: programs that publish and subscribe, with an event loop or without one."""

from octopia.client.blocking import BlockingAdvertisement, BlockingClient, BlockingSubscription, connect_blocking
from octopia.client.client import Client, connect
from octopia.client.received import Received
from octopia.client.subscriptions import Advertisement, Subscription
from octopia.protocol.messages import Gap

__all__ = [
    "Advertisement",
    "BlockingAdvertisement",
    "BlockingClient",
    "BlockingSubscription",
    "Client",
    "Gap",
    "Received",
    "Subscription",
    "connect",
    "connect_blocking",
]
