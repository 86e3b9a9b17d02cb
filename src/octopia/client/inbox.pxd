# C types for inbox.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.client.received cimport Received, received_of
from octopia.client.seen cimport Seen
from octopia.protocol.transit cimport Deliver


cdef class Inbox:
    cdef readonly object items
    cdef readonly Seen seen
    cdef public long long room
    cdef public object callback
    cdef public object unacknowledged


@cython.locals(size="long long", delivery=Deliver, received=Received, inbox=Inbox)
cpdef long long deliver(list messages, long long at, dict inboxes, double received_ms, dict touched, ended, long long number=*) except *
