/* The layers of attention, compiled: which rows of numbers are known (`PureRows`), the steps of a layer (`Layer` in
   layer.py), encodings of times (`Weights.encode`), and what a node makes of its events (`Attention._look`). Called
   from Python, which says what is computed and why. Like follow.c, it knows nothing of Python, and nothing in it may
   depend on the processor. */

#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "products.h"

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

/* How many rows there are; they are written to `all`, where that is given. [count, width] */
EXPORT int64_t rows_all(const Rows *rows, uint64_t *all) {
    if (all) memcpy(all, rows->rows, (size_t)(rows->count * rows->width) * sizeof(uint64_t));
    return rows->count;
}

/* ---- which events a node attends to ---- */

/* The latest `most` events of nodes under masks, as places in tables of `length` events for each node; how many.
   [count, most], one node after the other without gaps; [count] → how many in all */
static int64_t windows_choose(int64_t count, int64_t words, int64_t length, int64_t most, const uint8_t *by_default,
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

/* ---- the steps of a layer ---- */

/* What is requested of a layer: nodes, their masks, and the change that each mask belongs to. */
typedef struct {
    int64_t *nodes, *changes;
    uint64_t *masks; /* [*, words] */
} Requests;

/* The numbers of nodes under the part of their masks that they depend on; where new ones stand first. `row`: room for
   1 + words numbers. [count] each → how many are new */
EXPORT int64_t layer_find(Rows *known, int64_t count, int64_t words, const int64_t *nodes, const uint64_t *masks,
                          const uint64_t *depends, uint64_t *row, int64_t *numbers, int64_t *fresh) {
    int64_t before = known->count, ignored;
    for (int64_t place = 0; place < count; place++) {
        int64_t seen = known->count;
        row[0] = (uint64_t)nodes[place];
        for (int64_t word = 0; word < words; word++)
            row[1 + word] = masks[place * words + word] & depends[nodes[place] * words + word];
        if (rows_find(known, 1, row, numbers + place, &ignored) == NO_ROOM) return NO_ROOM;
        if (known->count > seen) fresh[seen - before] = place;
    }
    return known->count - before;
}

/* A layer of attention of a query, as `CompiledLayer` has it. L = length of the windows, K = `most`. */
typedef struct {
    int64_t words, length, most, heads, width; /* of masks, L, K, of attention, of an event with its neighbour */
    const uint8_t *by_default;                 /* [n, L] see `Windows` */
    const int64_t *bits, *others, *events;     /* [n, L] */
    const int64_t *window;                     /* [nodes] which of the n windows is a node's */
    const uint64_t *depends;                   /* [nodes, words] */
    int64_t *event_slots;                      /* [events] where the vector of an event stands; NONE: nowhere yet */
    uint64_t *row;                             /* room for 1 + words numbers */
    double *shares, *seen;                     /* room for [heads, K], [AT_ONCE, heads * width] */
    Rows *known, *made_of;
    const Matrix *to_questions, *to_answers;
    const double *question;                    /* of every node, where all vectors below are zero */
} Layer;

enum { AT_ONCE = 128 }; /* nodes whose sums of events stay in the cache */

/* What is to be made, and of what: room for `count` numbers each, and for as many times K, 1 + K or 1 + 2K. */
typedef struct {
    int64_t *places, *lengths, *missing; /* the events, one node after the other; how many; those without a vector yet */
    Requests below;
    int64_t *parts, *part_lengths;       /* what vectors are made of, with how many neighbours */
    int64_t *made, *slots, *room;        /* their numbers, where their questions stand, and room */
    int64_t missing_count, event_count;  /* events that have no vector yet; all, these included */
} Plan;

static void request(const Requests *below, int64_t to, int64_t node, int64_t change, const uint64_t *mask, int64_t words) {
    below->nodes[to] = node;
    below->changes[to] = change;
    memcpy(below->masks + to * words, mask, (size_t)words * sizeof(uint64_t));
}

/* Which events the vectors that are new attend to, `count` of them, and what they need of the layer below: first the nodes
   themselves, then the other ends of their events, one node after the other. `fresh`: where they stand in `asked`. */
EXPORT int64_t layer_plan(const Layer *layer, int64_t count, const Requests *asked, const int64_t *fresh, Plan *plan) {
    int64_t words = layer->words, chosen = 0;
    plan->missing_count = 0;
    for (int64_t which = 0; which < count; which++) {
        int64_t from = fresh[which], node = asked->nodes[from], *places = plan->places + chosen;
        for (int64_t word = 0; word < words; word++)
            layer->row[word] = asked->masks[from * words + word] & layer->depends[node * words + word];
        request(&plan->below, which, node, asked->changes[from], layer->row, words);
        windows_choose(1, words, layer->length, layer->most, layer->by_default, layer->bits, layer->window + node,
                       layer->row, places, plan->lengths + which);
        for (int64_t place = 0; place < plan->lengths[which]; place++) {
            int64_t *slot = layer->event_slots + layer->events[places[place]];
            if (*slot == NONE) {
                plan->missing[plan->missing_count++] = layer->events[places[place]];
                *slot = plan->event_count++;
            }
            request(&plan->below, count + chosen++, layer->others[places[place]], asked->changes[from], layer->row, words);
        }
    }
    return count + chosen;
}

/* ---- links that are only scored ---- */

/* The events of each node, in a log as it is. */
typedef struct {
    const int32_t *src, *dst;           /* [rows] */
    const int64_t *offsets, *incidence; /* rows of each node, ascending */
    int64_t nodes, rows;                /* how many there are */
} Histories;

/* The place in `incidence` just after the last row of a node below `before`. */
static int64_t end_of(const Histories *log, int64_t node, int64_t before) {
    int64_t low = log->offsets[node], high = log->offsets[node + 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (log->incidence[middle] < before) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The last row of each node below `before`, or NONE. [count] each */
EXPORT int64_t histories_latest(const int64_t *offsets, const int64_t *incidence, int64_t count, const int64_t *nodes,
                                const int64_t *before, int64_t *rows) {
    const Histories log = {.offsets = offsets, .incidence = incidence};
    for (int64_t which = 0; which < count; which++) {
        int64_t end = end_of(&log, nodes[which], before[which]);
        rows[which] = end > offsets[nodes[which]] ? incidence[end - 1] : NONE;
    }
    return count;
}

/* What nodes at moments attend to: their latest events, and the other ends of these at the same moment.

   `keys`: moment · nodes + node; of events moment · rows + row. `below` and `events` get the keys that are needed, each
   once, and the ids are their numbers: of the nodes themselves, [count], of their neighbours and events, [count, most],
   0 where there is none. `before`: of each moment. */
EXPORT int64_t histories_attended(const Histories *log, Rows *below, Rows *events, int64_t count, int64_t most,
                                  const int64_t *keys, const int64_t *before, int64_t *own, int64_t *neighbours,
                                  int64_t *event_ids, int64_t *lengths) {
    int64_t ignored[1];
    memset(neighbours, 0, (size_t)(count * most) * sizeof(int64_t));
    memset(event_ids, 0, (size_t)(count * most) * sizeof(int64_t));
    for (int64_t which = 0; which < count; which++, neighbours += most, event_ids += most) {
        int64_t moment = keys[which] / log->nodes, node = keys[which] % log->nodes;
        int64_t end = end_of(log, node, before[moment]), length = end - log->offsets[node];
        lengths[which] = length = length < most ? length : most;
        if (rows_find(below, 1, (const uint64_t *)keys + which, own + which, ignored) == NO_ROOM) return NO_ROOM;
        for (int64_t place = 0; place < length; place++) {
            int64_t row = log->incidence[end - 1 - place];
            uint64_t event = (uint64_t)(moment * log->rows + row);
            uint64_t other = (uint64_t)(moment * log->nodes + log->src[row] + log->dst[row] - node);
            if (rows_find(events, 1, &event, event_ids + place, ignored) == NO_ROOM) return NO_ROOM;
            if (rows_find(below, 1, &other, neighbours + place, ignored) == NO_ROOM) return NO_ROOM;
        }
    }
    return count;
}

/* ---- versions in a table ---- */

/* `checksums` in versions.py, without what is added to each. [count, width] → [count] */
FOR_EACH_PROCESSOR static uint64_t weighted_sum(int64_t width, const uint32_t *words, const uint64_t *weights) {
    uint64_t sum = 0;
    for (int64_t place = 0; place < width; place++) sum += words[place] * weights[place];
    return sum;
}

/* Copies of rows of a table, each of `width` words and a checksum. `added`: to each checksum. → how many are wrong */
EXPORT int64_t versions_read(const uint32_t *table, int64_t width, const uint64_t *weights, int64_t count,
                             const int64_t *index, const uint64_t *added, uint32_t *words) {
    int64_t wrong = 0;
    for (int64_t which = 0; which < count; which++, words += width) {
        const uint32_t *row = table + index[which] * (width + 2);
        uint64_t stored;
        memcpy(words, row, (size_t)width * sizeof(uint32_t));
        memcpy(&stored, row + width, sizeof(uint64_t));
        wrong += stored != weighted_sum(width, words, weights) + added[which];
    }
    return wrong;
}

/* ---- encodings of times ---- */

/* Cosines of times, each times frequencies plus phases in single precision, `stride` apart. [count, width] */
FOR_EACH_PROCESSOR static void encode_all(int64_t count, int64_t width, const float *restrict times,
                                          const float *restrict frequency, const float *restrict phase,
                                          double *restrict encoded, int64_t stride) {
    for (int64_t which = 0; which < count; which++, encoded += stride) {
        float time = times[which];
        for (int64_t column = 0; column < width; column++)
            encoded[column] = cos_of_float(time * frequency[column] + phase[column]);
    }
}

static float largest_of(const float *numbers, int64_t count) {
    float largest = 0.0f;
    for (int64_t place = 0; place < count; place++) {
        float size = numbers[place] < 0.0f ? -numbers[place] : numbers[place];
        largest = size > largest ? size : largest;
    }
    return largest;
}

/* The same, and 1; or 0 where an angle may be too large, and nothing is encoded. */
EXPORT int64_t encode(int64_t count, int64_t width, const float *times, const float *frequency, const float *phase,
                      double *encoded, int64_t stride) {
    float largest = largest_of(times, count) * largest_of(frequency, width) + largest_of(phase, width);
    if (!(largest <= LARGEST_ANGLE)) return 0;
    encode_all(count, width, times, frequency, phase, encoded, stride);
    return 1;
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

/* ---- products that are computed once ---- */

/* Products of the vectors of a table with a matrix. */
typedef struct {
    double *products; /* [*, width] */
    int64_t *slots;   /* by id of the vector: where its product stands, or NONE */
    int64_t count;    /* how many products there are; there is room for more */
} Products;

/* Where the products of vectors stand; those that are missing are computed. `fresh`: room for `count` ids. */
static void find_products(const Matrix *matrix, Products *known, const double *table, int64_t stride, int64_t count,
                          const int64_t *ids, int64_t ids_stride, int64_t *slots, int64_t *fresh) {
    int64_t first = known->count;
    for (int64_t which = 0; which < count; which++) {
        int64_t id = ids[which * ids_stride], *slot = known->slots + id;
        if (*slot == NONE) {
            fresh[known->count - first] = id;
            *slot = known->count++;
        }
        slots[which] = *slot;
    }
    multiply_double(matrix, known->count - first, table, fresh, stride, known->products + first * matrix->width,
                    matrix->width);
}

/* ---- what a layer makes ---- */

/* The numbers of vectors by what they are made of: the ids of vectors below (`ids`, in the order of the plan), and
   where the vectors of events stand. The parts of those that are new stand one after the other, with how many neighbours
   they have. → how many are new */
static int64_t find_made(const Layer *layer, int64_t count, const Plan *plan, const int64_t *ids) {
    int64_t before = layer->made_of->count, most = layer->most, ignored;
    const int64_t *neighbours = ids + count, *places = plan->places;
    for (int64_t which = 0; which < count; which++) {
        int64_t new = layer->made_of->count - before, length = plan->lengths[which];
        int64_t *own = plan->parts + new * (1 + 2 * most);
        for (int64_t place = 0; place < 1 + 2 * most; place++) own[place] = NONE;
        own[0] = ids[which];
        for (int64_t place = 0; place < length; place++) {
            own[1 + place] = *neighbours++;
            own[1 + most + place] = layer->event_slots[layer->events[*places++]];
        }
        plan->part_lengths[new] = length;
        if (rows_find(layer->made_of, 1, (const uint64_t *)own, plan->made + which, &ignored) == NO_ROOM) return NO_ROOM;
    }
    return layer->made_of->count - before;
}

/* The tables that a layer reads and writes; there is room for all that is planned. */
typedef struct {
    const double *below, *events; /* vectors; the first is NULL where all of them are zero */
    int64_t below_width, event_width;
    Products questions; /* [*, heads * width + d] */
    double *vectors;    /* [*, d] of this layer */
    int64_t vector_count;
    int64_t *ids;       /* of the vector, by number of node and mask */
    int64_t id_count;
} Tables;

/* Hidden layers, from products of what was seen: without events, nothing was seen. */
static void finish(int64_t count, int64_t d, const int64_t *lengths, const double *questions, const int64_t *slots,
                   int64_t width, double *vectors) {
    for (int64_t which = 0; which < count; which++, vectors += d) {
        const double *own = questions + slots[which] * width + width - d;
        for (int64_t column = 0; column < d; column++) {
            double sum = (lengths[which] ? vectors[column] : 0.0) + own[column];
            vectors[column] = sum < 0.0 ? 0.0 : sum;
        }
    }
}

/* Make vectors of the parts of a plan, `count` of them. */
static void make(const Layer *layer, int64_t count, const Plan *plan, Tables *tables) {
    int64_t stride = 1 + 2 * layer->most, d = layer->to_answers->width, width = layer->heads * layer->width;
    if (tables->below)
        find_products(layer->to_questions, &tables->questions, tables->below, tables->below_width, count, plan->parts,
                      stride, plan->slots, plan->room);
    else memset(plan->slots, 0, (size_t)count * sizeof(int64_t));
    const double *questions = tables->below ? tables->questions.products : layer->question;
    for (int64_t first = 0; first < count; first += AT_ONCE) {
        int64_t some = count - first < AT_ONCE ? count - first : AT_ONCE, *from = plan->parts + first * stride;
        double *vectors = tables->vectors + tables->vector_count * d;
        Source asked = {questions, plan->slots + first, width + d, 1};
        Source sources[] = {{tables->below, from + 1, tables->below_width, stride},
                            {tables->events, from + 1 + layer->most, tables->event_width, stride}};
        int skipped = !tables->below;
        attend_to(some, layer->heads, layer->width, layer->most, &asked, sources + skipped, 2 - skipped,
                  plan->part_lengths + first, layer->shares, layer->seen);
        multiply_double(layer->to_answers, some, layer->seen, NULL, width, vectors, d);
        finish(some, d, plan->part_lengths + first, questions, plan->slots + first, width + d, vectors);
        tables->vector_count += some;
    }
}

/* Make what was planned, `count` vectors, from the vectors below (`ids`, in the order of the plan). `numbers`: of all that
   was requested, by node and mask; they are replaced by ids. → how many were not made before */
EXPORT int64_t layer_compute(const Layer *layer, int64_t asked, int64_t *numbers, int64_t count, const Plan *plan,
                             const int64_t *ids, Tables *tables) {
    int64_t made = find_made(layer, count, plan, ids);
    if (made < 0) return made;
    if (made) make(layer, made, plan, tables);
    memcpy(tables->ids + tables->id_count, plan->made, (size_t)count * sizeof(int64_t));
    tables->id_count += count;
    for (int64_t which = 0; which < asked; which++) numbers[which] = tables->ids[numbers[which]];
    return made;
}

/* ---- scores of links ---- */

/* See `Decoder`; `out`: of each class. */
typedef struct {
    const Matrix *source, *target;
    const double *bias, *out, *out_bias; /* [d], [classes, d], [classes] */
    int64_t classes;
} Decoder;

FOR_EACH_PROCESSOR static void decode(const Decoder *decoder, int64_t count, const double *sources,
                                      const int64_t *source_slots, const double *targets, const int64_t *target_slots,
                                      double *hidden, double *scores) {
    int64_t d = decoder->source->width;
    for (int64_t which = 0; which < count; which++) {
        const double *source = sources + source_slots[which] * d, *target = targets + target_slots[which] * d;
        for (int64_t column = 0; column < d; column++) {
            double sum = source[column] + target[column] + decoder->bias[column];
            hidden[column] = sum < 0.0 ? 0.0 : sum;
        }
        for (int64_t class = 0; class < decoder->classes; class++)
            *scores++ = dot(hidden, decoder->out + class * d, d) + decoder->out_bias[class];
    }
}

/* The scores of links between vectors of a table. `room`: for [3, count] ids; `hidden`: for d numbers.
   → [count, classes] */
EXPORT int64_t links_score(const Decoder *decoder, const double *table, int64_t stride, Products *sources,
                           Products *targets, int64_t count, const int64_t *source_ids, const int64_t *target_ids,
                           int64_t *room, double *hidden, double *scores) {
    int64_t *fresh = room + 2 * count;
    find_products(decoder->source, sources, table, stride, count, source_ids, 1, room, fresh);
    find_products(decoder->target, targets, table, stride, count, target_ids, 1, room + count, fresh);
    decode(decoder, count, sources->products, room, targets->products, room + count, hidden, scores);
    return count;
}
