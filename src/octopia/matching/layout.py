"""Constants of the matching index: the layout of blocks and the kinds of question (``blocks`` and ``probes``)."""

CHUNK = 16
"""The number of words that are processed together; the length of a row is a multiple of it."""

FEWEST_WORDS = 2 * CHUNK
MOST_WORDS = 8 * CHUNK
"""The length of rows in small and in large indexes; long rows are read faster, short rows waste less."""

MOST_SEGMENTS = 256

MOST_MEMOS = 1024
"""The number of remembered strings per attribute that no filter names."""

# The fixed rows of an attribute within a block; two rows per segment follow.
ABSENT = 0
NOT_NUMBER = 1
NOT_STRING = 2
ASKS_STRING = 3
NOT_FALSE = 4
NOT_TRUE = 5
FIRST_SEGMENT = 6

# The kinds of question about an attribute. A point is one number; the last three ask about an interval.
IS_ABSENT = 0
IS_POINT = 1
IS_STRING = 2
IS_FALSE = 3
IS_TRUE = 4
IS_NEEDED = 5
OVERLAPS = 6
CONTAINS = 7
WITHIN = 8

# Groups of slots: group 0 is the local clients, of which all matches count; the others are links, done at their first.
LOCAL = 0
