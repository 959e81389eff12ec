/* A few rows times a panel of columns, for one kind of number and of processor: products.c sets REAL, LANES, ROWS,
   TARGET and NAME, and includes this once for each. The sums stay in registers, and each is taken in the order
   of the depth, so a product does not depend on how many rows are multiplied together. */

typedef REAL NAME(Lanes) __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

TARGET static inline __attribute__((always_inline)) void NAME(tile)(const int rows, int64_t depth,
                                                                    const REAL *const *from, const REAL *panel,
                                                                    REAL *const *to, int64_t width) {
    NAME(Lanes) left[ROWS], right[ROWS];
    for (int row = 0; row < rows; row++) { /* what is added stands first */
        left[row] = *(const NAME(Lanes) *)panel;
        right[row] = *(const NAME(Lanes) *)(panel + LANES);
    }
    for (int64_t place = 0; place < depth; place++) {
        panel += 2 * LANES;
        NAME(Lanes) one = *(const NAME(Lanes) *)panel, other = *(const NAME(Lanes) *)(panel + LANES);
        for (int row = 0; row < rows; row++) {
            REAL number = from[row][place];
            left[row] += one * number;
            right[row] += other * number;
        }
    }
    for (int row = 0; row < rows; row++) {
        REAL both[2 * LANES], *into = width == 2 * LANES ? to[row] : both;
        *(NAME(Lanes) *)into = left[row];
        *(NAME(Lanes) *)(into + LANES) = right[row];
        if (into == both) memcpy(to[row], both, (size_t)width * sizeof(REAL));
    }
}

TARGET static void NAME(multiply)(const Matrix *matrix, int64_t count, const REAL *table, const int64_t *ids,
                                  int64_t stride, REAL *products, int64_t products_stride) {
    const REAL *panel = matrix->panels;
    int64_t depth = matrix->depth, panel_width = 2 * LANES;
    for (int64_t first = 0; first < matrix->width; first += panel_width, panel += (1 + depth) * panel_width) {
        int64_t left = matrix->width - first, width = left < panel_width ? left : panel_width;
        for (int64_t row = 0, some; row < count; row += some) {
            const REAL *from[ROWS];
            REAL *to[ROWS];
            int64_t tiles = (count - row + ROWS - 1) / ROWS;
            some = (count - row + tiles - 1) / tiles; /* about the same in each */
            for (int64_t next = 0; next < some; next++) {
                from[next] = table + (ids ? ids[row + next] : row + next) * stride;
                to[next] = products + (row + next) * products_stride + first;
            }
            switch (some) {
#define CASE(rows) case rows: NAME(tile)(rows, depth, from, panel, to, width); break;
                CASE(1) CASE(2) CASE(3) CASE(4)
#if ROWS > 4
                CASE(5) CASE(6)
#endif
#if ROWS > 6
                CASE(7) CASE(8)
#endif
#undef CASE
            }
        }
    }
}

#undef REAL
#undef LANES
#undef ROWS
#undef TARGET
#undef NAME
