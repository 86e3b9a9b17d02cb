# C counterparts of bits.py, for modules that are compiled; see there for explanations.
#
# Modules write ``from octopia.content import bits``, and their .pxd ``from octopia.content cimport machine as bits``.
from cpython cimport array
from libc.string cimport memcpy

cdef extern from * nogil:
    """
    #ifndef OCTOPIA_BITS
    #define OCTOPIA_BITS
    #include <stdint.h>
    #include <string.h>

    static inline unsigned long long octopia_word(const unsigned char *data, long long at, long long length,
                                                  long long end) {
        unsigned long long word = 0;
        if (length >= 8) {
            memcpy(&word, data + at, 8);
            return word;
        }
        if (at + 8 <= end) {
            memcpy(&word, data + at, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
            return length ? word >> (64 - 8 * length) : 0;
    #else
            return word & ((1ULL << (8 * length)) - 1);
    #endif
        }
        for (long long index = 0; index < length; index++)
            word |= (unsigned long long)data[at + index] << (8 * index);
        return word;
    }

    static inline unsigned long long octopia_hash(const unsigned char *data, long long at, long long length,
                                                  long long end) {
        unsigned long long hash = (unsigned long long)length;
        for (; length > 0; length -= 8, at += 8) {
            hash = (hash ^ octopia_word(data, at, length, end)) * 0x9E3779B97F4A7C15ULL;
            hash ^= hash >> 32;
        }
        return hash;
    }

    static inline int octopia_is_ascii(const unsigned char *data, long long at, long long length, long long end) {
        unsigned long long all = 0;
        for (; length > 0; length -= 8, at += 8)
            all |= octopia_word(data, at, length, end);
        return !(all & 0x8080808080808080ULL);
    }

    static inline unsigned long long octopia_big(const unsigned char *data, long long at, long long width) {
        unsigned long long number = 0;
        while (width--)
            number = number << 8 | data[at++];
        return number;
    }

    static inline unsigned long long octopia_big64(const unsigned char *data, long long at) {
        const unsigned char *from = data + at;  /* Compilers make this one load. */
        return (unsigned long long)from[0] << 56 | (unsigned long long)from[1] << 48 | (unsigned long long)from[2] << 40 |
               (unsigned long long)from[3] << 32 | (unsigned long long)from[4] << 24 | (unsigned long long)from[5] << 16 |
               (unsigned long long)from[6] << 8 | (unsigned long long)from[7];
    }

    static inline double octopia_double(const unsigned char *data, long long at) {
        unsigned long long bits = octopia_big64(data, at);
        double number;
        memcpy(&number, &bits, 8);
        return number;
    }

    static inline double octopia_single(const unsigned char *data, long long at) {
        uint32_t bits = (uint32_t)octopia_big(data, at, 4);
        float number;
        memcpy(&number, &bits, 4);
        return number;
    }

    static inline int octopia_same(const unsigned char *one, long long at, const unsigned char *other, long long start,
                                   long long length) {
        return memcmp(one + at, other + start, (size_t)length) == 0;
    }

    static inline void octopia_put_big(unsigned char *buffer, long long at, long long number, long long width) {
        for (long long index = width - 1; index >= 0; index--, number >>= 8)
            buffer[at + index] = (unsigned char)number;
    }

    static inline void octopia_put_double(unsigned char *buffer, long long at, double number) {
        unsigned long long bits;
        memcpy(&bits, &number, 8);
    #if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__
        bits = __builtin_bswap64(bits);
    #endif
        memcpy(buffer + at, &bits, 8);
    }

    static inline const char *octopia_utf8(PyObject *text, Py_ssize_t *length) {
        if (!PyUnicode_IS_COMPACT_ASCII(text))
            return PyUnicode_AsUTF8AndSize(text, length);
        *length = PyUnicode_GET_LENGTH(text);
        return (const char *)PyUnicode_DATA(text);
    }

    #define octopia_prefetch(numbers, at) __builtin_prefetch((numbers) + (at))
    #endif
    """
    unsigned long long hash_of "octopia_hash"(const unsigned char *data, long long at, long long length, long long end)
    bint is_ascii "octopia_is_ascii"(const unsigned char *data, long long at, long long length, long long end)
    unsigned long long big "octopia_big"(const unsigned char *data, long long at, long long width)
    unsigned long long big64 "octopia_big64"(const unsigned char *data, long long at)
    double double_at "octopia_double"(const unsigned char *data, long long at)
    double single_at "octopia_single"(const unsigned char *data, long long at)
    bint same "octopia_same"(const unsigned char *one, long long at, const unsigned char *other, long long start,
                             long long length)
    long long lowest_bit "__builtin_ctzll"(unsigned long long word)
    void prefetch "octopia_prefetch"(const double *numbers, long long at)
    void put_big "octopia_put_big"(unsigned char *buffer, long long at, long long number, long long width)
    void put_double "octopia_put_double"(unsigned char *buffer, long long at, double number)

cdef extern from *:
    const char *utf8 "octopia_utf8"(object text, Py_ssize_t *length) except NULL


cdef inline long long *longs(array.array kept) noexcept:
    return kept.data.as_longlongs


cdef inline unsigned long long *words(array.array kept) noexcept:
    return kept.data.as_ulonglongs


cdef inline double *doubles(array.array kept) noexcept:
    return kept.data.as_doubles


cdef inline bytes longs_to_bytes(const long long *numbers, long long count):
    return (<const char *>numbers)[:8 * count]


cdef inline unsigned char *octets(array.array kept) noexcept:
    return kept.data.as_uchars


cdef inline bytes octets_to_bytes(const unsigned char *buffer, long long length):
    return (<const char *>buffer)[:length]


cdef inline long long to_int64(object number) except? -1:
    return number


cdef inline long long utf8_length(str text) except -1:
    cdef Py_ssize_t length
    utf8(text, &length)
    return length


cdef inline int put_utf8(unsigned char *buffer, long long at, str text, long long length) except -1:
    cdef Py_ssize_t same_length
    memcpy(buffer + at, utf8(text, &same_length), <size_t>length)
    return 0
