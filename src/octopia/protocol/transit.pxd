# C types for transit.py; see there for explanations. Everything declared here is defined there.
cimport cython

cdef long long _HEADER
cdef long long _CONTROL


@cython.no_gc
cdef class Data:
    cdef readonly object publication
    cdef readonly double published_ms
    cdef public long long traffic_class
    cdef readonly long long size_bytes


@cython.no_gc
cdef class Numbered(Data):
    cdef readonly object host_broker
    cdef readonly long long cluster
    cdef public bytes region
    cdef readonly unsigned long long incarnation
    cdef readonly unsigned long long number
    cdef readonly long long hop

    cpdef take_name(self, host_broker, unsigned long long incarnation, unsigned long long number)


cdef int _carry_on(Numbered other, Numbered copy) except -1


@cython.final
@cython.no_gc
cdef class Publish(Numbered):
    cdef readonly long long clusters
    cdef readonly unsigned long long bits
    cdef readonly object detour
    cdef readonly bint ordered

    cpdef direct(self, publication_civ, detour)


@cython.locals(other=Publish)
cpdef Publish further(Publish copy, long long hops)


@cython.final
@cython.no_gc
cdef class PublishRequest(Data):
    cdef readonly unsigned long long sequence


@cython.final
@cython.no_gc
cdef class Deliver(Numbered):
    cdef public bytes encoded
    cdef readonly tuple handles
    cdef public bint is_shared


@cython.locals(request=PublishRequest)
cpdef PublishRequest request_of(unsigned long long sequence, publication, double published_ms)

@cython.locals(copy=Publish)
cpdef Publish first_copy(PublishRequest request, host_broker, unsigned long long incarnation, unsigned long long number)

@cython.locals(delivery=Deliver)
cpdef Deliver delivery_of(Publish copy, tuple handles)


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Frame:
    cdef readonly unsigned long long sequence
    cdef readonly object message
