# C types for agenda.py; see there for explanations. Everything declared here is defined there.
cimport cython


@cython.final
cdef class Moment:
    cdef list events
    cdef long long at


@cython.final
cdef class Agenda:
    cdef readonly long long now_ns
    cdef readonly double now_ms
    cdef list _heap
    cdef dict _moments
    cdef long long _size
    cdef long long _foreground

    @cython.locals(moment=Moment)
    cpdef enter(self, long long time_ns, long long priority, action, argument, bint background=*)
    @cython.locals(moment=Moment, events=list, at="long long", time_ns="long long")
    cpdef step(self)
    cpdef run(self)
