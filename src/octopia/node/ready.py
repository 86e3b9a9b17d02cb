"""The work that a node asks its driver to do.

Plain Python that Cython compiles (``ready.pxd`` has the C types).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from octopia.broker import ForClients, LimitReached, Loss
from octopia.ids import Peer
from octopia.protocol import CloseCode, Item
from octopia.protocol.messages import Message


@dataclasses.dataclass(frozen=True, slots=True)
class Close:
    """A connection to be closed, with the reason for the other end; ``incarnation`` is the one that fenced it."""

    peer: Peer
    code: CloseCode
    reason: str
    incarnation: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """An error of our own in handling one peer. Its connection is closed; no other peer is affected."""

    peer: Peer | None
    error: Exception


class Ready:
    """Everything to do since the last call of ``Node.ready``, in the order of the fields.

    ``failures``
        Errors of our own, to be logged. A simulation raises them.
    ``writes``
        Items to write, link by link. Write them in this order: what an input caused comes before its acknowledgement.
        A link without a session carries the messages themselves. Links that the driver paces are named here also
        without items: they may have a publication to carry, so call ``Node.begin`` when they are free.
    ``for_clients``
        Entries for local clients, if the settings say that the driver takes them whole. They come AFTER the writes, in
        which these clients find what waited for them, and answers.
    ``closes``
        Connections to close AFTER the writes, which include the last words to those clients.
    ``silent``
        Links whose other end was silent for too long: drop the connection, then call ``Node.disconnect``.
    ``limits_reached``
        Clients that have reached a limit, to be logged. They are already refused or held back.
    ``losses``
        Publications that were lost, to be logged. They are already counted and reported to clients.
    """

    __slots__ = ("closes", "failures", "for_clients", "limits_reached", "losses", "silent", "writes")

    def __init__(self) -> None:
        self.failures: tuple[Failure, ...] = ()
        self.writes: list[tuple[Peer, Sequence[Item] | Sequence[Message]]] = []
        self.for_clients: list[ForClients] = []
        self.closes: tuple[Close, ...] = ()
        self.silent: tuple[Peer, ...] = ()
        self.limits_reached: tuple[LimitReached, ...] = ()
        self.losses: tuple[Loss, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ready) and all(getattr(self, each) == getattr(other, each) for each in self.__slots__)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do, except possibly to log that a limit was reached."""
        return self._is_empty()

    def _is_empty(self) -> bool:
        return not (self.writes or self.for_clients or self.closes or self.silent or self.failures or self.losses)
