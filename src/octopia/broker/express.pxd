# C types for express.py; see there for explanations. Everything declared here is defined there.
cimport cython
from cpython cimport array as arrays

from octopia.broker.queues cimport OutputQueue
from octopia.matching.matched cimport Match
from octopia.protocol.transit cimport Data, Publish, PublishRequest, first_copy, further


@cython.final
cdef class Deliveries:
    cdef public list _entries
    cdef public object _plan_for
    cdef public dict _plans
    cdef public long long _version
    cdef public long long delivered

    cdef int begin(self, list entries, long long version) except -1
    cdef int add(self, Publish copy, bytes numbers) except -1


@cython.final
cdef class Road:
    cdef readonly tuple links
    cdef readonly list queues
    cdef readonly object duties
    cdef public long long batch
    cdef public bint is_free
    cdef public bint is_used


@cython.final
cdef class Roads:
    cdef public object _source
    cdef readonly dict queues
    cdef public long long _hop_limit
    cdef public object _duties
    cdef public dict _roads
    cdef public long long _batch
    cdef public double _now_ms
    cdef public object _view
    cdef public Deliveries deliveries
    cdef public long long unwanted
    cdef readonly dict reached

    cpdef begin(self, double now_ms, view, list entries, long long version)
    @cython.locals(size="long long")
    cpdef long long pass_on(self, list publications, list matches, long long at) except *
    @cython.locals(links=tuple, road=Road, copy=Publish, queue=OutputQueue)
    cdef bint _pass(self, Publish publication, Match match) except *
    @cython.locals(queue=OutputQueue)
    cdef bint _can_use(self, Road road) except *
    cdef Road _make(self, tuple links)


@cython.final
cdef class Entrance:
    cdef public object _host
    cdef public unsigned long long _incarnation
    cdef public double _now_ms
    cdef public dict _audiences
    cdef public dict _gates
    cdef public object _conforming
    cdef public object _audience_of
    cdef public object _gate_to
    cdef public Deliveries deliveries
    cdef public unsigned long long next_number
    cdef public dict reached

    @cython.locals(size="long long")
    cpdef long long pass_on(self, list requests, list matches, long long at) except *
    @cython.locals(gate=Gate, publication=Publish, copy=Publish, queue=OutputQueue, index="long long")
    cdef bint _pass(self, PublishRequest request, Match match) except *
    @cython.locals(advertisements=list)
    cdef object _targets(self, publication)


@cython.final
cdef class Gate:
    cdef readonly tuple links
    cdef readonly list queues
    cdef readonly list duties
    cdef readonly list watched
    cdef readonly bint is_free
    cdef public bint is_used

    @cython.locals(queue=OutputQueue)
    cpdef bint is_open(self, double now_ms) except *


@cython.locals(publication=Data)
cpdef list contents_of(list publications)

@cython.locals(size="long long", publication=Publish)
cpdef bint gather(list batch, long long at, list run) except *
