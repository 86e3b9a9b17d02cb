"""Advertisements that commands issue for a publication, so that people need not write them."""

from __future__ import annotations

from octopia.client import Client
from octopia.content import Filter, Operator, Predicate, Publication
from octopia.content.filters import Disjunction
from octopia.errors import RequestRefused


def offer_of(publication: Publication) -> Disjunction:
    """Return an advertisement of the attributes of a publication, with any value."""
    names = sorted(publication.attributes)
    return Disjunction((Filter(tuple(Predicate(name, Operator.EXISTS) for name in names)),))


async def advertise_for(client: Client, publication: Publication, timeout: float | None) -> None:
    """Advertise the attributes of a publication: with any values or, if the token allows less, with these."""
    try:
        await client.advertise(offer_of(publication), timeout=timeout)
    except RequestRefused:
        await client.advertise(_exact_offer_of(publication), timeout=timeout)


def _exact_offer_of(publication: Publication) -> Disjunction:
    predicates = [Predicate(name, Operator.EQ, value) for name, value in sorted(publication.attributes.items())]
    return Disjunction((Filter(tuple(predicates)),))
