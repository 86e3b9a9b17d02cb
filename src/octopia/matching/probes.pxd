# C types for probes.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.matching.blocks cimport Block, Boundaries, Column
from octopia.matching.strings cimport Strings

cdef long long CHUNK
cdef long long ABSENT
cdef long long NOT_NUMBER
cdef long long NOT_STRING
cdef long long ASKS_STRING
cdef long long NOT_FALSE
cdef long long NOT_TRUE
cdef long long FIRST_SEGMENT
cdef long long IS_ABSENT
cdef long long IS_POINT
cdef long long IS_STRING
cdef long long IS_FALSE
cdef long long IS_TRUE
cdef long long IS_NEEDED
cdef long long OVERLAPS
cdef long long CONTAINS
cdef long long WITHIN
cdef double NEGATIVE
cdef double POSITIVE
cdef long long LOCAL
cdef unsigned long long MASK
cdef unsigned long long ONE
cdef unsigned long long _DE_BRUIJN
cdef long long[::1] _TABLE


@cython.final
cdef class Probe:
    cdef long long size
    cdef long long count
    cdef object attributes
    cdef list texts
    cdef unsigned long long[::1] words
    cdef unsigned char[::1] hits
    cdef object found_array
    cdef long long[::1] found
    cdef long long found_count
    cdef long long room
    cdef long long groups
    cdef long long links
    cdef readonly bint is_doubtful
    cdef bint is_within
    cdef long long fail_count
    cdef long long need_count
    cdef long long string_count
    cdef long long number_count
    cdef long long end_count
    cdef long long[::1] columns
    cdef long long[::1] kinds
    cdef double[::1] froms
    cdef double[::1] tos
    cdef long long[::1] segments
    cdef long long[::1] versions
    cdef long long[::1] text_numbers
    cdef long long[::1] fails
    cdef long long[::1] needs
    cdef long long[::1] ends
    cdef long long[::1] end_intervals
    cdef double[::1] points
    cdef long long[::1] asks
    cdef long long[::1] satisfied
    cdef long long[::1] number_kinds
    cdef long long[::1] intervals
    cdef double[::1] lows
    cdef double[::1] highs

    cpdef reserve(self, long long size)
    @cython.locals(index="long long")
    cpdef make_room(self, long long room)
    cpdef numbers(self)
    cpdef expect_groups(self, long long count, long long links)
    cpdef clear(self, attributes, long long size)
    cpdef ask(self, long long column, long long kind)
    cpdef ask_text(self, Column column, str text, list blocks)
    cpdef ask_numbers(self, Column column, long long kind, double low, double high)
    @cython.locals(nearest=double, low=double, high=double)
    cpdef ask_integer(self, Column column, value)


@cython.locals(column=Column, number=double)
cpdef fill(Probe probe, list columns, dict attributes, list blocks)

@cython.locals(block=Block, group="long long", links_left="long long")
cpdef match(Probe probe, list columns, dict attributes, list blocks)

@cython.locals(words="unsigned long long[::1]", links="long long", start="long long",
               offset="long long", word="unsigned long long", owner="long long")
cdef long long search(Block block, Probe probe)

@cython.locals(index="long long", owner="long long")
cdef bint is_wanted(Block block, Probe probe, long long start) noexcept

@cython.locals(index="long long", offset="long long", at="long long", other="long long")
cdef void narrow(Block block, Probe probe, unsigned long long[::1] rows, unsigned long long[::1] words,
                        long long start) noexcept

@cython.locals(unsure="unsigned long long", index="long long")
cdef unsigned long long unsure_bits(Block block, Probe probe, long long word_index) noexcept

@cython.locals(unsure="unsigned long long", lowest="unsigned long long", count="long long")
cdef int gather(Block block, Probe probe, unsigned long long word, long long word_index) except -1

@cython.locals(unsure="unsigned long long", lowest="unsigned long long")
cdef bint some_match(Block block, Probe probe, unsigned long long word, long long word_index) except -1

@cython.locals(slot="long long", index="long long", at="long long")
cdef bint is_match(Block block, Probe probe, unsigned long long bit, long long word_index) except -1

@cython.locals(block=Block, words="unsigned long long[::1]", start="long long", offset="long long",
               word="unsigned long long", blurred="unsigned long long", loose="unsigned long long", lowest="unsigned long long", slot="long long")
cpdef collect(Probe probe, list blocks, list sure, list unsure, bint is_exact, long long enough)

@cython.locals(index="long long", column="long long", kind="long long", base="long long")
cdef bint resolve(Block block, Probe probe) except -1

cdef void pick_fails(Block block, Probe probe, long long column, long long base, long long row) noexcept

@cython.locals(segment="long long", at="long long", boundaries=Boundaries)
cdef int resolve_point(Block block, Probe probe, long long index, long long column, long long base) except -1

cdef void resolve_numbers(Block block, Probe probe, long long index, long long column, long long base) noexcept

@cython.locals(strings=Strings, row="long long")
cdef int resolve_string(Block block, Probe probe, long long index, long long column, long long base) except -1

cdef long long lowest_bit(unsigned long long word) noexcept

@cython.locals(index="long long", kind="long long", low=double, high=double)
cdef bint fits(Block block, Probe probe, long long at) noexcept
