"""Connections: what brokers and clients have in common when they talk over TCP."""

from octopia.transport.connection import Connection, Owner

__all__ = ["Connection", "Owner"]
