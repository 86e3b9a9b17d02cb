"""The session of a link: what makes a connection that breaks carry messages exactly once and in order."""

from octopia.link.frames import Ack, Frame, Hello, Item
from octopia.link.session import LinkSettings, Outcome, Session, Status

__all__ = ["Ack", "Frame", "Hello", "Item", "LinkSettings", "Outcome", "Session", "Status"]
