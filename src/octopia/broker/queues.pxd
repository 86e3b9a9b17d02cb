# C types for queues.py; see there for explanations. Everything declared here is defined there.
cimport cython

cdef long long _REROUTED


@cython.final
cdef class Window:
    cdef public double _length_ms
    cdef public long long index
    cdef public long long entered
    cdef public long long left
    cdef public long long closed_entered
    cdef public long long closed_left
    cdef public bint is_news
    cdef public double _tau
    cdef public long long congested

    @cython.locals(windows=double, index="long long", adjacent=bint)
    cpdef bint roll(self, double now_ms, long long waiting)


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class _Entry:
    cdef public long long order
    cdef public object message
    cdef public double entered_ms
    cdef public long long size_bytes
    cdef public object duties


@cython.final
cdef class _Lane:
    cdef public object entries
    cdef public long long size_bytes
    cdef public bint is_rerouted


@cython.final
cdef class OutputQueue:
    cdef public double _tau
    cdef public bint _by_time
    cdef public long long _capacity
    cdef public long long _capacity_bytes
    cdef public object _control
    cdef public dict _lanes
    cdef public long long _next_order
    cdef public long long _size
    cdef public object down_since_ms
    cdef public dict _rerouted
    cdef public Window window
    cdef public object pace
    cdef public object hold
    cdef public object verdict
    cdef public object forced_length
    cdef public bint is_closed
    cdef public long long sent
    cdef public long long sent_rerouted
    cdef public long long dropped

    @cython.locals(lane=_Lane)
    cpdef bint has_room(self, traffic_class)
    @cython.locals(lane=_Lane, entry=_Entry, size_bytes="long long")
    cpdef put_data(self, message, traffic_class, double now_ms, duties=*)
    @cython.locals(lane=_Lane)
    cpdef take(self, double now_ms, classes=*)
    cpdef has_left(self, double now_ms, long long copies, long long rerouted, long long waiting)
    @cython.locals(entry=_Entry)
    cpdef _remove_oldest(self, _Lane lane)
    @cython.locals(oldest=_Lane, lane=_Lane, entry=_Entry, order="long long", first="long long")
    cpdef _Lane _oldest_lane(self, classes)
