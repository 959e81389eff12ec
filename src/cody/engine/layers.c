/* The layers of attention, compiled: which rows of numbers are known (`PureRows`), which events a node attends to
   (`Windows._choose`), and what it makes of them (`Attention._attend`). Called by layers.py, which says what is computed
   and why. Like follow.c, it knows nothing of Python, and nothing in it may depend on the processor. */

#include <stdlib.h>
#include <string.h>

#include "numbers.h"

/* ---- rows of numbers, numbered as they come ---- */

typedef struct {
    int64_t width, count, room, bucket_count;
    uint64_t *rows;   /* [room, width] */
    int32_t *buckets; /* numbers by hash, NONE where free */
} Rows;

static uint64_t hash_of(const uint64_t *row, int64_t width) {
    uint64_t mixed = 0;
    for (int64_t place = 0; place < width; place++) {
        mixed = (mixed ^ row[place]) * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 32;
    }
    return mixed;
}

/* Where a row stands among the buckets, or where it would. */
static uint64_t bucket_of(const Rows *rows, const uint64_t *row) {
    uint64_t last = (uint64_t)rows->bucket_count - 1, bucket = hash_of(row, rows->width) & last;
    size_t size = (size_t)rows->width * sizeof(uint64_t);
    while (rows->buckets[bucket] != NONE && memcmp(rows->rows + rows->buckets[bucket] * rows->width, row, size))
        bucket = (bucket + 1) & last;
    return bucket;
}

static int set_buckets(Rows *rows, int64_t count) {
    int32_t *buckets = malloc((size_t)count * sizeof(int32_t));
    if (!buckets) return 0;
    for (int64_t place = 0; place < count; place++) buckets[place] = NONE;
    free(rows->buckets);
    rows->buckets = buckets;
    rows->bucket_count = count;
    for (int64_t number = 0; number < rows->count; number++)
        buckets[bucket_of(rows, rows->rows + number * rows->width)] = (int32_t)number;
    return 1;
}

EXPORT void rows_close(Rows *rows) {
    if (!rows) return;
    free(rows->rows);
    free(rows->buckets);
    free(rows);
}

EXPORT Rows *rows_open(int64_t width) {
    Rows *rows = calloc(1, sizeof(Rows));
    if (!rows) return NULL;
    rows->width = width;
    if (set_buckets(rows, 1024)) return rows;
    rows_close(rows);
    return NULL;
}

/* Room for one row more. */
static int grow(Rows *rows) {
    if (2 * rows->count >= rows->bucket_count && !set_buckets(rows, 4 * rows->bucket_count)) return 0;
    if (rows->count < rows->room) return 1;
    int64_t room = rows->room ? 2 * rows->room : 512;
    uint64_t *moved = realloc(rows->rows, (size_t)(room * rows->width) * sizeof(uint64_t));
    if (!moved) return 0;
    rows->rows = moved;
    rows->room = room;
    return 1;
}

/* The numbers of rows; those that are new are numbered in turn. `fresh`: where they stand first. [count] each
   → how many are new */
EXPORT int64_t rows_find(Rows *rows, int64_t count, const uint64_t *wanted, int64_t *numbers, int64_t *fresh) {
    int64_t known = rows->count;
    for (int64_t place = 0; place < count; place++) {
        const uint64_t *row = wanted + place * rows->width;
        uint64_t bucket = bucket_of(rows, row);
        if (rows->buckets[bucket] == NONE) {
            if (!grow(rows)) return NO_ROOM;
            memcpy(rows->rows + rows->count * rows->width, row, (size_t)rows->width * sizeof(uint64_t));
            fresh[rows->count - known] = place;
            bucket = bucket_of(rows, row);
            rows->buckets[bucket] = (int32_t)rows->count++;
        }
        numbers[place] = rows->buckets[bucket];
    }
    return rows->count - known;
}

/* ---- which events a node attends to ---- */

/* The latest `most` events of nodes under masks, as places in tables of `length` events for each node; how many.
   [count, most], one node after the other without gaps; [count] → how many in all */
EXPORT int64_t windows_choose(int64_t count, int64_t words, int64_t length, int64_t most, const uint8_t *by_default,
                              const int64_t *bits, const int64_t *nodes, const uint64_t *masks, int64_t *places,
                              int64_t *lengths) {
    int64_t chosen = 0;
    for (int64_t which = 0; which < count; which++) {
        const uint64_t *mask = masks + which * words;
        int64_t first = chosen, place = nodes[which] * length, stop = place + length;
        for (; place < stop && chosen - first < most; place++) {
            int64_t bit = bits[place];
            places[chosen] = place;
            chosen += by_default[place] ^ (bit >= 0 && mask[bit / 64] >> bit % 64 & 1);
        }
        lengths[which] = chosen - first;
    }
    return chosen;
}

/* ---- attention ---- */

enum { LANES = 16 }; /* sums that grow side by side, so that compilers turn them into vectors */

/* The parts of an event, side by side: a table of vectors each, and where those of a node stand in it. */
typedef struct {
    const double *table; /* [*, width] */
    const int64_t *ids;  /* `ids_stride` from one node to the next */
    int64_t width, ids_stride;
} Source;

static inline double dot(const double *restrict one, const double *restrict other, int64_t width) {
    double sums[LANES], rest = 0.0;
    int64_t place = 0;
    for (int lane = 0; lane < LANES; lane++) sums[lane] = 0.0;
    for (; place + LANES <= width; place += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += one[place + lane] * other[place + lane];
    for (; place + LANES / 4 <= width; place += LANES / 4)
        for (int lane = 0; lane < LANES / 4; lane++) sums[lane] += one[place + lane] * other[place + lane];
    for (; place < width; place++) rest += one[place] * other[place];
    for (int lane = 0; lane < LANES / 2; lane++) sums[lane] += sums[lane + LANES / 2];
    for (int lane = 0; lane < LANES / 4; lane++) sums[lane] += sums[lane + LANES / 4];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest;
}

/* Scores to shares that add up to 1; where a score is not finite, to what is none either. */
static inline void softmax(double *scores, int64_t length) {
    double most = scores[0], sum = 0.0, strange = 0.0;
    for (int64_t place = 1; place < length; place++) most = scores[place] > most ? scores[place] : most;
    for (int64_t place = 0; place < length; place++) strange += (scores[place] - most) * 0.0;
    for (int64_t place = 0; place < length; place++) scores[place] = exp_double(scores[place] - most);
    for (int64_t place = 0; place < length; place++) sum += scores[place];
    for (int64_t place = 0; place < length; place++) scores[place] = scores[place] / sum + strange;
}

/* Add to a sum four vectors, each times its share. [width] */
static inline void add_four(const double *const *vectors, const double *shares, int64_t width, double *restrict sum) {
    const double *restrict v = vectors[0], *restrict w = vectors[1], *restrict x = vectors[2], *restrict y = vectors[3];
    double p = shares[0], q = shares[1], r = shares[2], s = shares[3];
    for (int64_t column = 0; column < width; column++)
        sum[column] += (v[column] * p + w[column] * q) + (x[column] * r + y[column] * s);
}

static inline void add_one(const double *restrict vector, double share, int64_t width, double *restrict sum) {
    for (int64_t column = 0; column < width; column++) sum[column] += vector[column] * share;
}

/* What nodes see of the events they attend to: a weighted sum for each head. → `seen` [count, heads · width]

   `questions`: of a node, one for each head, as wide as an event. `shares`: room for [heads, most] numbers. A vector is
   read for all heads while it is in the cache. */
FOR_EACH_PROCESSOR static void attend_to(int64_t count, int64_t heads, int64_t width, int64_t most,
                                         const Source *questions, const Source *sources, int64_t source_count,
                                         const int64_t *lengths, double *shares, double *seen) {
    for (int64_t node = 0; node < count; node++, seen += heads * width) {
        const double *asked = questions->table + questions->ids[node * questions->ids_stride] * questions->width;
        int64_t length = lengths[node], column = 0;
        memset(shares, 0, (size_t)(heads * most) * sizeof(double));
        memset(seen, 0, (size_t)(heads * width) * sizeof(double));
        for (const Source *source = sources; source < sources + source_count; column += source->width, source++)
            for (int64_t place = 0; place < length; place++) {
                const double *vector = source->table + source->ids[node * source->ids_stride + place] * source->width;
                for (int64_t head = 0; head < heads; head++)
                    shares[head * most + place] += dot(asked + head * width + column, vector, source->width);
            }
        for (int64_t head = 0; head < heads && length; head++) softmax(shares + head * most, length);
        column = 0;
        for (const Source *source = sources; source < sources + source_count; column += source->width, source++) {
            const int64_t *ids = source->ids + node * source->ids_stride;
            int64_t place = 0;
            for (; place + 4 <= length; place += 4) {
                const double *vectors[4];
                for (int next = 0; next < 4; next++) vectors[next] = source->table + ids[place + next] * source->width;
                for (int64_t head = 0; head < heads; head++)
                    add_four(vectors, shares + head * most + place, source->width, seen + head * width + column);
            }
            for (; place < length; place++)
                for (int64_t head = 0; head < heads; head++)
                    add_one(source->table + ids[place] * source->width, shares[head * most + place], source->width,
                            seen + head * width + column);
        }
    }
}

EXPORT void attend(int64_t count, int64_t heads, int64_t width, int64_t most, const Source *questions,
                   const Source *sources, int64_t source_count, const int64_t *lengths, double *shares, double *seen) {
    attend_to(count, heads, width, most, questions, sources, source_count, lengths, shares, seen);
}
