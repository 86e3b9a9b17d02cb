# C types for plans.py; see there for explanations. Everything declared here is defined there.
cimport cython


@cython.locals(plan=list, size="long long", index="long long", stop=tuple, last=tuple)
cpdef tuple plan_delivery(subscriptions, dict subscribers)
