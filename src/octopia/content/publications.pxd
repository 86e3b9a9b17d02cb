# C types for publications.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content.encoded cimport check
from octopia.content.packing cimport Packer

cdef Packer _packer
cdef bint _PACKS


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Publication:
    cdef object _attributes
    cdef readonly bytes _encoded_attributes
    cdef readonly bytes _payload
    cdef long long _size


@cython.locals(size="long long")
cpdef scanned(bytes encoded, bytes payload)

@cython.locals(publication=Publication)
cdef Publication _make(attributes, bytes encoded, bytes payload, long long size)
