# C types for strings.py; see there for explanations.
cimport cython

cdef long long MOST_MEMOS
cdef long long LONGEST_MEMO
cdef long long UNKNOWN
cdef long long UNNUMBERED


@cython.final
cdef class Texts:
    cdef readonly dict numbers
    cdef readonly list pins
    cdef readonly list texts
    cdef readonly dict memos
    cdef readonly list free
    cdef public long long general

    cdef bint is_idle(self) noexcept
    @cython.locals(number="long long")
    cpdef long long pin(self, str text)
    cpdef unpin(self, long long number)
    cpdef release(self, long long number)
    cpdef release_memos(self)
    @cython.locals(number="long long")
    cpdef long long add(self, str text)
    @cython.locals(number="long long")
    cpdef long long look_up(self, str text, list blocks, long long column)
    cpdef forget_memos(self, list blocks, long long column)


@cython.final
cdef class Strings:
    cdef readonly Texts texts
    cdef readonly long long empty
    cdef long long scratch
    cdef long long size
    cdef long long[::1] rows
    cdef long long[::1] applied
    cdef long long[::1] pins
    cdef dict named
    cdef dict general
    cdef list journal
    cdef long long length

    cpdef bint has_row(self, long long number)
    @cython.locals(number="long long")
    cpdef name(self, block, long long slot, tuple texts)
    @cython.locals(number="long long")
    cpdef ask(self, long long slot, tuple predicates)
    @cython.locals(number="long long")
    cpdef forget(self, block, long long slot)
    @cython.locals(number="long long")
    cpdef drop_unnamed(self, block)
    cpdef drop(self, block, long long number)
    @cython.locals(row="long long")
    cpdef long long row_of(self, block, long long number, str text)
    @cython.locals(row="long long")
    cpdef long long update_row(self, block, long long number, str text)
    cpdef make_row(self, block, long long number)
    cpdef reserve(self, long long size)
    cpdef follow_journal(self, block, long long number, str text)
    cpdef long long look_at(self, block, str text)
    cpdef try_slot(self, block, long long row, long long slot, str text)


cdef bint satisfies(str text, tuple predicates) except -1

@cython.locals(index="long long")
cpdef longer(long long[::1] old, long long count, long long limit, long long filler)
