"""Clients: programs that publish and subscribe, in an event loop or without one."""

from octopia.client.blocking import BlockingClient, BlockingSubscription, connect_blocking
from octopia.client.client import Client, connect
from octopia.client.subscriptions import Advertisement, Received, Subscription

__all__ = [
    "Advertisement",
    "BlockingClient",
    "BlockingSubscription",
    "Client",
    "Received",
    "Subscription",
    "connect",
    "connect_blocking",
]
