"""Parsed filters, as bytes, which tables have beside the filter text.

Reading a form takes a fraction of the time of parsing a text, and every worker reads all filters of a workload. A form
names the text that it was made of, so one that does not belong to its text is not used.
"""

from __future__ import annotations

import hashlib

import msgspec

from octopia.content import Disjunction, parse_filter
from octopia.errors import UsageError

FORM = "form"
"""The column of forms; tables of earlier versions do not have it."""
_VERSION = b"1 "
"""To be changed when the parser gives another result for the same text."""
_DIGEST = 8
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Disjunction)


def form_of(text: str) -> bytes:
    """Return the form of a filter text; raise InvalidFilter if it has none."""
    return _digest(text) + _encoder.encode(parse_filter(text))


def read_filter(text: str, form: bytes | None) -> Disjunction:
    """Return a filter, from its form if that belongs to the text; raise InvalidFilter for an invalid text."""
    if form is not None and form[:_DIGEST] == _digest(text):
        try:
            return _decoder.decode(form[_DIGEST:])
        except (msgspec.MsgspecError, UsageError):
            pass  # The text decides.
    return parse_filter(text)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(_VERSION + text.encode(), digest_size=_DIGEST).digest()
