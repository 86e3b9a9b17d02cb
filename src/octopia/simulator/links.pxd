# C types for links.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.simulator.agenda cimport Agenda
from octopia.simulator.wires cimport SharedSender, Wire, jitter_ns, occupation_ns, occupy, plan_arrival


cdef class _Wired:
    cdef public object host
    cdef readonly dict _wires

    cpdef _give_turn(self, Wire wire, SharedSender sender)
    cpdef _on_sender_free(self, SharedSender sender)
    @cython.locals(agenda=Agenda, wire=Wire)
    cpdef _serve_turns(self, SharedSender sender, bint is_event)


@cython.final
cdef class ReliableLinks(_Wired):
    cdef Agenda _agenda
    cdef dict _from
    cdef double _bandwidth_mbit_s
    cdef double _jitter_ms
    cdef object _draw
    cdef object _hops
    cdef object _on_arrival

    @cython.locals(wires=dict)
    cpdef carry(self, source, target, items)
    @cython.locals(wires=dict)
    cpdef serve(self, source, target)
    @cython.locals(agenda=Agenda, occupied_ns="long long")
    cdef object _serve(self, Wire wire)
    @cython.locals(agenda=Agenda, leaves_ns="long long")
    cpdef _begin(self, Wire wire, SharedSender sender)
    cpdef _line_up(self, Wire wire, node)
    cpdef _on_free(self, Wire wire)
    @cython.locals(leaves_ns="long long", earliest_ns="long long")
    cdef object _send(self, Wire wire, batch, long long occupied_ns=*)
    @cython.locals(earliest_ns="long long")
    cdef object _send_by_kind(self, Wire wire, batch, long long leaves_ns)
    @cython.locals(wire=Wire)
    cpdef _arrive(self, tuple arrival)
