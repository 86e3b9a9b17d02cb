# C types for flow.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.protocol.transit cimport Data, Frame

cdef long long _CONTROL


@cython.final
cdef class Sender:
    cdef public object kept
    cdef public long long kept_bytes
    cdef public unsigned long long next_sequence
    cdef public dict sent_bytes
    cdef public dict granted_bytes
    cdef public object window_bytes
    cdef public object exhausted

    @cython.locals(frame=Frame, data=Data)
    cpdef send(self, message, list outbox)
    @cython.locals(frame=Frame, data=Data, size_bytes="long long")
    cpdef send_all(self, list messages, list outbox)
    cpdef count(self, traffic_class, long long size_bytes)
    cpdef note_credit(self, traffic_class)
    @cython.locals(frame=Frame, data=Data, publications="long long", size_bytes="long long")
    cpdef long long acknowledge(self, unsigned long long accepted) except *


@cython.final
cdef class Receiver:
    cdef public unsigned long long accepted
    cdef public unsigned long long publications
    cdef public dict unplaced
    cdef public dict unplaced_bytes
    cdef public dict placed_bytes

    @cython.locals(size="long long", frame=Frame, data=Data, counted="long long", held_bytes="long long")
    cpdef long long accept(self, list items, long long at, list messages, long long window_bytes) except *
    @cython.locals(held_bytes="long long")
    cpdef bint hold(self, traffic_class, long long size_bytes, long long window_bytes) except *
    @cython.locals(known="long long", size_bytes="long long")
    cpdef long long place(self, traffic_class, long long frames) except *
