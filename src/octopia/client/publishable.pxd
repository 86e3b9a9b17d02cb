# C types for publishable.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content.publications cimport Publication


@cython.locals(publication=Publication)
cpdef Publication to_publication(item)
