# C types for encoded.py; see there for explanations. Everything declared here is defined there.
cimport cython

from octopia.content cimport machine as bits

cdef long long UNKNOWN
cdef long long MOST_ATTRIBUTES
cdef long long LONGEST_NAME
cdef long long LONGEST_STRING
cdef long long NUMBER_BYTES
cdef long long FIXMAP
cdef long long FIXSTR
cdef long long FALSE
cdef long long TRUE
cdef long long FLOAT32
cdef long long FLOAT64
cdef long long UINT8
cdef long long UINT64
cdef long long INT8
cdef long long INT64
cdef long long STR8
cdef long long STR16
cdef long long MAP16
cdef long long NEGATIVE_FIXINT
cdef unsigned long long ONE
cdef unsigned long long[::1] SEEN

cpdef long long check(bytes encoded) except? -2

@cython.locals(count="long long", at="long long", size="long long", index="long long", length="long long",
               points="long long", hashed="unsigned long long", names="unsigned long long", bit="unsigned long long")
cdef long long check_span(const unsigned char *data, long long start, long long end) noexcept

@cython.locals(tag="long long")
cdef long long entries(const unsigned char *data, long long start, long long end) noexcept

cdef long long first_entry(const unsigned char *data, long long start) noexcept

cdef long long name_length(const unsigned char *data, long long at, long long end) noexcept

@cython.locals(index="long long")
cdef bint is_seen(unsigned long long hashed, long long count) noexcept

cdef bint is_string(long long tag) noexcept

@cython.locals(tag="long long", length="long long")
cdef long long string_length(const unsigned char *data, long long at, long long end) noexcept

@cython.locals(tag="long long")
cdef long long string_start(const unsigned char *data, long long at) noexcept

@cython.locals(tag="long long", length="long long")
cdef long long number_bytes(const unsigned char *data, long long at, long long end) noexcept

@cython.locals(tag="long long", number=double)
cdef bint is_wrong(const unsigned char *data, long long at) noexcept

@cython.locals(tag="long long", width="long long", number="long long", index="long long")
cdef long long integer_at(const unsigned char *data, long long at) noexcept

@cython.locals(last="long long", points="long long", first="long long", second="long long", more="long long")
cdef long long count_points(const unsigned char *data, long long at, long long length) noexcept
