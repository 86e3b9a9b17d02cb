# C types for placing.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.broker.express cimport Entrance, Roads, contents_of


@cython.locals(matches=list, passed="long long")
cpdef accept(state, source, list publications)

@cython.locals(placed=dict, inputs=dict, size="long long", passed="long long")
cdef object _accept_rest(state, source, view, express, list publications, list matches, long long index)

@cython.locals(roads=Roads)
cdef object _express_way(state, source, view)

cdef long long _pass_on(state, source, express, list publications, list matches, long long index) except -1

cdef long long _pass_from_broker(
    state, source, Roads roads, list publications, list matches, long long index
) except -1

cdef long long _pass_from_client(state, Entrance entrance, list publications, list matches, long long index) except -1
