# C types for probes.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content cimport encoded
from octopia.content cimport machine as bits
from octopia.content.publications cimport Publication
from octopia.matching.blocks cimport Block, Boundaries, Column
from octopia.matching.names cimport Names
from octopia.matching.strings cimport Strings

cdef long long CHUNK
cdef long long MOST_WORDS
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
cdef unsigned long long TOP
cdef long long UNKNOWN_TEXT
cdef long long FALSE
cdef long long TRUE
cdef long long FLOAT32
cdef long long FLOAT64
cdef long long EXACT


@cython.final
cdef class Probe:
    cdef long long size
    cdef long long count
    cdef Publication publication
    cdef list texts
    cdef list kept
    cdef list buffers
    cdef unsigned long long *words
    cdef unsigned long long *unsure
    cdef object hits_array
    cdef long long *hits
    cdef unsigned long long mask
    cdef object found_array
    cdef long long *found
    cdef long long found_count
    cdef long long room
    cdef object marks_array
    cdef long long *marks
    cdef long long marked
    cdef long long groups
    cdef long long links
    cdef readonly bint is_doubtful
    cdef bint is_within
    cdef long long fail_count
    cdef long long need_count
    cdef long long string_count
    cdef long long number_count
    cdef long long end_count
    cdef long long *columns
    cdef long long *kinds
    cdef double *froms
    cdef double *tos
    cdef long long *segments
    cdef long long *versions
    cdef long long *text_numbers
    cdef long long *fails
    cdef long long *needs
    cdef long long *ends
    cdef long long *end_intervals
    cdef double *points
    cdef long long *asks
    cdef long long *satisfied
    cdef long long *number_kinds
    cdef long long *intervals
    cdef double *lows
    cdef double *highs

    cpdef reserve(self, long long size)
    cpdef keep_longs(self, long long size)
    cpdef keep_doubles(self, long long size)
    @cython.locals(index="long long", buffer="long long *")
    cpdef make_room(self, long long room)
    @cython.locals(most="long long", index="long long", count="long long", number="long long")
    cpdef drop_repeats(self)
    cpdef expect_groups(self, long long count, long long links)
    cpdef bytes hit_groups(self)
    cpdef clear(self, long long size)
    cpdef ask(self, long long column, long long kind)
    cpdef ask_text(self, Column column, str text, list blocks)
    cpdef ask_numbers(self, Column column, long long kind, double low, double high)
    @cython.locals(nearest=double, low=double, high=double)
    cpdef ask_integer(self, Column column, value)


@cython.locals(column=Column)
cpdef fill(Probe probe, list columns, dict attributes, list blocks)

@cython.locals(number=double)
cdef ask_exactly(Probe probe, Column column, value)

@cython.locals(span="const unsigned char *", end="long long", left="long long", at="long long", size="long long",
               index="long long", length="long long", tag="long long", number=double, whole="long long", column=Column)
cpdef bint fill_encoded(Probe probe, list columns, Names names, bytes data, list blocks) except -1

@cython.locals(block=Block, group="long long", links_left="long long", data=bytes)
cpdef match(Probe probe, list columns, Names names, Publication publication, list blocks)

@cython.locals(links="long long", start="long long", offset="long long")
cdef long long search_links(Block block, Probe probe) except -1

@cython.locals(index="long long", owner="long long")
cdef bint is_wanted(Block block, Probe probe, long long start) noexcept

@cython.locals(owner="long long")
cdef long long try_link(Block block, Probe probe, unsigned long long word, long long word_index) except -1

@cython.locals(links="long long", start="long long", offset="long long", word="unsigned long long")
cdef long long search_all(Block block, Probe probe) except -1

@cython.locals(words="unsigned long long *", unsure="unsigned long long *", links="long long", offset="long long",
               index="long long", owners="const long long *", numbers="const long long *", found="long long *",
               count="long long", word="unsigned long long", first="long long")
cdef long long gather(Block block, Probe probe, long long start, long long span) except -1

@cython.locals(rows="const unsigned long long *", live="const unsigned long long *", words="unsigned long long *",
               index="long long", offset="long long", at="long long", second="long long", third="long long",
               fourth="long long")
cdef void narrow(Block block, Probe probe, long long start, long long span) noexcept

@cython.locals(rows="const unsigned long long *", words="const unsigned long long *", word="unsigned long long", verified="const unsigned long long *", unsure="unsigned long long *",
               index="long long", offset="long long", at="long long", second="long long", third="long long",
               fourth="long long")
cdef void mark_unsure(Block block, Probe probe) noexcept

@cython.locals(unsure="unsigned long long", index="long long")
cdef unsigned long long unsure_bits(Block block, Probe probe, long long word_index) noexcept

@cython.locals(wrong="unsigned long long", lowest="unsigned long long")
cdef unsigned long long mismatches(Block block, Probe probe, unsigned long long unsure,
                                   long long word_index) except? 0xFFFFFFFFFFFFFFFF

@cython.locals(unsure="unsigned long long", lowest="unsigned long long")
cdef bint some_match(Block block, Probe probe, unsigned long long word, long long word_index) except -1

@cython.locals(slot="long long", index="long long", at="long long", first="long long", bounds="const double *")
cdef bint is_match(Block block, Probe probe, unsigned long long bit, long long word_index) except -1

@cython.locals(block=Block, words="unsigned long long *", chunk="long long", start="long long", offset="long long",
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

@cython.locals(index="long long", kind="long long", low=double, high=double)
cdef bint fits(Block block, Probe probe, long long at) noexcept
