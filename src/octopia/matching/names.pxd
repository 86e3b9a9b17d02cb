# C types for names.py; see there for explanations.
cimport cython

from octopia.content cimport machine as bits


@cython.final
cdef class Names:
    cdef readonly long long count
    cdef long long shift
    cdef unsigned long long limit
    cdef bytes joined
    cdef const unsigned char *text
    cdef dict kept
    cdef long long *starts
    cdef long long *slots
    cdef unsigned long long *hashes

    @cython.locals(index="long long", hashed="unsigned long long", slot="unsigned long long", length="long long")
    cpdef set_all(self, list names)
    @cython.locals(hashed="unsigned long long", slot="unsigned long long", number="long long", start="long long",
                   is_as_long=bint)
    cdef long long find(self, const unsigned char *data, long long at, long long length, long long end) noexcept
    cpdef long long number_of(self, str name)
