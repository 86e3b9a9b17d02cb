# C types for kernel.py, which explains everything. Nothing is defined here that kernel.py does not define.
cimport cython

cdef long long WORDS
cdef long long SLOTS
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
cdef long long ANY
cdef long long NAMES
cdef long long CANDIDATES
cdef unsigned long long MASK
cdef unsigned long long ONE
cdef unsigned long long _DE_BRUIJN
cdef double NEGATIVE
cdef double POSITIVE
cdef long long[::1] _TABLE
cdef list NOBODY


@cython.final
cdef class Boundaries:
    cdef double[::1] values
    cdef readonly long long count
    cdef readonly long long version

    @cython.locals(low="long long", high="long long", middle="long long")
    cpdef long long segment(self, double value)


@cython.final
cdef class Column:
    cdef readonly str name
    cdef readonly long long number
    cdef public Boundaries boundaries


@cython.final
cdef class Probe:
    cdef long long size
    cdef long long count
    cdef object attributes
    cdef list texts
    cdef long long fail_count
    cdef long long need_count
    cdef long long string_count
    cdef long long number_count
    cdef long long end_count
    cdef long long[::1] ends
    cdef long long[::1] columns
    cdef long long[::1] kinds
    cdef double[::1] froms
    cdef double[::1] tos
    cdef long long[::1] segments
    cdef long long[::1] versions
    cdef long long[::1] fails
    cdef long long[::1] needs
    cdef long long[::1] asks
    cdef long long[::1] satisfied
    cdef long long[::1] number_kinds
    cdef long long[::1] intervals
    cdef double[::1] lows
    cdef double[::1] highs

    cpdef reserve(self, long long size)
    cpdef clear(self, attributes, long long size)
    cpdef ask(self, long long column, long long kind)
    cpdef ask_text(self, long long column, str text)
    cpdef ask_numbers(self, Column column, long long kind, double low, double high)


@cython.locals(column=Column, number=double)
cpdef bint fill(Probe probe, list columns, attributes) except -1


@cython.final
cdef class Block:
    cdef unsigned long long[::1] live
    cdef unsigned long long[::1] verified
    cdef unsigned long long[::1] rows
    cdef long long row_count
    cdef long long row_limit
    cdef long long column_limit
    cdef long long[::1] bases
    cdef long long[::1] positions
    cdef long long[::1] not_numbers
    cdef long long interval_count
    cdef long long interval_limit
    cdef double[::1] bounds
    cdef readonly list boundaries
    cdef readonly list strings
    cdef readonly list names
    cdef readonly list filters

    cpdef bint has_column(self, long long column)
    @cython.locals(first="long long")
    cpdef long long add_rows(self, long long count)
    @cython.locals(limit="long long", index="long long")
    cpdef add_column(self, long long column, Boundaries boundaries)
    @cython.locals(old="long long", base="long long", at="long long", slot="long long")
    cpdef rebuild_column(self, long long column, Boundaries boundaries)
    @cython.locals(slot="long long", index="long long")
    cpdef widen_bounds(self, long long limit)
    @cython.locals(at="long long", row="long long")
    cpdef fail(self, long long column, long long slot, long long rows)
    cpdef long long base(self, long long column)
    cpdef set_live(self, long long slot, bint verified)
    cpdef set_bit(self, long long row, long long slot)
    @cython.locals(word="long long")
    cpdef clear_row(self, long long row)
    @cython.locals(at="long long")
    cpdef set_interval(self, long long column, long long slot, double low, double high)
    @cython.locals(word="long long", keep="unsigned long long", at="long long", index="long long")
    cpdef clear_slot(self, long long slot)


@cython.locals(index="long long")
cpdef copy_words(unsigned long long[::1] source, unsigned long long[::1] target, long long count)

@cython.locals(index="long long")
cdef copy_row_words(Block block, long long source, long long target, long long rows)

@cython.locals(row="long long")
cdef clear_column(Block block, long long word, unsigned long long keep)

@cython.locals(boundaries=Boundaries, first="long long", last="long long", word="long long", bit="unsigned long long",
               base="long long", segment="long long", ends="long long")
cdef place_interval(Block block, long long column, long long slot, double low, double high)

@cython.locals(index="long long", column="long long", kind="long long", base="long long", row="long long")
cdef bint resolve(Block block, Probe probe) except -1

@cython.locals(segment="long long", boundaries=Boundaries)
cdef resolve_point(Block block, Probe probe, long long index, long long column, long long base)

cdef resolve_numbers(Block block, Probe probe, long long index, long long column, long long base)

@cython.locals(row="long long")
cdef resolve_string(Block block, Probe probe, long long index, long long column, long long base)

cdef inline long long lowest_bit(unsigned long long word) noexcept

@cython.locals(index="long long", kind="long long", low=double, high=double)
cdef inline bint fits(Probe probe, double[::1] bounds, long long at) noexcept

@cython.locals(rows="unsigned long long[::1]", live="unsigned long long[::1]", verified="unsigned long long[::1]",
               bounds="double[::1]", fails="long long[::1]", width="long long", hit=bint, word_index="long long",
               word="unsigned long long", index="long long", asks="unsigned long long", slot="long long", unsure="unsigned long long", lowest="unsigned long long")
cdef bint scan(Block block, Probe probe, long long mode, list found) except -1

@cython.locals(block=Block)
cpdef bint any_match(list blocks, Probe probe) except -1

@cython.locals(block=Block)
cpdef collect_matches(list blocks, Probe probe, list found)

@cython.locals(block=Block)
cpdef collect_candidates(list blocks, Probe probe, list found)
