# C types for core.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.node.flowing cimport can_write, flow, flow_to_client, output_of
from octopia.node.links cimport ClientLink, LinkEnd, NeighbourLink
from octopia.node.ready cimport Ready


cdef class Node:
    cdef public object broker
    cdef public object incarnation
    cdef public object _settings
    cdef public dict links
    cdef public dict clients
    cdef public dict _names
    cdef public object _routes
    cdef public object _client_sessions
    cdef public double last_data_ms
    cdef public bint _admits
    cdef public object _budget
    cdef public bint _is_draining
    cdef public dict _drains_with
    cdef public dict _dirty
    cdef public dict _postponed
    cdef public dict _touched
    cdef public dict _inputs
    cdef public dict _owing
    cdef public list _last_words
    cdef public Ready _work
    cdef public dict _held_back
    cdef public list _facts
    cdef public object _alarms
    cdef public long long _paced_clients
    cdef public dict _producers

    @cython.locals(link=LinkEnd)
    cpdef receive(self, peer, items, double now_ms)
    cpdef bint _feed(self, peer, messages, double now_ms) except *
    cpdef list _screened(self, ClientLink link, list messages)
    @cython.locals(work=Ready)
    cpdef Ready ready(self, double now_ms)
    cdef bint _has_work(self) except *
    cpdef list drain_facts(self)
    @cython.locals(touched=dict, inputs=dict, link=LinkEnd, source=LinkEnd)
    cpdef _collect(self, double now_ms)
    cpdef _write(self, link, double now_ms, bint acknowledge)
    @cython.locals(dirty=dict, link=LinkEnd)
    cpdef _settle(self, double now_ms)
    cpdef _note_admission(self)
    cpdef _flow(self, LinkEnd link, double now_ms)
    @cython.locals(entries=list, link=LinkEnd)
    cpdef _absorb(self, effects, double now_ms)
    cpdef _link(self, peer)
