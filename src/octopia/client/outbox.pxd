# C types for outbox.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.client.publishable cimport to_publication
from octopia.content.publications cimport Publication
from octopia.link.flow cimport Sender
from octopia.protocol.transit cimport PublishRequest, request_of

cdef long long _PLAIN
cdef long long _HEADER


cdef class Ticket:
    cdef public long long accepted
    cdef public long long count
    cdef public long long last
    cdef public long long open


cdef class Entry:
    cdef public unsigned long long number


@cython.final
cdef class Posting(Entry):
    cdef readonly PublishRequest message
    cdef readonly Ticket ticket
    cdef readonly long long index
    cdef readonly bint is_settled


@cython.final
cdef class Outbox:
    cdef readonly long long backlog_bytes
    cdef readonly long long departed
    cdef readonly dict open
    cdef public object on_idle
    cdef unsigned long long _sequence
    cdef object _control
    cdef object _data
    cdef object _written

    @cython.locals(request=PublishRequest, posting=Posting)
    cpdef put_publication(self, Publication publication, Ticket ticket, double published_ms)
    @cython.locals(publication=Publication)
    cpdef put_all(self, items, Ticket ticket, long long backlog_bytes_max, clock)
    @cython.locals(entry=Entry, posting=Posting)
    cpdef settle_up_to(self, unsigned long long acknowledged)
    @cython.locals(posting=Posting)
    cdef _write(self, Sender sender, list frames)
    @cython.locals(ticket=Ticket)
    cdef _settle(self, Posting posting, error)
    cdef _forget(self, entry)
