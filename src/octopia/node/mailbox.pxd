# C types for mailbox.py; see there for explanations. Everything declared here is defined there.
cimport cython


@cython.final
cdef class Mailbox:
    cdef public long long lost
    cdef public dict gaps
    cdef public long long size_bytes
    cdef public list answers
    cdef public list deliveries

    @cython.locals(taken=list)
    cpdef list take_answers(self)
    cpdef list take_all(self)
    cpdef bint has_room(self, long long limit, long long limit_bytes)
    cpdef put(self, delivery, long long size_bytes)
    @cython.locals(taken=list)
    cpdef list take_deliveries(self)
