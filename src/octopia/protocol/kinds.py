"""The kinds of message between brokers, for any kind of broker."""

from __future__ import annotations

import enum


class MessageKind(enum.StrEnum):
    """The kinds of message between brokers, as they are counted and traced."""

    ADVERTISEMENT = "advertisement"
    UNADVERTISEMENT = "unadvertisement"
    SUBSCRIPTION = "subscription"
    UNSUBSCRIPTION = "unsubscription"
    CIV_SET = "civ_set"
    CIV_UNSET = "civ_unset"
    PUBLICATION = "publication"
    CONFIRMATION = "confirmation"
    SYNC = "sync"
    GAP = "gap"
    STATUS = "status"

    # Kinds are counted with every message, and the default hash of enums is a Python function.
    __hash__ = str.__hash__
