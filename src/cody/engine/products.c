/* Products of a few vectors with a matrix. Libraries for large matrices rearrange the matrix for each call, which for
   thirty vectors takes about as long as the product; here that is done once. Like the other files, it knows nothing of
   Python, and its numbers do not depend on the processor. */

#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "products.h"

enum { ALIGNED = 64 };

#if defined(__x86_64__) && defined(__GNUC__)
#define REAL double
#define LANES 8
#define ROWS 8
#define TARGET __attribute__((target("avx512f")))
#define NAME(name) name##_double_512
#include "tile.h"

#define REAL float
#define LANES 16
#define ROWS 8
#define TARGET __attribute__((target("avx512f")))
#define NAME(name) name##_float_512
#include "tile.h"

#define REAL double
#define LANES 4
#define ROWS 6
#define TARGET __attribute__((target("avx2")))
#define NAME(name) name##_double_256
#include "tile.h"

#define REAL float
#define LANES 8
#define ROWS 6
#define TARGET __attribute__((target("avx2")))
#define NAME(name) name##_float_256
#include "tile.h"

static int bytes_of_processor(void) {
    if (__builtin_cpu_supports("avx512f")) return 64;
    return __builtin_cpu_supports("avx2") ? 32 : 16;
}
#else
static int bytes_of_processor(void) { return 16; }
#endif

#define REAL double
#define LANES 2
#define ROWS 4
#define TARGET
#define NAME(name) name##_double_128
#include "tile.h"

#define REAL float
#define LANES 4
#define ROWS 4
#define TARGET
#define NAME(name) name##_float_128
#include "tile.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define CHOOSE(REAL, ...)                                                             \
    int bytes = bytes_of_processor();                                                 \
    if (bytes == 64) multiply_##REAL##_512(__VA_ARGS__);                              \
    else if (bytes == 32) multiply_##REAL##_256(__VA_ARGS__);                         \
    else multiply_##REAL##_128(__VA_ARGS__);
#else
#define CHOOSE(REAL, ...) multiply_##REAL##_128(__VA_ARGS__);
#endif

void multiply_double(const Matrix *matrix, int64_t count, const double *table, const int64_t *ids, int64_t stride,
                     double *products, int64_t products_stride) {
    CHOOSE(double, matrix, count, table, ids, stride, products, products_stride)
}

void multiply_float(const Matrix *matrix, int64_t count, const float *table, const int64_t *ids, int64_t stride,
                    float *products, int64_t products_stride) {
    CHOOSE(float, matrix, count, table, ids, stride, products, products_stride)
}

EXPORT void matrix_close(Matrix *matrix) {
    if (!matrix) return;
    free(matrix->panels);
    free(matrix);
}

/* A matrix [depth, width] of numbers of `size` bytes, and what is added to each product [width]. */
EXPORT Matrix *matrix_open(int64_t depth, int64_t width, int64_t size, const char *numbers, const char *added) {
    int64_t panel = 2 * bytes_of_processor() / size, panels = (width + panel - 1) / panel;
    int64_t room = panels * (1 + depth) * panel * size;
    Matrix *matrix = calloc(1, sizeof(Matrix));
    if (!matrix) return NULL;
    *matrix = (Matrix){depth, width, aligned_alloc(ALIGNED, (size_t)((room + ALIGNED) / ALIGNED * ALIGNED))};
    if (!matrix->panels) {
        free(matrix);
        return NULL;
    }
    memset(matrix->panels, 0, (size_t)room);
    char *to = matrix->panels;
    for (int64_t first = 0; first < width; first += panel)
        for (int64_t row = -1; row < depth; row++, to += panel * size) {
            int64_t left = width - first, some = left < panel ? left : panel;
            memcpy(to, (row < 0 ? added : numbers + row * width * size) + first * size, (size_t)(some * size));
        }
    return matrix;
}

/* The same for Python: numbers of `size` bytes. */
EXPORT void matrix_multiply(const Matrix *matrix, int64_t size, int64_t count, const void *table, const int64_t *ids,
                            int64_t stride, void *products, int64_t products_stride) {
    if (size == sizeof(double)) multiply_double(matrix, count, table, ids, stride, products, products_stride);
    else multiply_float(matrix, count, table, ids, stride, products, products_stride);
}
