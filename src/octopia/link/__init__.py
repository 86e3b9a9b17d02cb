"""The session of a link, which carries messages exactly once and in order over connections that break."""

from octopia.link.session import LinkSettings, Outcome, Session, Status

__all__ = ["LinkSettings", "Outcome", "Session", "Status"]
