# C counterparts of words.py, for modules that are compiled; see there for explanations.
cdef extern from * nogil:
    """
    #ifndef OCTOPIA_WORDS
    #define OCTOPIA_WORDS
    #include <stdint.h>
    #include <string.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define OCTOPIA_LITTLE(bits, number) __builtin_bswap##bits(number)
    #else
    #define OCTOPIA_LITTLE(bits, number) (number)
    #endif

    static inline long long octopia_u16(const unsigned char *data, long long at) {
        uint16_t number;
        memcpy(&number, data + at, 2);
        return OCTOPIA_LITTLE(16, number);
    }

    static inline long long octopia_u32(const unsigned char *data, long long at) {
        uint32_t number;
        memcpy(&number, data + at, 4);
        return OCTOPIA_LITTLE(32, number);
    }

    static inline unsigned long long octopia_u64(const unsigned char *data, long long at) {
        uint64_t number;
        memcpy(&number, data + at, 8);
        return OCTOPIA_LITTLE(64, number);
    }

    static inline double octopia_f64(const unsigned char *data, long long at) {
        uint64_t bits = octopia_u64(data, at);
        double number;
        memcpy(&number, &bits, 8);
        return number;
    }

    static inline void octopia_put_u16(unsigned char *buffer, long long at, unsigned long long number) {
        uint16_t bits = OCTOPIA_LITTLE(16, (uint16_t)number);
        memcpy(buffer + at, &bits, 2);
    }

    static inline void octopia_put_u32(unsigned char *buffer, long long at, unsigned long long number) {
        uint32_t bits = OCTOPIA_LITTLE(32, (uint32_t)number);
        memcpy(buffer + at, &bits, 4);
    }

    static inline void octopia_put_u64(unsigned char *buffer, long long at, unsigned long long number) {
        uint64_t bits = OCTOPIA_LITTLE(64, (uint64_t)number);
        memcpy(buffer + at, &bits, 8);
    }

    static inline void octopia_put_f64(unsigned char *buffer, long long at, double number) {
        uint64_t bits;
        memcpy(&bits, &number, 8);
        octopia_put_u64(buffer, at, bits);
    }

    static inline void octopia_put(unsigned char *buffer, long long at, const unsigned char *data, long long length) {
        memcpy(buffer + at, data, (size_t)length);
    }

    static inline int octopia_same_words(const unsigned char *data, long long at, const unsigned char *other,
                                         long long length) {
        return memcmp(data + at, other, (size_t)length) == 0;
    }

    static inline long long octopia_place_of(PyObject *value) {
        return (long long)(((uintptr_t)value >> 4) & 255);
    }

    static inline PyObject *octopia_cut(const unsigned char *data, long long at, long long end) {
        return PyBytes_FromStringAndSize((const char *)data + at, (Py_ssize_t)(end - at));
    }
    #endif
    """
    long long u16 "octopia_u16"(const unsigned char *data, long long at)
    long long u32 "octopia_u32"(const unsigned char *data, long long at)
    unsigned long long u64 "octopia_u64"(const unsigned char *data, long long at)
    double f64 "octopia_f64"(const unsigned char *data, long long at)
    void put_u16 "octopia_put_u16"(unsigned char *buffer, long long at, unsigned long long number)
    void put_u32 "octopia_put_u32"(unsigned char *buffer, long long at, unsigned long long number)
    void put_u64 "octopia_put_u64"(unsigned char *buffer, long long at, unsigned long long number)
    void put_f64 "octopia_put_f64"(unsigned char *buffer, long long at, double number)
    void put "octopia_put"(unsigned char *buffer, long long at, const unsigned char *data, long long length)
    bint same "octopia_same_words"(const unsigned char *data, long long at, const unsigned char *other, long long length)
    long long ones "__builtin_popcountll"(unsigned long long word)


cdef extern from *:
    long long place_of "octopia_place_of"(object value)
    bytes cut "octopia_cut"(const unsigned char *data, long long at, long long end)
