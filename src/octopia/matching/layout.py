"""How the blocks of the matching index are laid out, and what can be asked of them; see ``kernel``."""

WORDS = 16
SLOTS = 64 * WORDS

# The fixed rows of an attribute within a block; the rows of its segments follow.
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
