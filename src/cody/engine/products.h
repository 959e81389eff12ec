/* Products with matrices that are used again and again: products.c. */

#include <stdint.h>

/* A matrix, and what is added to each product, laid out for the processor. */
typedef struct {
    int64_t depth, width; /* of vectors, of products */
    void *panels;
} Matrix;

/* The products of the vectors `ids` of a table, or of its first ones where there are no ids. */
void multiply_double(const Matrix *matrix, int64_t count, const double *table, const int64_t *ids, int64_t stride,
                     double *products, int64_t products_stride);
void multiply_float(const Matrix *matrix, int64_t count, const float *table, const int64_t *ids, int64_t stride,
                    float *products, int64_t products_stride);
