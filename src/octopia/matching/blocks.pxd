# C types for blocks.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content cimport machine as bits
from octopia.matching.strings cimport Strings, Texts, longer

cdef bint IS_PLAIN
cdef long long PADDING
cdef long long MOST_SEGMENTS
cdef long long ABSENT
cdef long long NOT_NUMBER
cdef long long NOT_STRING
cdef long long ASKS_STRING
cdef long long NOT_FALSE
cdef long long NOT_TRUE
cdef long long FIRST_SEGMENT
cdef long long ONLY_NUMBERS
cdef long long ONLY_STRINGS
cdef long long SAMPLE
cdef unsigned long long MASK
cdef unsigned long long ONE
cdef double NEGATIVE
cdef double POSITIVE
cdef double EXACT
cdef object UNDIVIDED
cdef object EQ
cdef object BETWEEN
cdef object GE
cdef object LE
cdef object GT
cdef object LT
cdef object EXISTS


@cython.final
cdef class Boundaries:
    cdef object kept
    cdef double *values
    cdef object kept_pivots
    cdef double *pivots
    cdef readonly long long count
    cdef readonly long long version

    @cython.locals(found="long long", index="long long", at="long long")
    cpdef long long segment(self, double value)


@cython.final
cdef class Column:
    cdef readonly str name
    cdef readonly long long number
    cdef public Boundaries boundaries
    cdef readonly Texts texts
    cdef readonly long long seen
    cdef public long long next_choice_at
    cdef double[::1] sample
    cdef long long room
    cdef unsigned long long state
    cdef long long asked_by

    cpdef note(self, double endpoint)
    @cython.locals(index="long long")
    cpdef make_room(self)
    cpdef list sampled(self)


@cython.final
cdef class Block:
    cdef readonly long long words
    cdef long long stride
    cdef dict kept
    cdef unsigned long long *live
    cdef unsigned long long *verified
    cdef unsigned long long *blurred
    cdef long long *owners
    cdef long long local_words
    cdef unsigned long long *rows
    cdef long long row_count
    cdef long long row_limit
    cdef dict spare_rows
    cdef long long column_limit
    cdef long long *bases
    cdef long long *positions
    cdef long long *used
    cdef long long *versions
    cdef long long interval_count
    cdef long long interval_limit
    cdef double *bounds
    cdef readonly list boundaries
    cdef long long next_column
    cdef Boundaries next_boundaries
    cdef long long next_base
    cdef long long next_word
    cdef readonly list strings
    cdef long long *numbers
    cdef readonly list filters

    cpdef keep(self, str name, kept)
    cpdef own(self, long long word, long long group)
    cpdef long long owner(self, long long word)
    @cython.locals(keep="unsigned long long", row="long long", slot="long long", at="long long", index="long long")
    cpdef sweep(self, long long word)
    @cython.locals(first="long long", rows="unsigned long long *")
    cpdef long long add_rows(self, long long count)
    @cython.locals(index="long long")
    cpdef give_up_rows(self, long long first, long long count)
    cpdef set_bit(self, long long row, long long slot)
    cpdef bint has_column(self, long long column)
    @cython.locals(more="long long")
    cpdef add_column(self, long long column, Boundaries boundaries)
    @cython.locals(slot="long long", index="long long", bounds="double *")
    cpdef widen_bounds(self, long long limit)
    @cython.locals(last="long long", slot="long long", at="long long", low=double, high=double)
    cpdef bint rebuild(self, long long column, Boundaries boundaries, long long words)
    @cython.locals(column="long long", boundaries=Boundaries, old="long long", index="long long")
    cpdef change_boundaries(self)
    @cython.locals(at="long long", row="long long")
    cpdef fail(self, long long column, long long slot, long long rows)
    @cython.locals(at="long long")
    cpdef set_interval(self, long long column, long long slot, double low, double high)
    cpdef Strings strings_of(self, Column column)
    cpdef let_verify(self, long long slot)
    cpdef let_blur(self, long long slot)
    cpdef settle(self, long long slot, long long number, interest)
    @cython.locals(strings=Strings)
    cpdef give_up(self, long long slot)
    cpdef Block next_of(self, long long words)


cpdef long long rows_of(Boundaries boundaries)

@cython.locals(index="long long")
cdef void copy_words(const unsigned long long *source, unsigned long long *target, long long count) noexcept

@cython.locals(first="long long", last="long long", bit="unsigned long long", rows="unsigned long long *",
               at="long long", segment="long long", step="long long")
cdef place_interval(Block block, long long base, Boundaries boundaries, long long slot, double low, double high)

@cython.locals(column=Column, left=list)
cpdef list place_simply(Block block, long long slot, dict columns, tuple predicates)

@cython.locals(column=Column, found=bint)
cdef bint is_repetitive(dict columns, tuple predicates, long long slot) except -1

cdef bint is_range(operator, operand) except -1

cdef bint is_double(operand) except -1

@cython.locals(low=double, high=double)
cdef place_range(Block block, long long slot, Column column, operator, operand)
