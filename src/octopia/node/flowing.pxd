# C types for flowing.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.node.links cimport ClientLink, LinkEnd, NeighbourLink
from octopia.node.mailbox cimport Mailbox
from octopia.node.pouring cimport pour, pour_replies, take_all


cpdef bint flow(broker, NeighbourLink link, double now_ms) except *

@cython.locals(copies="long long")
cdef object _flow_freely(broker, NeighbourLink link, double now_ms)

@cython.locals(mailbox=Mailbox, taken=list)
cpdef flow_to_client(ClientLink link, settings, double now_ms)

cpdef bint can_write(ClientLink link, settings) except *

@cython.locals(taken=list)
cpdef output_of(LinkEnd link, double now_ms, bint acknowledge)
