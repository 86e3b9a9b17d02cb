"""Every exception that OctopiA raises, in one tree.

::

    OctopiaError
    ├── UsageError             the caller's mistake: the input is invalid
    │   ├── InvalidFilter      an invalid filter, with the position in its text
    │   │   └── FilterTooLarge a filter beyond the limits
    │   ├── InvalidPublication an attribute, a value or a payload that a publication may not carry
    │   ├── InvalidOverlay     a tree, a number of clusters or a link that is not part of a valid overlay
    │   │   └── UnknownBroker  a broker that is not part of the overlay
    │   ├── InvalidFile        an overlay or scenario file: an unknown key, a wrong type, a missing value
    │   ├── BrokenCredentials  a file of certificates, keys or tokens that is missing or cannot be used
    │   ├── InvalidData        a data table that is missing, or lacks columns
    │   ├── DamagedData        stored publications that were changed, or cannot be read back
    │   ├── MissingDependency  software that must be installed first
    │   └── RequestRefused     a broker refused a client's request, with its reason
    ├── PeerError              the peer's mistake
    │   ├── ProtocolViolation  a message that this link may not carry
    │   ├── BadFrame           bytes that cannot be decoded
    │   ├── BadRequest         an HTTP request that cannot be answered, with the status that says why
    │   ├── TlsFailure         no TLS connection: one end speaks no TLS, or a certificate is not accepted
    │   └── ClosedByPeer       the peer closed the connection, with its reason
    │       └── AccessDenied   a broker does not accept the token of a client
    ├── NetworkError           nobody's mistake: an operation did not complete
    │   ├── Unavailable        no broker can be reached
    │   ├── NotConfirmed       a request was not confirmed in time
    │   ├── TimedOut           a call took longer than its timeout; also a TimeoutError
    │   ├── OutcomeUnknown     a publication may or may not have been accepted
    │   ├── SlowSubscriber     a subscriber was cut off because it was too slow, with the number of lost deliveries
    │   └── JobFailed          a pipeline job, or some runs of a sweep, did not finish
    └── InternalError          a bug in OctopiA
        ├── InvariantBroken    a violated invariant, with the broker's recent inputs
        └── Stuck              a simulated overlay that makes no progress but is not at rest

A message is one sentence: what was expected, what was found, and where. A broker refuses a client's request by an
effect, a ``Refused`` message, not by an exception.
"""

from __future__ import annotations

from collections.abc import Sequence


class OctopiaError(Exception):
    """The base class of all errors that OctopiA raises."""


class UsageError(OctopiaError):
    """The caller passed invalid input."""


class InvalidFilter(UsageError):
    """An invalid filter.

    ``text`` and ``position`` (0-based, in code points) are set if the filter was parsed from a text; ``expected`` lists
    what the parser would have accepted. ``str()`` then has three lines: the sentence, the text and a caret below the
    position.
    """

    def __init__(self, sentence: str, text: str = "", position: int | None = None, expected: Sequence[str] = ()):
        super().__init__(sentence, text, position, tuple(expected))
        self.sentence = sentence
        self.text = text
        self.position = position
        self.expected = tuple(expected)

    def __str__(self) -> str:
        if self.position is None:
            return self.sentence
        line, column = _line_around(self.text, self.position)
        return f"{self.sentence}\n  {line}\n  {' ' * column}^"


class FilterTooLarge(InvalidFilter):
    """A filter beyond the limits on its text, its size or the time of a match."""


class InvalidPublication(UsageError):
    """A publication with an invalid name, value or payload."""


class InvalidOverlay(UsageError):
    """A description that does not give a structured cyclic overlay."""


class UnknownBroker(InvalidOverlay):
    """A broker that is not part of the overlay."""


class InvalidFile(UsageError):
    """An overlay or scenario file with an unknown key, a wrong type or an impossible value."""


class BrokenCredentials(UsageError):
    """A file of certificates, keys or tokens that is missing or cannot be used."""


class InvalidData(UsageError):
    """A data table that is missing, lacks columns or cannot be read."""


class DamagedData(UsageError):
    """Stored publications that were changed by somebody else, or that a disk does not give back."""


class MissingDependency(UsageError):
    """Software that this operation needs is not installed."""


class RequestRefused(UsageError):
    """A broker refused a client's request."""


class PeerError(OctopiaError):
    """The peer of a link made a mistake."""


class ProtocolViolation(PeerError):
    """A message arrived that this link may not carry."""


class BadFrame(PeerError):
    """Bytes arrived that are not a frame, or a frame with invalid contents."""


class BadRequest(PeerError):
    """An HTTP request that cannot be answered; ``headers`` are for the response."""

    def __init__(self, status: int, sentence: str, headers: Sequence[tuple[str, str]] = ()):
        super().__init__(status, sentence)
        self.status = status
        self.sentence = sentence
        self.headers = tuple(headers)

    def __str__(self) -> str:
        return self.sentence


class TlsFailure(PeerError):
    """No TLS connection: one end speaks TLS and the other does not, or a certificate is not accepted."""


class ClosedByPeer(PeerError):
    """The peer closed the connection; ``code`` is for programs, ``reason`` for people.

    For a broker that is fenced, ``incarnation`` is that of the newer one. A busy broker admits the client again after
    ``retry_ms``.
    """

    def __init__(self, code: str, reason: str = "", incarnation: int = 0, retry_ms: int = 0):
        super().__init__(code, reason)
        self.code = code
        self.reason = reason
        self.incarnation = incarnation
        self.retry_ms = retry_ms

    def __str__(self) -> str:
        return f"the other end closed the connection ({self.code}){': ' if self.reason else ''}{self.reason}"


class AccessDenied(ClosedByPeer):
    """A broker does not accept a token: it is missing, wrong, expired or revoked, or its role is another."""


class NetworkError(OctopiaError):
    """An operation did not complete, without a mistake of the caller or the peer."""


class Unavailable(NetworkError):
    """No broker can be reached."""


class NotConfirmed(NetworkError):
    """A subscription or advertisement was not confirmed in time; it stays in force at the brokers it has reached.

    ``issued`` is the subscription or advertisement, to be used or withdrawn.
    """

    def __init__(self, sentence: str, issued: object = None):
        super().__init__(sentence, issued)
        self.sentence = sentence
        self.issued = issued

    def __str__(self) -> str:
        return self.sentence


class TimedOut(NetworkError, TimeoutError):
    """A call took longer than its timeout, and has no effect any more."""


class OutcomeUnknown(NetworkError):
    """A publication was written and not acknowledged, in time or before its host broker was lost."""


class SlowSubscriber(NetworkError):
    """A subscriber was too slow; ``lost`` is the number of deliveries it lost."""

    def __init__(self, sentence: str, lost: int):
        super().__init__(sentence, lost)
        self.sentence = sentence
        self.lost = lost

    def __str__(self) -> str:
        return self.sentence


class JobFailed(NetworkError):
    """A pipeline job did not finish; its completed parts are kept."""


class InternalError(OctopiaError):
    """A bug in OctopiA."""


class InvariantBroken(InternalError):
    """An invariant is violated; ``recent_inputs`` are the broker's inputs that led to it."""

    def __init__(self, sentence: str, recent_inputs: Sequence[str] = ()):
        super().__init__(sentence, tuple(recent_inputs))
        self.sentence = sentence
        self.recent_inputs = tuple(recent_inputs)

    def __str__(self) -> str:
        if not self.recent_inputs:
            return self.sentence
        return "\n".join([self.sentence, "recent inputs, oldest first:", *(f"  {each}" for each in self.recent_inputs)])


class Stuck(InternalError):
    """A simulated overlay makes no progress but is not at rest."""


_EXCERPT = 100


def _line_around(text: str, position: int) -> tuple[str, int]:
    """Return the line of ``text`` at ``position``, shortened if it is long, and the column in it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start:] if end < 0 else text[start:end]
    column = position - start
    cut = max(0, column - _EXCERPT // 2)
    return line[cut : cut + _EXCERPT].replace("\t", " "), column - cut
