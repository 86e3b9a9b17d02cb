# C types for wires.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.protocol.transit cimport Data


@cython.final
cdef class SharedSender:
    cdef readonly long long interval_ns
    cdef public long long free_at_ns
    cdef public bint is_awaited
    cdef readonly object turns


@cython.final
cdef class Wire:
    cdef readonly object source
    cdef readonly object target
    cdef public long long delay_ns
    cdef public long long interval_ns
    cdef public long long free_at_ns
    cdef public bint is_awaited
    cdef readonly SharedSender sender
    cdef public bint has_turn
    cdef long long _last_control_ns
    cdef long long _last_data_ns

    cpdef long long arrival_ns(self, long long earliest_ns, bint control, bint data)
    cpdef bint is_slow(self, profile)


cpdef long long occupation_ns(long long interval_ns, double bandwidth_mbit_s, message) except *

cpdef long long occupy(Wire wire, SharedSender sender, double bandwidth_mbit_s, message, long long now_ns) except *

cpdef long long jitter_ns(double jitter_ms, double drawn) except *

cpdef long long plan_arrival(Wire wire, long long earliest_ns, batch) except *
