# C types for pouring.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.broker.queues cimport OutputQueue, _Lane
from octopia.link.flow cimport Sender


@cython.locals(lane=_Lane, count="long long", rerouted="long long", waiting="long long")
cpdef long long pour(OutputQueue queue, Sender sender, list outbox, double now_ms, long long most) except *

cpdef pour_replies(list replies, Sender sender, list outbox)

@cython.locals(count="long long")
cpdef long long take_all(OutputQueue queue, list taken, double now_ms) except *
