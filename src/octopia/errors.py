"""Every exception that OctopiA raises, in one tree.

::

    OctopiaError
    ├── UsageError             you did wrong: the input cannot be used as it is
    │   ├── InvalidFilter      a filter's text or tree, with the place in the text
    │   │   └── FilterTooLarge a filter beyond the limits
    │   ├── InvalidPublication an attribute, a value or a payload that no publication may carry
    │   ├── InvalidOverlay     a tree, a cluster count or a link that makes no overlay
    │   │   └── UnknownBroker  a broker that the overlay does not have
    │   ├── InvalidFile        an overlay or scenario file: an unknown key, a wrong type, a missing value
    │   ├── InvalidData        a table of data that is not there, or lacks columns
    │   ├── MissingDependency  something that must be installed first
    │   └── RequestRefused     a broker does not carry out what a client asks, with its reason
    ├── PeerError              the peer did wrong
    │   ├── ProtocolViolation  a message that this link may not carry
    │   ├── BadFrame           bytes from which no message can be made
    │   └── ClosedByPeer       the other end closed the connection, with its reason
    ├── NetworkError           nobody did wrong, but something did not come about
    │   ├── Unavailable        no broker can be reached
    │   ├── NotConfirmed       a request is not known to be in force everywhere in time
    │   ├── TimedOut           a call took longer than its timeout; also a TimeoutError
    │   ├── OutcomeUnknown     a publication may or may not have been accepted
    │   ├── SlowSubscriber     a subscriber was cut off for being too slow, with the count of what it lost
    │   └── JobFailed          a job of the pipeline, or some runs of a sweep, did not come to their end
    └── InternalError          we did wrong
        ├── InvariantBroken    what must always hold does not, with the broker's recent inputs
        └── Stuck              a simulated overlay that is not at rest, but in which nothing happens any more

A message is one sentence: what was expected, what came, and where. What a broker refuses to a client is not an
exception but an effect (``octopia.protocol.messages.Refused``).
"""

from __future__ import annotations

from collections.abc import Sequence


class OctopiaError(Exception):
    """The root of all errors that OctopiA raises."""


class UsageError(OctopiaError):
    """The caller gave something that cannot be used as it is."""


class InvalidFilter(UsageError):
    """A filter that cannot be read, or that no broker would take.

    ``text`` and ``position`` (0-based, in code points) are set where the filter came as text; ``expected`` lists what
    could have stood there. ``str()`` then has three lines: the sentence, the text and a caret below the place.
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
    """A filter beyond the limits on text, tokens, depth, disjuncts or predicates."""


class InvalidPublication(UsageError):
    """A publication with a name, value or payload that is not allowed."""


class InvalidOverlay(UsageError):
    """A description from which no structured cyclic overlay can be made."""


class UnknownBroker(InvalidOverlay):
    """A broker that is not part of the overlay."""


class InvalidFile(UsageError):
    """An overlay or scenario file with an unknown key, a wrong type or an impossible value."""


class InvalidData(UsageError):
    """A table of data that is not there, lacks columns, or cannot be read as what it should be."""


class MissingDependency(UsageError):
    """Something that OctopiA needs for this, and that is not installed."""


class RequestRefused(UsageError):
    """A broker refused what a client asked."""


class PeerError(OctopiaError):
    """The other side of a link did wrong."""


class ProtocolViolation(PeerError):
    """A message arrived that this link may not carry."""


class BadFrame(PeerError):
    """Bytes arrived that are no frame, or a frame with something in it that no peer may say."""


class ClosedByPeer(PeerError):
    """The other end closed the connection; ``code`` is for programs, ``reason`` for people."""

    def __init__(self, code: str, reason: str = ""):
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"the other end closed the connection ({self.code}){': ' if self.reason else ''}{self.reason}"


class NetworkError(OctopiaError):
    """Something did not come about, though nobody did wrong."""


class Unavailable(NetworkError):
    """No broker can be reached."""


class NotConfirmed(NetworkError):
    """A subscription or advertisement was not confirmed in time; it stays in force as far as it got.

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
    """A subscriber was too slow; ``lost`` is how many deliveries it has lost."""

    def __init__(self, sentence: str, lost: int):
        super().__init__(sentence, lost)
        self.sentence = sentence
        self.lost = lost

    def __str__(self) -> str:
        return self.sentence


class JobFailed(NetworkError):
    """A job of the pipeline did not come to its end; what was finished before is kept."""


class InternalError(OctopiaError):
    """OctopiA itself did wrong."""


class InvariantBroken(InternalError):
    """Something that must always hold does not; ``recent_inputs`` tells how it came about."""

    def __init__(self, sentence: str, recent_inputs: Sequence[str] = ()):
        super().__init__(sentence, tuple(recent_inputs))
        self.sentence = sentence
        self.recent_inputs = tuple(recent_inputs)

    def __str__(self) -> str:
        if not self.recent_inputs:
            return self.sentence
        return "\n".join([self.sentence, "recent inputs, oldest first:", *(f"  {each}" for each in self.recent_inputs)])


class Stuck(InternalError):
    """A simulated overlay that is not at rest, but in which nothing happens any more."""


_EXCERPT = 100


def _line_around(text: str, position: int) -> tuple[str, int]:
    """Return the (possibly shortened) line of ``text`` that holds ``position``, and the column in it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start:] if end < 0 else text[start:end]
    column = position - start
    cut = max(0, column - _EXCERPT // 2)
    return line[cut : cut + _EXCERPT].replace("\t", " "), column - cut
