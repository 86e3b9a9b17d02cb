# C types for relaying.py; see there for explanations. Everything declared here is defined there.
cimport cython
from cpython cimport array as arrays

from octopia.content.publications cimport Publication, scanned
from octopia.protocol.transit cimport Deliver, Frame, Publish, PublishRequest
from octopia.wire cimport machine as words

cdef long long _PUBLISH
cdef long long _PUBLISH_REQUEST
cdef long long _DELIVER
cdef long long _HEADER
cdef long long _REST
cdef long long _LENGTH
cdef long long _ORDERED
cdef long long _CLUSTERS_MAX
cdef long long _ATTRIBUTES_MAX
cdef long long _PAYLOAD_MAX
cdef long long _CONTROL
cdef long long _HEADER_SIZE
cdef double _INFINITY
cdef long long _PLACES
cdef list _hosts
cdef list _regions
cdef long long[::1] _clusters
cdef list _singles


@cython.locals(size="long long", start="const unsigned char*", length="long long", end="long long", frame=Frame)
cpdef long long read(bytes data, long long at, long long length_max, list items) except -1

@cython.locals(start="const unsigned char*", kind="long long", region_bytes="long long", extra_bytes="long long",
               attributes_bytes="long long", extra_at="long long", attributes_at="long long", payload_at="long long",
               published_ms=double, cluster="long long", place="long long")
cdef object _message(bytes data, long long at, long long end)

@cython.locals(start="const unsigned char*", clusters="long long", ordered=bint, bits="unsigned long long",
               traffic_class="long long", publication=Publication, message=Publish)
cdef object _publish(bytes data, long long at, long long attributes_at, long long payload_at, long long end,
                     double published_ms, long long place)

@cython.locals(start="const unsigned char*", publication=Publication, message=PublishRequest)
cdef object _request(bytes data, long long at, long long attributes_at, long long payload_at, long long end,
                     double published_ms)

@cython.locals(start="const unsigned char*", count="long long", handles=tuple, numbers=list, index="long long",
               publication=Publication, message=Deliver)
cdef object _deliver(bytes data, long long at, long long extra_at, long long attributes_at, long long payload_at,
                     long long end, double published_ms, long long place)

@cython.locals(start="const unsigned char*", place="long long", region=bytes)
cdef long long _host_place(bytes data, long long at, long long length, long long cluster) except -2

@cython.locals(others=list, total="long long", length="long long", encoded=bytes, buffer=bytearray,
               start="unsigned char*", at="long long", index="long long")
cpdef bytearray write(list items, encode)

@cython.locals(frame=Frame)
cdef long long _length_of(item) except -2

cdef long long _length_of_publish(Publish message) except -2

@cython.locals(count="long long")
cdef long long _length_of_deliver(Deliver message) except -2

cdef long long _length_of_content(Publication publication) except -2

@cython.locals(length="long long", frame=Frame)
cdef long long _put_frame(unsigned char* start, long long at, item) except -2

@cython.locals(region=bytes)
cdef void _put_publish(unsigned char* start, long long at, long long length, unsigned long long sequence,
                       Publish message)

cdef void _put_request(unsigned char* start, long long at, long long length, unsigned long long sequence,
                       PublishRequest message)

@cython.locals(region=bytes, place="long long")
cdef int _put_deliver(unsigned char* start, long long at, long long length, unsigned long long sequence,
                      Deliver message) except -1

@cython.locals(encoded=bytes, payload=bytes)
cdef void _put_content(unsigned char* start, long long at, long long length, long long place,
                       Publication publication)
