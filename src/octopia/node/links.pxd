# C types for links.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.node.mailbox cimport Mailbox


cdef class LinkEnd:
    cdef public object peer
    cdef public object session
    cdef public bint is_paused
    cdef public bint is_paced
    cdef public object in_service
    cdef public list taken


@cython.final
cdef class NeighbourLink(LinkEnd):
    cdef public bint has_departed
    cdef public object departed


@cython.final
cdef class ClientLink(LinkEnd):
    cdef public object overflow
    cdef public Mailbox mailbox
    cdef public bint is_connected
    cdef public long long unanswered
    cdef public object expires_ms
    cdef public object rate
    cdef public dict keeps_ms
    cdef public str producer
    cdef public object alarm_ms
    cdef public object permissions
