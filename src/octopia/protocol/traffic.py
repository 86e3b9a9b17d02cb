"""Traffic classes: control, which needs no credit and goes first, and the classes of data.

The class of a publication between OctopiA brokers is the number of clusters that it must still reach. Requests of
publishing clients and publications of other routing schemes have class 0.
"""

from __future__ import annotations

CONTROL = -1
"""The class of messages that need no credit."""

ALL_CLASSES = -1
"""The bit mask that allows every class of data."""

CONTROL_ONLY = 0
"""The bit mask that allows no data."""

HEADER_BYTES = 40
"""The approximate size of a data message on a link, without its publication."""
