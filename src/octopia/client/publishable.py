"""The forms in which programs pass publications to a client.

Plain Python that Cython compiles (``publishable.pxd``), since every publication passes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from octopia.content.publications import Publication
from octopia.content.values import Value
from octopia.errors import InvalidPublication
from octopia.wire import prepare

Attributes: TypeAlias = Mapping[str, Value]
Publishable: TypeAlias = Publication | Attributes | tuple[Attributes, bytes]
"""A publication, its attributes, or a pair of attributes and payload."""


def to_publication(item: Any) -> Publication:
    """Return a publication that is checked and encoded."""
    if type(item) is dict:
        publication = Publication(item)
    elif isinstance(item, Publication):
        publication = item
    elif not isinstance(item, tuple):
        publication = Publication(item)
    elif len(item) == 2:
        publication = Publication(item[0], item[1])
    else:
        raise InvalidPublication(f"expected attributes and payload, got a tuple of {len(item)}")
    if not publication._encoded_attributes:
        prepare(publication)
    return publication
