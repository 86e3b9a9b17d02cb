"""Checks of decoded items: names, numbers and their relations. Types are checked by the decoder."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from octopia.content.values import shorten
from octopia.errors import BadFrame
from octopia.ids import AdvertisementId, BrokerId, SubscriptionId
from octopia.protocol import Ack, Grant, Hello, Opening, Role
from octopia.protocol.duties import Origin
from octopia.protocol.messages import Detour, LinkStatuses, Version
from octopia.wire.format import CIV_WIDTH_MAX, REGION_BYTES_MAX

_FINGERPRINT = re.compile(r"[0-9a-f]+\Z")
_INFINITY = float("inf")


@functools.lru_cache(maxsize=4096)
def host_broker(region: bytes, cluster: int) -> BrokerId:
    """Return the broker of a region and a cluster; cached, so mostly the same object."""
    if not 0 <= cluster < CIV_WIDTH_MAX:
        raise BadFrame(f"expected a cluster from 0 to {CIV_WIDTH_MAX - 1}, got {cluster}")
    if len(region) > REGION_BYTES_MAX:
        raise BadFrame(f"expected a region of at most {REGION_BYTES_MAX} bytes, got {len(region)}")
    return BrokerId.parse(f"{region.decode()}.{cluster}")


def check_message(message: msgspec.Struct) -> None:
    """Raise BadFrame for a message with an impossible name or number; filters are checked when they are built."""
    if type(message) is LinkStatuses:
        _check_statuses(message)
    _check(msgspec.structs.astuple(message))


def check_detour(detour: Detour) -> None:
    """Raise BadFrame for a detour with an impossible region or no cluster; the broker checks what it means."""
    if not isinstance(detour.origin, Origin):
        _check_region(detour.origin)
    _check_regions(region for region, _ in detour.cross)
    for region, bits in detour.cross:
        if bits < 1:
            raise BadFrame(f"expected a cluster or more to cross to {region}, got the bits {bits:#x}")


def check_handles(handles: tuple[int, ...]) -> None:
    """Raise BadFrame for a delivery to no subscription, or to a negative handle."""
    if not handles:
        raise BadFrame("expected a delivery to name at least one subscription, got none")
    if min(handles) < 0:
        raise BadFrame(f"expected a number that is not negative, got {min(handles)}")


def check_hello(hello: Hello) -> None:
    """Raise BadFrame for a greeting with an impossible incarnation, sequence number or grant."""
    if hello.incarnation < 1:
        raise BadFrame(f"expected an incarnation of at least 1 in a Hello, got {hello.incarnation}")
    _check_number(hello.knows_incarnation)
    _check_number(hello.accepted)
    _check_grant(hello.grant)


def check_ack(ack: Ack) -> None:
    """Raise BadFrame for an acknowledgement with an impossible sequence number or grant."""
    _check_number(ack.accepted)
    _check_grant(ack.grant)
    _check_time(ack.held_ms)


def check_opening(opening: Opening) -> None:
    """Raise BadFrame for an opening with an invalid sender, receiver or fingerprint."""
    if opening.broker:
        BrokerId.parse(opening.broker)
    if opening.role is Role.BROKER:
        BrokerId.parse(opening.sender)
        if not _FINGERPRINT.match(opening.fingerprint):
            raise BadFrame(f"expected the fingerprint of an overlay in hex, got {shorten(opening.fingerprint)}")
    elif not opening.sender or not opening.sender.isprintable():
        raise BadFrame(f"expected a printable client name, got {shorten(opening.sender)}")
    elif opening.fingerprint:
        raise BadFrame(f"expected no fingerprint from a client, got {shorten(opening.fingerprint)}")


def _check(value: object) -> None:
    """Check a part of a message; texts and filters were checked by the decoder."""
    check = _CHECKS.get(type(value))
    if check is not None:
        check(value)


def _check_number(value: int) -> None:
    if value < 0:
        raise BadFrame(f"expected a number that is not negative, got {value}")


def _check_time(value: float) -> None:
    if not 0.0 <= value < _INFINITY:
        raise BadFrame(f"expected a time of at least 0 ms, got {value}")


def _check_each(values: tuple[object, ...]) -> None:
    for each in values:
        _check(each)


def _check_region(region: str) -> None:
    host_broker(region.encode(), 0)


def _check_regions(regions: Iterable[str]) -> None:
    before = ""
    for region in regions:
        _check_region(region)
        if region <= before:
            raise BadFrame(f"expected regions in order, each once, got {region} after {before}")
        before = region


def _check_statuses(statuses: LinkStatuses) -> None:
    _check_regions(region for region, _ in statuses.congested)
    _check_regions(statuses.down_alinks)
    for region, work in statuses.congested:
        if not 0.0 <= work < _INFINITY:
            raise BadFrame(f"expected work of at least 0 for the aLink to {region}, got {work}")


def _check_broker(value: BrokerId) -> None:
    host_broker(value.region.encode(), value.cluster)


def _check_id(value: AdvertisementId | SubscriptionId) -> None:
    _check_broker(value.host_broker)
    _check_number(value.incarnation)
    _check_number(value.number)


def _check_version(value: Version) -> None:
    _check_number(value.incarnation)
    _check_number(value.number)


def _check_grant(grant: Grant) -> None:
    if grant.number < 0 or grant.window_bytes < 0:
        raise BadFrame(
            f"expected a number and a window that are not negative, got {grant.number}, {grant.window_bytes}"
        )
    before = -1
    for traffic_class, placed_bytes in grant.placed_bytes:
        if not before < traffic_class <= CIV_WIDTH_MAX:
            raise BadFrame(f"expected classes from 0 to {CIV_WIDTH_MAX}, in order, got {traffic_class} after {before}")
        _check_number(placed_bytes)
        before = traffic_class


_CHECKS: dict[type, Callable[[Any], None]] = {
    int: _check_number,
    float: _check_time,
    tuple: _check_each,
    BrokerId: _check_broker,
    AdvertisementId: _check_id,
    SubscriptionId: _check_id,
    Version: _check_version,
}
