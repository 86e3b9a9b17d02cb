# C types for received.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.protocol.transit cimport Deliver


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Received:
    cdef readonly Deliver _delivery
    cdef readonly double _received_ms
    cdef readonly long long number


@cython.locals(received=Received)
cpdef Received received_of(Deliver delivery, double received_ms, long long number)
