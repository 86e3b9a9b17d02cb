"""TCP connections, as brokers and clients use them."""

from octopia.transport.connection import Connection, Owner

__all__ = ["Connection", "Owner"]
