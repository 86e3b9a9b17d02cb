"""How the blocks of the matching index are laid out, and what can be asked of them; see ``blocks`` and ``probes``."""

CHUNK = 16
"""How many words are looked at together; the rows of a block are a multiple of it."""

FEWEST_WORDS = 2 * CHUNK
MOST_WORDS = 8 * CHUNK
"""How long rows are in small and in large indexes; long ones are read faster, short ones waste less."""

MOST_SEGMENTS = 256

MOST_MEMOS = 1024
"""How many strings of an attribute are remembered that no filter names."""

# The fixed rows of an attribute within a block; two rows for each of its segments follow.
ABSENT = 0
NOT_NUMBER = 1
NOT_STRING = 2
ASKS_STRING = 3
NOT_FALSE = 4
NOT_TRUE = 5
FIRST_SEGMENT = 6

# What a question says about an attribute. A point asks about one number, the last three about all between two.
IS_ABSENT = 0
IS_POINT = 1
IS_STRING = 2
IS_FALSE = 3
IS_TRUE = 4
IS_NEEDED = 5
OVERLAPS = 6
CONTAINS = 7
WITHIN = 8

# Groups of slots: 0 are local clients, of which every match counts; the others are links, done at their first.
LOCAL = 0
