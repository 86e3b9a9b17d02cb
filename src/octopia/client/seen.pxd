# C types for seen.py; see there for explanations. Everything declared here is defined there.
cimport cython
from cpython cimport array as arrays

from octopia.content cimport machine as bits


@cython.final
cdef class Seen:
    cdef readonly dict _sources
    cdef readonly long long _cost
    cdef object _host_broker
    cdef unsigned long long _incarnation
    cdef arrays.array _starts
    cdef arrays.array _ends

    @cython.locals(count="long long", ends="unsigned long long *", last="unsigned long long")
    cpdef bint add(self, host_broker, unsigned long long incarnation, unsigned long long number) except *
