# C types for ready.py; see there for explanations. Everything declared here is defined there.
cimport cython


@cython.final
cdef class Ready:
    cdef public tuple failures
    cdef public list writes
    cdef public list for_clients
    cdef public tuple closes
    cdef public tuple silent
    cdef public tuple limits_reached
    cdef public tuple losses

    cdef bint _is_empty(self)
