"""Publishers and subscribers that keep an overlay busy, and know what everybody must have got."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from raw_client import RawClient
from rest import overlay_at_rest

from octopia.content import parse_filter
from octopia.protocol.messages import AdvertiseRequest, SubscribeRequest
from octopia.runtime.local import Overlay
from support import turn

OFFER = "n >= 0 AND even IS NOT NULL"
EVEN = "even = TRUE"


class Load:
    """Some publishers of numbers; every other subscriber wants even ones only."""

    def __init__(self, publishers: Sequence[RawClient], subscribers: Sequence[RawClient]):
        self.publishers = publishers
        self.subscribers = subscribers
        self.published = 0

    @classmethod
    async def begin(cls, overlay: Overlay, publish_at: Sequence[str], subscribe_at: Sequence[str]) -> Load:
        """Attach clients to brokers, and wait until all that they issue is known wherever it has to be."""
        subscribers = [await RawClient(f"S{at}").connect(overlay.url(at)) for at in subscribe_at]
        publishers = [await RawClient(f"P{at}").connect(overlay.url(at)) for at in publish_at]
        for number, subscriber in enumerate(subscribers):
            subscriber.say(SubscribeRequest(0, parse_filter(EVEN if number % 2 else "n >= 0")))
        for publisher in publishers:
            publisher.say(AdvertiseRequest(0, parse_filter(OFFER)))
        await overlay_at_rest(overlay, [*subscribers, *publishers])
        return cls(publishers, subscribers)

    @property
    def clients(self) -> list[RawClient]:
        """All of them."""
        return [*self.publishers, *self.subscribers]

    def publish(self, count: int, payload: bytes = b"") -> None:
        """Let the publishers publish the next numbers in turn."""
        for number in range(self.published, self.published + count):
            publisher = self.publishers[number % len(self.publishers)]
            publisher.publish(number, payload, n=number, even=number % 2 == 0)
        self.published += count

    def expected(self, numbers: Sequence[int] | range | None = None) -> dict[str, Counter[object]]:
        """Return what each subscriber must have got of some numbers, or of all."""
        wanted = range(self.published) if numbers is None else numbers
        return {
            each.name: Counter(n for n in wanted if not (index % 2 and n % 2))
            for index, each in enumerate(self.subscribers)
        }

    @property
    def got(self) -> Mapping[str, Counter[object]]:
        """What each subscriber has got, and how often."""
        return {each.name: each.got() for each in self.subscribers}

    def leave(self) -> None:
        """Let all clients go."""
        for client in self.clients:
            client.leave()


async def some_turns(random_: random.Random, most: int = 12) -> None:
    """Let the event loop go round a few times, so that a fault may strike at any stage of what is under way."""
    for _ in range(random_.randrange(most)):
        await turn()
