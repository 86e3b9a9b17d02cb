# C types for driver.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.node.core cimport Node
from octopia.node.links cimport NeighbourLink
from octopia.node.ready cimport Ready
from octopia.protocol.transit cimport Deliver, Publish, delivery_of
from octopia.simulator.agenda cimport Agenda
from octopia.simulator.wires cimport Wire, occupation_ns, plan_arrival


@cython.final
cdef class Place:
    cdef readonly object id
    cdef public Node node
    cdef public bint is_alive
    cdef public object waiting
    cdef public bint busy
    cdef public object timer_ms
    cdef public long long searched
    cdef public double publication_us


@cython.final
cdef class Departures:
    cdef readonly object source
    cdef readonly dict arrivals
    cdef readonly dict wires
    cdef long long _at_ns
    cdef list _latest

    cdef int add(self, long long arrival_ns, client, batch) except -1
    cdef int add_one(self, long long arrival_ns, client, reply) except -1


@cython.final
cdef class Driver:
    cdef readonly Agenda agenda
    cdef readonly object profile
    cdef readonly object random
    cdef public bint checking
    cdef readonly long long client_delay_ns
    cdef readonly dict places
    cdef readonly dict clients
    cdef public object links
    cdef tuple _observers
    cdef bint _listens
    cdef bint _brokers_take_time
    cdef double _client_delay_ms
    cdef bint _is_limited
    cdef bint _is_whole

    cpdef request(self, str name, request)

    @cython.locals(place=Place)
    cpdef arrive(self, target, sender, items)
    @cython.locals(wire=Wire)
    cpdef _arrive_from_client(self, tuple arrival)
    cpdef _serve_next(self, Place place, search_us=*)
    @cython.locals(searched="long long")
    cdef object _service_us(self, Place place)
    @cython.locals(place=Place)
    cpdef _served(self, tuple service)
    @cython.locals(place=Place)
    cpdef _searched(self, tuple service)
    cdef object _feed(self, Place place, sender, items)

    cpdef carry_out(self, broker)
    @cython.locals(node=Node)
    cdef object _carry_out(self, Place place)
    @cython.locals(departures=Departures, link=NeighbourLink, wire=Wire, arrival_ns="long long")
    cdef object _fulfil(self, Place place, Ready ready)
    cdef object _tell(self, Node node)

    @cython.locals(wire=Wire, now_ns="long long", delivery=Deliver, plan=tuple, handles=tuple)
    cdef object _spread(self, entry, Departures departures)
    @cython.locals(reached_ms=double, arrival_ns="long long", arrivals=list)
    cdef object _reach_whole(self, source, entries)
    @cython.locals(now_ns="long long", occupied_ns="long long")
    cdef object _serve_client(self, Node node, Wire wire, Departures departures)
    @cython.locals(departures=Departures, node=Node, wire=Wire)
    cpdef _on_free(self, list wires)
    cdef object _enter_departures(self, Departures departures)
    @cython.locals(arrivals=list, index="long long")
    cpdef _reach_clients(self, tuple arrival)

    cpdef set_timer(self, Place place)
    @cython.locals(place=Place)
    cpdef _on_timer(self, tuple timer)
