# C types for packing.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content cimport machine as bits

cdef long long MOST_BYTES
cdef long long MOST_ATTRIBUTES
cdef long long LONGEST_NAME
cdef long long LONGEST_STRING
cdef long long NUMBER_BYTES
cdef long long FIXMAP
cdef long long FIXSTR
cdef long long FALSE
cdef long long TRUE
cdef long long FLOAT64
cdef long long UINT8
cdef long long INT8
cdef long long STR8
cdef long long STR16
cdef long long MAP16
cdef long long TAG_BYTES


@cython.final
cdef class Packer:
    cdef object _kept
    cdef unsigned char *_buffer
    cdef readonly long long size

    @cython.locals(length="long long")
    cpdef bytes pack(self, dict attributes)
    @cython.locals(buffer="unsigned char *", count="long long", at="long long", size="long long", text=str,
                   points="long long", double=double)
    cdef int _fill(self, dict attributes) except -1


@cython.locals(length="long long")
cdef long long put_text(unsigned char *buffer, long long at, str text) except -1

@cython.locals(power="long long")
cdef long long put_integer(unsigned char *buffer, long long at, long long number) noexcept
