"""One item or more of everything that can travel over a connection."""

from __future__ import annotations

import math

from octopia.content import Publication, parse_filter
from octopia.ids import AdvertisementId, BrokerId, PublicationId, SubscriptionId
from octopia.link import LinkSettings, Session
from octopia.protocol import (
    Ack,
    Answer,
    Cause,
    CloseCode,
    Closing,
    ClusterIndexVector,
    Command,
    Grant,
    Hello,
    Item,
    Opening,
    Overflow,
    Role,
    Verb,
    WireItem,
)
from octopia.protocol.duties import Lane, Origin
from octopia.protocol.messages import (
    Advertise,
    AdvertisementDigest,
    AdvertiseRequest,
    CivAck,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    Confirm,
    Confirmed,
    CutOff,
    Deliver,
    Detour,
    Fetch,
    Gap,
    GapNotice,
    LinkStatuses,
    Lost,
    Message,
    Produced,
    ProduceRequest,
    Publish,
    PublishRequest,
    Refused,
    Repeated,
    Subscribe,
    SubscribeRequest,
    SubscriptionDigest,
    Unadvertise,
    UnadvertiseRequest,
    Unconfirmed,
    Unsubscribe,
    UnsubscribeRequest,
    Version,
)
from octopia.tid.messages import TidAdvertise, TidPublish, TidSubscribe, TidUnadvertise, TidUnsubscribe

HOST = BrokerId("b", 3)
AD = AdvertisementId(HOST, 1_700_000_000_000, 7)
SUB = SubscriptionId(BrokerId("region_9", 63), 1, 0)
PUB = PublicationId(HOST, 2, 2**40)
VERSION = Version(1, 12)
FILTER = parse_filter(
    "symbol = 'IBM' AND price > 1.5 AND volume BETWEEN 1 AND 5 OR name LIKE 'a_b%c' AND NOT kind IN ('x', 'y')"
    " OR flag = TRUE AND note IS NULL OR title LIKE '%z'"
)
BAR = Publication(
    {
        "symbol": "IBM",
        "date": "2013-02-08",
        "open": 15.07,
        "high": 15.12,
        "low": 14.63,
        "close": 14.75,
        "volume": 8407500,
    },
    b"\x00payload\xff",
)
ODD = Publication({"é" * 255: "\U0001f419", "x": math.inf, "y": -(2**63), "z": True, "w": "", "v": -0.0})
WIDE = Publication({f"a{number}": number for number in range(64)})

MESSAGES: tuple[Message, ...] = (
    Advertise(AD, FILTER),
    Unadvertise(AD),
    Subscribe(SUB, FILTER),
    Unsubscribe(SUB),
    CivSet((AD, AD), VERSION),
    CivUnset((AD,), VERSION),
    CivNone((), VERSION),
    CivAck(((AD, VERSION),)),
    Confirm((SUB,)),
    SubscriptionDigest((SUB,), (SUB,), True),
    AdvertisementDigest((AD,)),
    CivState((AD,), (), VERSION),
    Fetch((SUB,), (AD,)),
    TidAdvertise(AD, FILTER, True),
    TidUnadvertise(AD),
    TidSubscribe(SUB, FILTER, AD),
    TidUnsubscribe(SUB),
    AdvertiseRequest(0, FILTER, True, 250.0),
    UnadvertiseRequest(3),
    SubscribeRequest(2**31, FILTER, 0.5),
    SubscribeRequest(2, FILTER, 0.0, 1e6),
    ProduceRequest("sink-1"),
    Produced("sink-1", 2**40),
    Repeated(3, 17),
    UnsubscribeRequest(4),
    Refused("PublishRequest", 4, "it has no advertisement"),
    Confirmed("SubscribeRequest", 5),
    Unconfirmed("SubscribeRequest", 5, (HOST,)),
    CutOff(12),
    Lost(13),
    Gap(Cause.RESTART),
    Gap(Cause.LINK_DOWN, 17),
    GapNotice(Cause.UNACKNOWLEDGED, 3, 0b101),
    LinkStatuses(),
    LinkStatuses((("a", 0.0), ("c", 12.5)), ("d", "region_9"), 2**64 - 1),
    Publish(PUB, BAR, None, 2, 1000.5),
    Publish(PUB, ODD, ClusterIndexVector(0, 1), 0, 0.0),
    Publish(PUB, WIDE, ClusterIndexVector(2**64 - 1, 64), 2**17, -1.0),
    Publish(PUB, BAR, None, 2, 1000.5, ordered=True),
    Publish(PUB, BAR, ClusterIndexVector(5, 64), 2, 1000.5, ordered=True),
    Publish(PUB, BAR, ClusterIndexVector(0b1010, 4), 2, 1000.5, Detour(Lane.REROUTED)),
    Publish(PUB, BAR, None, 2, 1000.5, Detour(Lane.PLAIN, 255, "region_9")),
    Publish(PUB, BAR, ClusterIndexVector(0b10, 4), 2, 1000.5, Detour(Lane.PLAIN, 1, Origin.LOCAL)),
    Publish(PUB, ODD, ClusterIndexVector(0, 64), 2, 0.0, Detour(Lane.REROUTED, 1, Origin.HOST, (("c", 2**64 - 1),))),
    Publish(PUB, BAR, ClusterIndexVector(1, 4), 2, 0.0, Detour(Lane.REROUTED, 2, "b", (("a", 8), ("c", 6))), True),
    PublishRequest(2**40, BAR, 12.25),
    Deliver(PUB, BAR, (1, 2**33), 3, 1000.5),
    TidPublish(PUB, BAR, AD, 3, 1000.5),
)


def frames(*messages: Message) -> list[Item]:
    """Return the frames in which a session writes these messages."""
    session = Session(1, LinkSettings())
    session.connected(0.0)
    session.receive([Hello(1, 0, 0, Grant(1, 2**30, ()))], 0.0)
    session.drain(0.0)
    for each in messages:
        session.send(each, 0.0)
    return session.drain(0.0)


ITEMS: tuple[WireItem, ...] = (
    Opening(Role.CLIENT, "feed-1", broker="b.3", overflow=Overflow.DROP_OLDEST),
    Opening(Role.BROKER, "b.3", "0123456789abcdef"),
    Opening(Role.BROKER, "b.3", "0123456789abcdef", confirms=True),
    Hello(5, 0, 17, Grant(3, 65536, ((0, 5), (64, 7))), True),
    Ack(2**60, Grant(3, 0, ())),
    *frames(*MESSAGES),
    Command(Verb.REPORT),
    Command(Verb.THROTTLE, "b.0", rate=50.0, delay_ms=0.5),
    Command(Verb.TABLES, hosted=True),
    Command(Verb.TABLES, client="feed-1", rows=10, attributes={"x": 1, "y": 2.5, "z": "text", "b": True}),
    Answer({"id": "b.3", "links": {"b.0": {"up": True, "queue": 3}}}),
    Answer(problem="there is no such link"),
    Closing(CloseCode.DONE),
    Closing(CloseCode.BUSY, "too many at once", retry_ms=1500),
    Closing(CloseCode.BAD_FRAME, "expected something else"),
)
