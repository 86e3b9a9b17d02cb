# C types for matched.py; see there for explanations.
cimport cython

from octopia.content cimport machine as bits
from octopia.content.publications cimport Publication
from octopia.matching.names cimport Names
from octopia.matching.probes cimport Probe, match

cdef long long CACHED
cdef unsigned long long MULTIPLIER
cdef unsigned long long MASK
cdef unsigned long long ONE


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Match:
    cdef readonly tuple links
    cdef readonly bytes numbers


@cython.locals(match=Match)
cdef Match make_match(tuple links, bytes numbers)


@cython.final
cdef class Matcher:
    cdef readonly Probe probe
    cdef list blocks
    cdef list columns
    cdef Names names
    cdef list groups
    cdef public bint has_repeats
    cdef list cached
    cdef object kept
    cdef unsigned long long *masks
    cdef dict others

    cpdef expect_groups(self, list groups, long long links)
    cpdef list match_many(self, list publications, list doubtful)
    @cython.locals(found=Match)
    cpdef Match match(self, Publication publication)
    @cython.locals(slot="long long", found=Match)
    cdef Match links_only(self)
    cdef Match make_links(self)
