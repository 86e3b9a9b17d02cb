# C types for offers.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content cimport encoded
from octopia.content cimport machine as bits
from octopia.content.publications cimport Publication
from octopia.matching.names cimport Names

cdef long long NO
cdef long long YES
cdef long long UNKNOWN
cdef long long NEVER
cdef long long ALWAYS
cdef long long BETWEEN
cdef long long LISTED
cdef long long UNCLEAR
cdef long long FALSE
cdef long long TRUE
cdef long long FLOAT32
cdef long long FLOAT64
cdef long long EXACT


@cython.final
cdef class Offer:
    cdef object alone
    cdef Names names
    cdef list texts
    cdef dict kept
    cdef long long *numbers
    cdef long long *strings
    cdef long long *booleans
    cdef double *lows
    cdef double *highs

    @cython.locals(span="const unsigned char *", end="long long", left="long long", at="long long", answer="long long",
                   length="long long", index="long long", takes="long long")
    cdef int announces(self, bytes data) except? -2
    @cython.locals(strings="long long", texts=Names)
    cdef int takes_string(self, long long index, const unsigned char *span, long long at, long long length,
                                long long end) except? -2
    @cython.locals(tag="long long", number=double, whole="long long")
    cdef int takes_number(self, long long index, const unsigned char *span, long long at) noexcept


@cython.final
cdef class Offers:
    cdef list ids
    cdef list contents
    cdef list offers

    @cython.locals(index="long long", found=list)
    cpdef list conforming(self, Publication publication)
    @cython.locals(offer=Offer, data=bytes, answer="long long")
    cdef bint is_conforming(self, long long index, Publication publication) except -1
