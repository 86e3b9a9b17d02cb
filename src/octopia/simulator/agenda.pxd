# C types for agenda.py; see there for explanations. Everything declared here is defined there.
cimport cython


@cython.final
cdef class Agenda:
    cdef readonly long long now_ns
    cdef readonly double now_ms
    cdef list _heap
    cdef long long _entered
    cdef long long _foreground

    cpdef enter(self, long long time_ns, priority, action, argument, bint background=*)
    @cython.locals(event=tuple)
    cpdef step(self)
    cpdef run(self)
