/* What the files of the compiled library use. */

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* The same function for several processors, chosen when the library is loaded; the numbers are the same. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

enum { NONE = -1, NO_ROOM = -1, DAMAGED = -2 }; /* the last two: what functions return instead of a count */

/* exp(x), to the last bit or two, in steps that compilers turn into vectors. x = n·ln 2 + r, and 2^n by its bits. */
static inline float exp_float(float x) {
    union { float number; uint32_t bits; } shifted, power;
    x = x < 88.0f ? x : 88.0f;
    x = x > -87.0f ? x : -87.0f;
    shifted.number = x * 1.44269504f + 12582912.0f;
    float n = shifted.number - 12582912.0f, r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    power.bits = (shifted.bits + 127u) << 23;
    float sum = 1.0f / 720 + r * (1.0f / 5040);
    sum = 1.0f / 120 + r * sum;
    sum = 1.0f / 24 + r * sum;
    sum = 1.0f / 6 + r * sum;
    sum = 0.5f + r * sum;
    return power.number * (1.0f + (r + r * r * sum));
}

static inline double exp_double(double x) {
    union { double number; uint64_t bits; } shifted, power;
    x = x < 709.0 ? x : 709.0;
    x = x > -708.0 ? x : -708.0;
    shifted.number = x * 1.4426950408889634 + 6755399441055744.0;
    double n = shifted.number - 6755399441055744.0;
    double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    power.bits = (shifted.bits + 1023u) << 52;
    double sum = 1.0 / 479001600 + r * (1.0 / 6227020800);
    sum = 1.0 / 39916800 + r * sum;
    sum = 1.0 / 3628800 + r * sum;
    sum = 1.0 / 362880 + r * sum;
    sum = 1.0 / 40320 + r * sum;
    sum = 1.0 / 5040 + r * sum;
    sum = 1.0 / 720 + r * sum;
    sum = 1.0 / 120 + r * sum;
    sum = 1.0 / 24 + r * sum;
    sum = 1.0 / 6 + r * sum;
    sum = 0.5 + r * sum;
    return power.number * (1.0 + (r + r * r * sum));
}

/* Angles up to this are encoded; beyond it, n below would have too many digits for its products to be exact. */
#define LARGEST_ANGLE 5e7

/* cos(x) of an angle in single precision, to the last bit or two of double precision, in steps that compilers turn into
   vectors. x = n·pi/2 + r. The first two parts of pi/2 have 27 digits each, so their products with n are exact. */
static inline double cos_of_float(float angle) {
    union { double number; uint64_t bits; } shifted;
    double x = angle;
    shifted.number = x * 6.36619772367581382433e-01 + 6755399441055744.0;
    double n = shifted.number - 6755399441055744.0;
    double r = ((x - n * 1.570796325802803) - n * 9.920935739593517e-10) - n * 5.721188726109832e-18;
    double square = r * r;
    double even = -1.0 / 87178291200 + square * (1.0 / 20922789888000);
    even = 1.0 / 479001600 + square * even;
    even = -1.0 / 3628800 + square * even;
    even = 1.0 / 40320 + square * even;
    even = -1.0 / 720 + square * even;
    even = 1.0 / 24 + square * even;
    even = -1.0 / 2 + square * even;
    even = 1.0 + square * even;
    double odd = -1.0 / 1307674368000 + square * (1.0 / 355687428096000);
    odd = 1.0 / 6227020800 + square * odd;
    odd = -1.0 / 39916800 + square * odd;
    odd = 1.0 / 362880 + square * odd;
    odd = -1.0 / 5040 + square * odd;
    odd = 1.0 / 120 + square * odd;
    odd = -1.0 / 6 + square * odd;
    odd = r + r * square * odd;
    /* cos r, -sin r, -cos r, sin r for n = 0, 1, 2, 3, … */
    uint64_t is_odd = 0u - (shifted.bits & 1u), sign = ((shifted.bits + 1u) & 2u) << 62;
    union { double number; uint64_t bits; } one = {even}, other = {odd}, result;
    result.bits = ((one.bits & ~is_odd) | (other.bits & is_odd)) ^ sign;
    return result.number;
}

/* Cosines of times, in layers.c: 1; or 0 where an angle may be too large, and nothing is encoded. */
EXPORT int64_t encode(int64_t count, int64_t width, const float *times, const float *frequency, const float *phase,
                      double *encoded, int64_t stride);
