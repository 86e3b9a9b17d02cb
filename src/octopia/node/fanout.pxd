# C types for fanout.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.node.links cimport ClientLink
from octopia.node.mailbox cimport Mailbox
from octopia.protocol.transit cimport Deliver, Publish, delivery_of


@cython.final
cdef class Route:
    cdef readonly tuple plan
    cdef readonly list stops
    cdef readonly list screened
    cdef readonly dict peers


@cython.final
cdef class Routes:
    cdef readonly dict _known
    cdef readonly dict clients

    @cython.locals(route=Route)
    cdef Route of(self, tuple plan)


@cython.locals(cut_off=dict, added_bytes="long long", size_bytes="long long", handles=tuple, plan=tuple, route=Route,
               delivery=Deliver, mailbox=Mailbox, link=ClientLink)
cpdef fan_out(entries, Routes routes, long long limit, long long limit_bytes, dict reached)
