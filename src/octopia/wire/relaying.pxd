# C types for relaying.py; see there for explanations. Everything declared here is defined there.
cimport cython
from cpython cimport array as arrays

from octopia.content.publications cimport Publication, scanned
from octopia.protocol.transit cimport Data, Deliver, Frame, Numbered, Publish, PublishRequest
from octopia.wire cimport machine as words

cdef long long _PUBLISH
cdef long long _PUBLISH_REQUEST
cdef long long _DELIVER
cdef long long _ACK
cdef long long _ACK_BYTES
cdef long long _PLACED_BYTES
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
cdef long long _REMEMBERED_MAX
cdef long long _PLACES
cdef list _hosts
cdef list _regions
cdef long long[::1] _clusters
cdef object _last_host
cdef bytes _last_region
cdef list _handles
cdef list _encoded_handles


@cython.locals(size="long long", start="const unsigned char*", length="long long", end="long long", frame=Frame)
cpdef long long read(bytes data, long long at, long long publication_max, long long control_max, list items) except -1

@cython.locals(start="const unsigned char*", held_ms=double, asks="long long", place="long long", placed=list,
               before="long long", traffic_class="long long")
cdef _acknowledgement(bytes data, long long at, long long end)

@cython.locals(start="const unsigned char*", kind="long long", region_bytes="long long", extra_at="long long",
               attributes_at="long long", attributes_bytes="long long", payload_at="long long", published_ms=double,
               publication=Publication, message=Data)
cdef Data _message(bytes data, long long at, long long end)

@cython.locals(start="const unsigned char*", clusters="long long", ordered=bint, bits="unsigned long long",
               traffic_class="long long", message=Publish)
cdef Publish _publish(bytes data, long long at, long long extra_at, long long attributes_at)

@cython.locals(start="const unsigned char*", message=Deliver)
cdef Deliver _deliver(bytes data, long long at, long long extra_at, long long attributes_at)

@cython.locals(start="const unsigned char*", message=PublishRequest)
cdef PublishRequest _request(bytes data, long long at)

@cython.locals(start="const unsigned char*", place="long long")
cdef bint _name(Numbered message, bytes data, long long at, long long region_bytes) except -1

@cython.locals(start="const unsigned char*", place="long long", region=bytes)
cdef long long _host_place(bytes data, long long at, long long length, long long cluster) except -2

@cython.locals(parts=list, total="long long", buffer=bytearray, start="unsigned char*", at="long long",
               index="long long")
cpdef bytearray write(list items, encode)

@cython.locals(frame=Frame, publish=Publish, delivery=Deliver, request=PublishRequest, encoded=bytes)
cdef long long _prepare(item, list parts, encode) except -1

@cython.locals(placed=tuple, end="long long", buffer=bytearray, start="unsigned char*", at="long long",
               traffic_class="unsigned char")
cdef bytes _encoded_ack(ack)

@cython.locals(parts=list, buffer=bytearray, start="unsigned char*")
cdef int _encode_shared(Deliver delivery) except -1

@cython.locals(place="long long", encoded=bytes)
cdef bytes _encode_handles(tuple handles)

cdef long long _prepare_numbered(Numbered message, bytes extra, list parts) except -1

cdef bytes _region_of(host_broker)

cdef long long _length_of_content(Publication publication) except -1

@cython.locals(frame=Frame, publish=Publish, delivery=Deliver, request=PublishRequest)
cdef long long _put_frame(unsigned char* start, long long at, item, bytes part) except -1

@cython.locals(region=bytes, extra_at="long long")
cdef long long _put_numbered(unsigned char* start, long long at, unsigned long long sequence, Numbered message,
                             bytes extra) except -1

@cython.locals(publication=Publication, encoded=bytes, payload=bytes, payload_at="long long", end="long long")
cdef long long _put_content(unsigned char* start, long long at, unsigned long long sequence, Data message,
                            long long place) except -1
