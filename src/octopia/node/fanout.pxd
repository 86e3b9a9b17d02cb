# C types for fanout.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.node.links cimport ClientLink
from octopia.node.mailbox cimport Mailbox
from octopia.protocol.transit cimport Deliver, Publish, delivery_of


@cython.locals(cut_off=dict, size_bytes="long long", handles=tuple, routes=dict, route=list,
               delivery=Deliver, mailbox=Mailbox, link=ClientLink)
cpdef fan_out(entries, dict clients, long long limit, long long limit_bytes, dict reached)

@cython.locals(link=ClientLink, handles=tuple)
cdef list _route(tuple plan, dict clients, dict reached)
