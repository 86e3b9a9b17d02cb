"""Permissions of clients, expressed as filters, and their enforcement at the host broker.

A client may advertise what its ``advertise`` filter covers, and publish what matches it. Its subscriptions are ANDed
with its ``read`` filter. Attributes to ``hide`` are removed from its deliveries, and it may not filter on them: a
filter would reveal their values. Clients of an overlay without tokens may do everything, at no cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from octopia.content import Disjunction, Filter, Predicate, Publication, conjoin, covers, matches
from octopia.content.expressions import Expression, to_expression
from octopia.content.formatting import shorten, show_expression
from octopia.content.literals import format_name, show_value
from octopia.errors import FilterTooLarge
from octopia.protocol import MessageKind
from octopia.protocol.messages import AdvertiseRequest, Message, PublishRequest, Refused, SubscribeRequest

NOTHING = Disjunction()
"""The filter FALSE."""
EVERYTHING = Disjunction((Filter(),))
"""The filter TRUE."""
_SHOWN_LENGTH_MAX = 160
_LACKING_MAX = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions of the ``holder`` of a token; by default, none. ``serial`` distinguishes tokens of one holder."""

    holder: str
    serial: str = ""
    advertise: Disjunction = NOTHING
    read: Disjunction = NOTHING
    hide: tuple[str, ...] = ()
    hide_payload: bool = False
    is_operator: bool = False

    @property
    def allows_nothing(self) -> bool:
        """True if a client with these permissions could neither publish nor read."""
        return self.advertise == self.read == NOTHING

    @property
    def hides(self) -> bool:
        """True if something is removed from deliveries."""
        return bool(self.hide) or self.hide_payload

    def producer(self, name: str) -> str:
        """Return the name of a producer at the broker: holders of different tokens never share one."""
        return f"{self.holder}/{name}"

    def shown(self, publication: Publication) -> Publication | None:
        """Return a publication without what is hidden, or None if no attribute is left."""
        left = {name: value for name, value in publication.attributes.items() if name not in self.hide}
        return Publication.trusted(left, b"" if self.hide_payload else publication.payload) if left else None

    def screen(self, messages: Sequence[Message]) -> tuple[list[Message], list[Refused]]:
        """Return the messages that are allowed, with narrowed subscriptions, and the refusals of all others."""
        if not self.hide and self.advertise == EVERYTHING == self.read:
            return list(messages), []
        allowed: list[Message] = []
        refusals: list[Refused] = []
        for message in messages:
            result = self._screened(message)
            if isinstance(result, Refused):
                refusals.append(result)
            else:
                allowed.append(result)
        return allowed, refusals

    def _screened(self, message: Message) -> Message | Refused:
        match message:
            case PublishRequest():
                reason = self.refusal_to_publish(message.publication)
                return Refused(MessageKind.PUBLICATION, message.sequence, reason) if reason else message
            case AdvertiseRequest():
                reason = self._refusal_to_advertise(message.offer)
                return Refused(MessageKind.ADVERTISEMENT, message.handle, reason) if reason else message
            case SubscribeRequest():
                return self._narrowed(message)
            case _:
                return message

    def refusal_to_publish(self, publication: Publication) -> str:
        """Return why a publication is not allowed, or an empty string."""
        if matches(self.advertise, publication):
            return ""
        if self.advertise == NOTHING:
            return f"the token {self.holder} may not publish"
        closest = min((_failing(each, publication) for each in self.advertise.filters), key=len)
        name = closest[0].attribute
        value = publication.attributes.get(name)
        got = f"no {format_name(name)}" if value is None else f"{format_name(name)} = {show_value(value)}"
        return (
            f"the token {self.holder} may publish only what matches ({_shown(to_expression(self.advertise))}): "
            f"expected {_shown(closest[0])}, got {shorten(got, _SHOWN_LENGTH_MAX)}"
        )

    def _refusal_to_advertise(self, offer: Disjunction) -> str:
        """Return why an advertisement is not allowed, or an empty string."""
        if covers(self.advertise, offer):
            return ""
        if self.advertise == NOTHING:
            return f"the token {self.holder} may not publish"
        wide = next((each for each in offer.filters if not covers(self.advertise, Disjunction((each,)))), None)
        reason = f"the token {self.holder} may advertise only what is within ({_shown(to_expression(self.advertise))})"
        if wide is None or len(self.advertise.filters) > 1:
            return f"{reason}: advertise less"
        lacking = [
            _shown(each)
            for each in self.advertise.filters[0].predicates
            if not covers(Disjunction((Filter((each,)),)), Disjunction((wide,)))
        ]
        return f"{reason}: add {' AND '.join(lacking[:_LACKING_MAX])}"

    def _narrowed(self, request: SubscribeRequest) -> SubscribeRequest | Refused:
        if self.read == NOTHING:
            return Refused(MessageKind.SUBSCRIPTION, request.handle, f"the token {self.holder} may not read")
        hidden = [name for name in request.interest.attributes() if name in self.hide]
        if hidden:
            reason = f"expected a filter without attributes that the token hides, got {format_name(hidden[0])}"
            return Refused(MessageKind.SUBSCRIPTION, request.handle, reason)
        try:
            return msgspec.structs.replace(request, interest=conjoin(request.interest, self.read))
        except FilterTooLarge as error:
            reason = f"the filter is too large together with the read filter of the token: {error}"
            return Refused(MessageKind.SUBSCRIPTION, request.handle, reason)


def _failing(allowed: Filter, publication: Publication) -> list[Predicate]:
    """Return the predicates of a filter that a publication does not satisfy."""
    return [each for each in allowed.predicates if not matches(Disjunction((Filter((each,)),)), publication)]


def _shown(allowed: Expression) -> str:
    return shorten(show_expression(allowed), _SHOWN_LENGTH_MAX)
