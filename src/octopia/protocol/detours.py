"""The rest of the header of a copy that adaptive routing has rerouted."""

from __future__ import annotations

import msgspec

from octopia.protocol.duties import Crossings, Entered, Lane, Origin


class Detour(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rest of the header of a copy that adaptive routing has rerouted; its ``enter`` is the publication_civ.

    ``lane`` is the lane of the link. Over an iLink, ``ilinks``, ``origin`` and ``cross`` are those of the copy's
    duties; over an aLink the receiver knows them.
    """

    lane: Lane
    ilinks: int = 0
    origin: Entered = Origin.HOST
    cross: Crossings = ()
