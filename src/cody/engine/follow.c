/* Following changes of the past through versions of memories: the compiled form of `PureFollow` in memory.py, and of
   `_trace` and `_dependencies` in lineage.py.

   These functions say what is computed and why. Here the bookkeeping of one level of versions is a loop instead of some
   dozens of calls of numpy; compiled.py calls it level by level. It knows nothing of Python: it is a plain library,
   loaded with ctypes.

   Nothing here may depend on the processor: no -march, no -ffast-math, no contraction of products and sums. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "products.h"

enum { UNCHANGED = 0, PENDING = INT32_MIN };
enum { DONE, LEFT, FULL, EVENTS };    /* what `follow_compute` returns */
enum { MOST_COMPARED = 256 };         /* values of a version that a new one is compared with, the latest first */

/* What events add to the gates. It is the same for all changes, unless they change the time since, and for all sessions
   about the same versions. F = features of an event, T = width of an encoded time. */
typedef struct {
    int64_t capacity, used;
    int32_t *head, *next;                         /* [V], [capacity] the parts of a version */
    double *elapsed;                              /* [capacity] */
    void *parts;                                  /* [capacity, 3d] */
    const int64_t *message;                       /* [V] the row of the event */
    const float *features;                        /* [rows, F] */
    int64_t feature_count, rows;                  /* F, and of how many events */
    const float *frequency, *phase;               /* [T]; none where only compiled.py can encode times */
    const Matrix *matrix;                         /* [F + T, 3d] */
    float *times;                                 /* [at_once] */
    double *encoded;                              /* [at_once, T] */
    void *inputs;                                 /* [at_once, F + T] */
} Events;

/* What compiled.py passes, in the same order; every field takes 8 bytes. V = versions, d = dimensions of a memory. */
typedef struct {
    int64_t versions, events, dimensions, levels, capacity, at_once;
    const int64_t *own, *other, *previous, *bit;  /* [V] see `Lineage` */
    const int64_t *usual_own, *usual_other;       /* [V] parents with nothing changed */
    const int64_t *index;                         /* [V] place in the table */
    const double *time;                           /* [V] of the event */
    const uint8_t *imagined;                      /* [V] */
    const int64_t *children, *child_start, *child_count;
    const int64_t *affected, *affected_start, *affected_count; /* by event: versions that its change affects first */
    const int64_t *order, *level_start;           /* versions, lowest level first; [levels + 1] */
    int64_t *usual;                               /* [V] id of the memory with nothing changed, -1 until it is read */
    const uint32_t *table;                        /* rows of `row_words` words: values, then a checksum of two words */
    int64_t row_words, table_rows;
    const uint64_t *checksum_weights;             /* [row_words - 2] */
    uint64_t key;
    int64_t table_is_double, memory_is_double, gates_are_double;
    int64_t shares;                               /* whether values that differ by at most `most` are the same */
    double most;
    const double *direction;                      /* [d] see `NearDuplicates` */
    void *gathered_own, *gathered_other;          /* [at_once, d] memories whose products are missing */
    const Matrix *own_matrix, *other_matrix;
    void *own_parts, *other_parts;                /* [capacity, 4d], [capacity, 3d] */
    Events *event_parts;
    const void *kept_bias;                        /* [d] */
    int64_t *new_versions;                        /* [at_once] of events whose part is missing */
    double *new_elapsed;                          /* [at_once] */
} Setup;

/* The memories of a session, by id; both sides append. */
typedef struct {
    void *values;     /* [room, d] */
    double *written;  /* [room] when */
    int64_t length, room;
} Memories;

/* The log of real events, for `lineage_trace`. The index of a version is 2 · row, or 2 · row + 1. */
typedef struct {
    const int32_t *src, *dst;            /* [E] */
    const int64_t *offsets, *incidence;  /* rows of each node, ascending */
    const int64_t *events;               /* that may be changed, ascending */
    int64_t event_count, batch, oldest;
    uint64_t *seen;                      /* [words] a bit for each version: whether it is one of them */
    int64_t words;
} Log;

/* What events add that is to be computed: parts `first` to `first + count`. */
typedef struct { int64_t first, count; } Missing;

typedef struct { int32_t version, own, other, id; } Content;  /* of which parents a version is made; an id, or -place */
typedef struct { uint32_t tag; int32_t place; } Bucket;       /* bits of the hash of a content, and which; NONE: free */

/* Changes that are followed together are bits, 64 of them in a word. */
typedef struct { int64_t cell, content; uint64_t changes; } Reached; /* what a version is made of under some of a word */
typedef struct { uint64_t changes; int64_t id; } Value;              /* under which changes of a word it has this value */

typedef struct {
    Setup s;
    Content *contents;
    Bucket *buckets;   /* contents by hash, those of a version near each other */
    int64_t content_count, content_room, bucket_count;
    const uint64_t *masks;
    int64_t changes, mask_words, change_words, cells;
    uint64_t *needed;             /* [V, change_words] whether an answer may depend on the version under a change */
    uint64_t *waiting, *changed;  /* [V, change_words] */
    int64_t *first_value;         /* [V, change_words] where the changed values of a cell begin; they add up to `changed` */
    Value *values;
    int64_t value_count, value_room;
    Reached *reached; /* on this level */
    int64_t reached_count, reached_room;
    uint8_t *busy;     /* [levels] */
    int32_t *level_of; /* [V] */
    int64_t level, computed, chunk; /* `chunk` contents are prepared */
    int32_t *own_slot, *other_slot, *alike_next;  /* [slot_room] by id of the memory */
    double *point, point_reach;                   /* points of values that are nearly the same are as near as this */
    int64_t slot_room, own_used, other_used;
    int32_t *alike_head; /* [V] */
    int32_t *own_id, *other_id, *event_slot; /* [at_once] */
    double *value, *usual_value;             /* [d] */
} Follow;

/* ---- arrays that grow ---- */

static int grow(void **array, int64_t *room, int64_t wanted, size_t size) {
    if (wanted <= *room) return 1;
    int64_t larger = *room * 2 > wanted ? *room * 2 : wanted;
    void *moved = realloc(*array, (size_t)larger * size);
    if (!moved) return 0;
    *array = moved;
    *room = larger;
    return 1;
}

static int32_t *filled(int32_t *array, int64_t from, int64_t to) {
    for (int64_t place = from; place < to; place++) array[place] = NONE;
    return array;
}

static int32_t *nones(int64_t count) {
    int32_t *array = malloc((size_t)(count + 1) * sizeof(int32_t));
    return array ? filled(array, 0, count) : NULL;
}

static Bucket *free_buckets(int64_t count) {
    Bucket *buckets = malloc((size_t)count * sizeof(Bucket));
    for (int64_t place = 0; buckets && place < count; place++) buckets[place] = (Bucket){0, NONE};
    return buckets;
}

static int grow_slots(Follow *f, int64_t room) {
    int32_t **columns[] = {&f->own_slot, &f->other_slot, &f->alike_next};
    if (room <= f->slot_room) return 1;
    if (room < 2 * f->slot_room) room = 2 * f->slot_room;
    for (int column = 0; column < 3; column++) {
        int32_t *moved = realloc(*columns[column], (size_t)room * sizeof(int32_t));
        if (!moved) return 0;
        *columns[column] = filled(moved, f->slot_room, room);
    }
    double *points = realloc(f->point, (size_t)room * sizeof(double));
    if (!points) return 0;
    f->point = points;
    f->slot_room = room;
    return 1;
}

/* ---- the life of a session ---- */

EXPORT void follow_close(Follow *f) {
    if (!f) return;
    void *arrays[] = {f->contents, f->buckets, f->needed, f->first_value, f->values, f->reached, f->busy,
                      f->level_of, f->own_slot, f->other_slot, f->alike_next, f->point, f->alike_head, f->own_id,
                      f->other_id, f->event_slot, f->value, f->usual_value};
    for (size_t place = 0; place < sizeof(arrays) / sizeof(arrays[0]); place++) free(arrays[place]);
    free(f);
}

EXPORT Follow *follow_open(const Setup *setup) {
    Follow *f = calloc(1, sizeof(Follow));
    if (!f) return NULL;
    f->s = *setup;
    int64_t V = setup->versions;
    f->bucket_count = 1024;
    f->buckets = free_buckets(f->bucket_count);
    f->alike_head = nones(V);
    f->level_of = nones(V);
    f->busy = calloc((size_t)setup->levels + 1, 1);
    f->own_id = nones(setup->at_once);
    f->other_id = nones(setup->at_once);
    f->event_slot = nones(setup->at_once);
    f->value = malloc((size_t)setup->dimensions * sizeof(double));
    f->usual_value = malloc((size_t)setup->dimensions * sizeof(double));
    if (!f->buckets || !f->alike_head || !f->level_of || !f->busy || !f->own_id || !f->other_id ||
        !f->event_slot || !f->value || !f->usual_value) {
        follow_close(f);
        return NULL;
    }
    for (int64_t i = 0; i < setup->dimensions; i++) f->point_reach += fabs(setup->direction[i]);
    f->point_reach = f->point_reach * setup->most + 1e-12;
    for (int64_t level = 0; level < setup->levels; level++)
        for (int64_t place = setup->level_start[level]; place < setup->level_start[level + 1]; place++)
            f->level_of[setup->order[place]] = (int32_t)level;
    return f;
}

/* The table after it was repaired. */
EXPORT void follow_table(Follow *f, const uint32_t *table) { f->s.table = table; }

/* Let a version wait for the changes among these under which it is needed. */
static void wait_for(Follow *f, int64_t version, const uint64_t *changes) {
    const uint64_t *needed = f->needed + version * f->change_words;
    uint64_t *waiting = f->waiting + version * f->change_words, any = 0;
    for (int64_t word = 0; word < f->change_words; word++) any |= waiting[word] |= changes[word] & needed[word];
    if (any && f->level_of[version] >= 0) f->busy[f->level_of[version]] = 1;
}

/* For each event with a bit, the changes that it belongs to: masks the other way round. [bits, change_words] */
static uint64_t *changes_of_bits(const Follow *f) {
    uint64_t *changes = calloc((size_t)(64 * f->mask_words * f->change_words) + 1, sizeof(uint64_t));
    if (!changes) return NULL;
    for (int64_t change = 0; change < f->changes; change++)
        for (int64_t word = 0; word < f->mask_words; word++)
            for (uint64_t left = f->masks[change * f->mask_words + word]; left; left &= left - 1) {
                int64_t bit = 64 * word + __builtin_ctzll(left);
                changes[bit * f->change_words + change / 64] |= (uint64_t)1 << change % 64;
            }
    return changes;
}

/* A version is needed under some changes; or, where its event did not happen, the latest one before that did. */
static void need(Follow *f, int64_t version, const uint64_t *changes, const uint64_t *of_bit) {
    for (int64_t word = 0; word < f->change_words; word++) {
        uint64_t left = changes[word];
        for (int64_t v = version; left; v = f->s.previous[v]) {
            uint64_t absent = 0;
            if (f->s.bit[v] >= 0) {
                absent = of_bit[f->s.bit[v] * f->change_words + word];
                if (f->s.imagined[v]) absent = ~absent;
            }
            f->needed[v * f->change_words + word] |= left & ~absent;
            left &= absent;
        }
    }
}

/* What is needed under which change: these versions, and all that they are computed from. */
static void find_needed(Follow *f, const int64_t *versions, const int64_t *which, int64_t count, const uint64_t *of_bit) {
    for (int64_t place = 0; place < count; place++)
        f->needed[versions[place] * f->change_words + which[place] / 64] |= (uint64_t)1 << which[place] % 64;
    for (int64_t place = f->s.level_start[f->s.levels]; place-- > 0;) {
        int64_t version = f->s.order[place];
        const uint64_t *changes = f->needed + version * f->change_words;
        need(f, f->s.own[version], changes, of_bit);
        need(f, f->s.other[version], changes, of_bit);
    }
}

/* Begin with changes, and with the versions that are needed under them: `count` pairs of a version and the number of a
   change. */
EXPORT int64_t follow_begin(Follow *f, int64_t changes, int64_t mask_words, const uint64_t *masks,
                            const int64_t *versions, const int64_t *which, int64_t count) {
    int64_t cells = f->s.versions * ((changes + 63) / 64);
    f->masks = masks;
    f->changes = changes;
    f->mask_words = mask_words;
    f->change_words = (changes + 63) / 64;
    if (cells > f->cells) { /* the three tables are one */
        free(f->needed);
        free(f->first_value);
        f->needed = malloc(3 * (size_t)cells * sizeof(uint64_t));
        f->first_value = malloc((size_t)cells * sizeof(int64_t));
        f->cells = f->needed && f->first_value ? cells : 0;
        if (!f->cells) return NO_ROOM;
    }
    f->waiting = f->needed + cells;
    f->changed = f->waiting + cells;
    memset(f->needed, 0, 3 * (size_t)cells * sizeof(uint64_t));
    memset(f->busy, 0, (size_t)f->s.levels);
    f->level = f->value_count = f->reached_count = f->chunk = 0;
    uint64_t *of_bit = changes_of_bits(f);
    if (!of_bit) return NO_ROOM;
    find_needed(f, versions, which, count, of_bit);
    for (int64_t event = 0; event < f->s.events; event++)
        for (int64_t place = 0; place < f->s.affected_count[event]; place++)
            wait_for(f, f->s.affected[f->s.affected_start[event] + place], of_bit + event * f->change_words);
    free(of_bit);
    return 0;
}

/* ---- which parents a version has under a change ---- */

/* The latest version at or before this one whose event happened: `Lineage.kept`. */
static int64_t kept(const Follow *f, int64_t version, int64_t change) {
    const uint64_t *mask = f->masks + change * f->mask_words;
    int64_t bit;
    while ((bit = f->s.bit[version]) >= 0) {
        int is_set = mask[bit / 64] >> bit % 64 & 1;
        if (is_set == f->s.imagined[version]) break; /* a real event that stays, or an imagined one that is added */
        version = f->s.previous[version];
    }
    return version;
}

/* The id of a version under a change of a word, or minus its place where it is what it was. Of `same`, those changes
   remain under which it has the same value. */
static int32_t value_of(const Follow *f, int64_t version, int64_t word, uint64_t change, uint64_t *same) {
    int64_t cell = version * f->change_words + word;
    if (!(f->changed[cell] & change)) {
        *same &= ~f->changed[cell];
        return (int32_t)-version;
    }
    const Value *value = f->values + f->first_value[cell];
    while (!(value->changes & change)) value++;
    *same &= value->changes;
    return (int32_t)value->id;
}

/* The same of the latest version at or before this one whose event happened, which depends on the change. */
static int32_t value_of_parent(const Follow *f, int64_t version, int64_t word, uint64_t change, uint64_t *same) {
    if (f->s.bit[version] < 0) return value_of(f, version, word, change, same);
    *same &= change;
    return value_of(f, kept(f, version, 64 * word + __builtin_ctzll(change)), word, change, same);
}

/* ---- what is made of the same parents is the same ---- */

/* Where the search for a content begins: those of a version share a few lines of the processor's cache. */
static uint64_t hash_of(int32_t version, int32_t own, int32_t other, uint32_t *tag) {
    uint64_t mixed = ((uint64_t)(uint32_t)own << 32 | (uint32_t)other) * 0x9E3779B97F4A7C15u;
    uint64_t spread = (uint64_t)(uint32_t)version * 0xBF58476D1CE4E5B9u;
    *tag = (uint32_t)((mixed ^ spread) >> 32);
    return (spread ^ spread >> 32) << 3 | mixed >> 61;
}

static int grow_contents(Follow *f) {
    if (!grow((void **)&f->contents, &f->content_room, f->content_count + 1, sizeof(Content))) return 0;
    if (2 * f->content_count < f->bucket_count) return 1;
    int64_t count = 4 * f->bucket_count;
    Bucket *buckets = free_buckets(count);
    if (!buckets) return 0;
    for (int64_t place = 0; place < f->content_count; place++) {
        const Content *content = f->contents + place;
        uint32_t tag;
        uint64_t last = (uint64_t)count - 1, bucket = hash_of(content->version, content->own, content->other, &tag) & last;
        while (buckets[bucket].place != NONE) bucket = (bucket + 1) & last;
        buckets[bucket] = (Bucket){tag, (int32_t)place};
    }
    free(f->buckets);
    f->buckets = buckets;
    f->bucket_count = count;
    return 1;
}

/* The place of a content; a new one is pending. */
static int64_t find_content(Follow *f, int32_t version, int32_t own, int32_t other) {
    if (!grow_contents(f)) return NO_ROOM;
    uint32_t tag;
    uint64_t last = (uint64_t)f->bucket_count - 1, bucket = hash_of(version, own, other, &tag) & last;
    for (; f->buckets[bucket].place != NONE; bucket = (bucket + 1) & last) {
        if (f->buckets[bucket].tag != tag) continue;
        const Content *content = f->contents + f->buckets[bucket].place;
        if (content->version == version && content->own == own && content->other == other)
            return f->buckets[bucket].place;
    }
    f->contents[f->content_count] = (Content){version, own, other, PENDING};
    f->buckets[bucket] = (Bucket){tag, (int32_t)f->content_count};
    return f->content_count++;
}

/* ---- level by level ---- */

/* The value of a cell is `id` under some changes, too. */
static void add_value(Follow *f, int64_t cell, int64_t id, uint64_t changes) {
    int64_t place = f->first_value[cell];
    while (place < f->value_count && f->values[place].id != id) place++;
    if (place == f->value_count) f->values[f->value_count++] = (Value){0, id};
    f->values[place].changes |= changes;
    f->changed[cell] |= changes;
}

/* Take in what was reached on the last level, and let the children wait of what has changed. */
static int spread(Follow *f) {
    if (!grow((void **)&f->values, &f->value_room, f->value_count + f->reached_count, sizeof(Value))) return 0;
    for (int64_t place = 0; place < f->reached_count;) {
        int64_t version = f->reached[place].cell / f->change_words, before = f->value_count;
        for (int64_t cell = -1; place < f->reached_count; place++) {
            const Reached *reached = f->reached + place;
            if (reached->cell / f->change_words != version) break;
            if (reached->cell != cell) f->first_value[reached->cell] = f->value_count;
            cell = reached->cell;
            int32_t id = f->contents[reached->content].id;
            if (id != UNCHANGED) add_value(f, cell, id, reached->changes);
        }
        if (f->value_count == before) continue;
        for (int64_t child = 0; child < f->s.child_count[version]; child++)
            wait_for(f, f->s.children[f->s.child_start[version] + child], f->changed + version * f->change_words);
    }
    f->reached_count = 0;
    return 1;
}

/* The contents that one version has under all changes that may have reached it. Changes under which both parents have
   the same values go together. */
static int settle(Follow *f, int64_t version) {
    const Setup *s = &f->s;
    for (int64_t word = 0; word < f->change_words; word++) {
        int64_t cell = version * f->change_words + word;
        for (uint64_t left = f->waiting[cell], same = 0; left; left &= ~same) {
            uint64_t change = left & -left;
            same = left;
            int32_t mine = value_of_parent(f, s->own[version], word, change, &same);
            int32_t theirs = value_of_parent(f, s->other[version], word, change, &same);
            if (mine == -s->usual_own[version] && theirs == -s->usual_other[version] && !s->imagined[version]) continue;
            int64_t content = find_content(f, (int32_t)version, mine, theirs);
            if (content < 0) return 0;
            if (!grow((void **)&f->reached, &f->reached_room, f->reached_count + 1, sizeof(Reached))) return 0;
            f->reached[f->reached_count++] = (Reached){cell, content, same};
        }
    }
    return 1;
}

/* Go on to the next level with contents that are to be computed, or with many that are known: 1, or 0 at the
   end. */
EXPORT int64_t follow_advance(Follow *f) {
    for (;;) {
        if (!spread(f)) return NO_ROOM;
        while (f->level < f->s.levels && !f->busy[f->level]) f->level++;
        if (f->level == f->s.levels) return 0;
        f->computed = f->content_count;
        for (int64_t place = f->s.level_start[f->level]; place < f->s.level_start[f->level + 1]; place++)
            if (!settle(f, f->s.order[place])) return NO_ROOM;
        f->level++;
        if (f->content_count > f->computed || f->reached_count >= f->s.at_once) return 1;
    }
}

/* The ids of versions, each under a change, UNCHANGED where they are what they were. [count] each */
EXPORT void follow_result(const Follow *f, const int64_t *versions, const int64_t *which, int64_t count, int64_t *ids) {
    for (int64_t place = 0; place < count; place++) {
        uint64_t all = ~(uint64_t)0, change = (uint64_t)1 << which[place] % 64;
        int32_t value = value_of(f, versions[place], which[place] / 64, change, &all);
        ids[place] = value > 0 ? value : UNCHANGED;
    }
}

/* ---- numbers ---- */

static uint64_t scatter(uint64_t number) { /* as in versions.py */
    uint64_t mixed = number * 0x9E3779B97F4A7C15u + 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return mixed ^ mixed >> 31;
}

/* The sum of words, each times its weight: by halves of the weights, so that compilers turn it into vectors. */
FOR_EACH_PROCESSOR static uint64_t weighted(int64_t words, const uint32_t *restrict row, const uint64_t *restrict weights) {
    uint64_t low = 0, high = 0;
    for (int64_t word = 0; word < words; word++) {
        low += (uint64_t)row[word] * (uint32_t)weights[word];
        high += (uint64_t)row[word] * (weights[word] >> 32);
    }
    return low + (high << 32);
}

/* Whether a version stands in the table as it was written. */
static int is_right(const Setup *s, int64_t version) {
    int64_t index = s->index[version], words = s->row_words - 2;
    if (index < 0 || index >= s->table_rows) return 0;
    const uint32_t *row = s->table + index * s->row_words;
    uint64_t sum = scatter((uint64_t)index + s->key) + weighted(words, row, s->checksum_weights), stored;
    memcpy(&stored, row + words, sizeof(stored));
    return stored == sum;
}

/* Numbers in the other precision. */
FOR_EACH_PROCESSOR static void widen(int64_t count, const float *restrict from, double *restrict to) {
    for (int64_t place = 0; place < count; place++) to[place] = from[place];
}

FOR_EACH_PROCESSOR static void narrow(int64_t count, const double *restrict from, float *restrict to) {
    for (int64_t place = 0; place < count; place++) to[place] = (float)from[place];
}

static void read_table(const Setup *s, int64_t version, double *values) {
    const uint32_t *row = s->table + s->index[version] * s->row_words;
    if (s->table_is_double) {
        memcpy(values, row, (size_t)s->dimensions * sizeof(double));
        return;
    }
    widen(s->dimensions, (const float *)(const void *)row, values);
}

static int32_t append(Follow *f, Memories *memories, int64_t version, const double *values) {
    int64_t id = memories->length++, d = f->s.dimensions;
    if (f->s.memory_is_double)
        memcpy((double *)memories->values + id * d, values, (size_t)d * sizeof(double));
    else
        narrow(d, values, (float *)memories->values + id * d);
    memories->written[id] = f->s.time[version];
    return (int32_t)id;
}

/* The id of a parent: it has one, or it is read from the table. */
static int32_t memory_of(Follow *f, Memories *memories, int32_t value) {
    if (value > 0) return value;
    if (f->s.usual[-value] < 0) {
        read_table(&f->s, -value, f->usual_value);
        f->s.usual[-value] = append(f, memories, -value, f->usual_value);
    }
    return (int32_t)f->s.usual[-value];
}

static void gather(const Follow *f, const Memories *memories, int32_t id, void *into, int64_t row) {
    int64_t d = f->s.dimensions;
    size_t bytes = (size_t)d * (f->s.memory_is_double ? sizeof(double) : sizeof(float));
    const char *from = (const char *)memories->values + (size_t)id * bytes;
    if (f->s.memory_is_double == f->s.gates_are_double)
        memcpy((char *)into + (size_t)row * bytes, from, bytes);
    else if (f->s.gates_are_double)
        widen(d, (const float *)(const void *)from, (double *)into + row * d);
    else
        narrow(d, (const double *)(const void *)from, (float *)into + row * d);
}

/* Where the part stands that an event adds to the gates. */
static int32_t slot_of_event(Follow *f, Missing *missing, int64_t version, double elapsed) {
    Events *e = f->s.event_parts;
    int32_t slot = e->head[version];
    while (slot != NONE && e->elapsed[slot] != elapsed) slot = e->next[slot];
    if (slot != NONE) return slot;
    slot = (int32_t)e->used++;
    e->elapsed[slot] = elapsed;
    e->next[slot] = e->head[version];
    e->head[version] = slot;
    f->s.new_versions[missing->count] = version;
    f->s.new_elapsed[missing->count++] = elapsed;
    return slot;
}

/* Products are remembered up to `capacity` of each kind; what the next contents need is there at the same time. */
static void forget_products(Follow *f, int64_t length) {
    if (f->own_used + f->chunk > f->s.capacity) {
        filled(f->own_slot, 0, length);
        f->own_used = 0;
    }
    if (f->other_used + f->chunk > f->s.capacity) {
        filled(f->other_slot, 0, length);
        f->other_used = 0;
    }
    if (f->s.event_parts->used + f->chunk > f->s.event_parts->capacity) {
        filled(f->s.event_parts->head, 0, f->s.versions);
        f->s.event_parts->used = 0;
    }
}

/* Whether all that the next contents read from the table is right. */
static int all_right(const Follow *f, const Content *contents) {
    for (int64_t place = 0; place < f->chunk; place++) {
        const Content *content = contents + place;
        if (!f->s.imagined[content->version] && !is_right(&f->s, content->version)) return 0;
        if (content->own <= 0 && f->s.usual[-content->own] < 0 && !is_right(&f->s, -content->own)) return 0;
        if (content->other <= 0 && f->s.usual[-content->other] < 0 && !is_right(&f->s, -content->other)) return 0;
    }
    return 1;
}

/* The products of memories that were gathered, from the product `first` on. */
static void multiply(const Follow *f, const Matrix *matrix, int64_t count, const void *gathered, void *parts,
                     int64_t first) {
    int64_t d = matrix->depth, width = matrix->width;
    if (f->s.gates_are_double)
        multiply_double(matrix, count, gathered, NULL, d, (double *)parts + first * width, width);
    else
        multiply_float(matrix, count, gathered, NULL, d, (float *)parts + first * width, width);
}

/* Encode times, also those that are too long for `encode`. */
static void encode_times(const Events *e, int64_t count, int64_t width) {
    if (encode(count, width, e->times, e->frequency, e->phase, e->encoded, width)) return;
    for (int64_t place = 0; place < count; place++) {
        double *into = e->encoded + place * width;
        if (encode(1, width, e->times + place, e->frequency, e->phase, into, width)) continue;
        for (int64_t i = 0; i < width; i++) into[i] = cos((double)(e->times[place] * e->frequency[i] + e->phase[i]));
    }
}

/* Compute what events add that is missing: 1; or 0 where compiled.py has to. */
static int add_events(const Follow *f, const Missing *missing) {
    const Events *e = f->s.event_parts;
    int64_t count = missing->count, F = e->feature_count, width = e->matrix->depth - F;
    if (!e->frequency) return 0;
    for (int64_t place = 0; place < count; place++) {
        if (F && e->message[f->s.new_versions[place]] >= e->rows) return 0; /* an imagined event */
        e->times[place] = (float)f->s.new_elapsed[place];
    }
    encode_times(e, count, width);
    for (int64_t place = 0; place < count; place++) {
        const float *features = F ? e->features + e->message[f->s.new_versions[place]] * F : NULL;
        const double *encoded = e->encoded + place * width;
        if (f->s.gates_are_double) {
            double *into = (double *)e->inputs + place * (F + width);
            for (int64_t i = 0; i < F; i++) into[i] = features[i];
            memcpy(into + F, encoded, (size_t)width * sizeof(double));
        } else {
            float *into = (float *)e->inputs + place * (F + width);
            if (F) memcpy(into, features, (size_t)F * sizeof(float));
            for (int64_t i = 0; i < width; i++) into[F + i] = (float)encoded[i];
        }
    }
    multiply(f, e->matrix, count, e->inputs, e->parts, missing->first);
    return 1;
}

/* Multiply what the next contents need, and say what of their events is missing. There must be room for three memories
   each. */
static int64_t prepare(Follow *f, Memories *memories, Missing *missing) {
    const Content *contents = f->contents + f->computed;
    if (!grow_slots(f, memories->length + 3 * f->chunk)) return NO_ROOM;
    if (!all_right(f, contents)) return DAMAGED;
    forget_products(f, memories->length);
    int64_t own_first = f->own_used, other_first = f->other_used;
    *missing = (Missing){f->s.event_parts->used, 0};
    for (int64_t place = 0; place < f->chunk; place++) {
        int32_t own = f->own_id[place] = memory_of(f, memories, contents[place].own);
        int32_t other = f->other_id[place] = memory_of(f, memories, contents[place].other);
        if (f->own_slot[own] == NONE) {
            f->own_slot[own] = (int32_t)f->own_used++;
            gather(f, memories, own, f->s.gathered_own, f->own_used - 1 - own_first);
        }
        if (f->other_slot[other] == NONE) {
            f->other_slot[other] = (int32_t)f->other_used++;
            gather(f, memories, other, f->s.gathered_other, f->other_used - 1 - other_first);
        }
        double elapsed = f->s.time[contents[place].version] - memories->written[own];
        f->event_slot[place] = slot_of_event(f, missing, contents[place].version, elapsed);
    }
    multiply(f, f->s.own_matrix, f->own_used - own_first, f->s.gathered_own, f->s.own_parts, own_first);
    multiply(f, f->s.other_matrix, f->other_used - other_first, f->s.gathered_other, f->s.other_parts, other_first);
    return 0;
}

/* The gates of a GRU, as in `Gates.remember`; tanh(x) = 1 - 2 / (1 + exp(2x)). `own`, `other`, `event`: what is added
   to reset gate, update gate and new memory, d numbers each; the last d of `own` are what the reset gate lets through. */
#define GATES(REAL, EXP)                                                                                             \
    FOR_EACH_PROCESSOR static void gates_##REAL(int64_t d, const REAL *restrict own, const REAL *restrict other,     \
                                                const REAL *restrict event, const REAL *restrict bias,               \
                                                const double *restrict memory, double *restrict value) {             \
        for (int64_t i = 0; i < d; i++) {                                                                            \
            REAL reset = 1 / (1 + EXP(-(event[i] + other[i] + own[i])));                                             \
            REAL update = 1 / (1 + EXP(-(event[d + i] + other[d + i] + own[d + i])));                                \
            REAL given = event[2 * d + i] + other[2 * d + i] + own[2 * d + i] + reset * (own[3 * d + i] + bias[i]);  \
            REAL new = 1 - 2 / (1 + EXP(2 * given));                                                                 \
            value[i] = new + update * ((REAL)memory[i] - new);                                                       \
        }                                                                                                            \
    }
GATES(float, exp_float)
GATES(double, exp_double)

/* The next memory, in the precision of the table. */
static void compute_value(Follow *f, const Memories *memories, int64_t place) {
    const Setup *s = &f->s;
    int64_t d = s->dimensions, own = f->own_slot[f->own_id[place]], other = f->other_slot[f->other_id[place]];
    int64_t event = f->event_slot[place], id = f->own_id[place];
    const double *memory = f->usual_value;
    if (s->memory_is_double)
        memory = (const double *)memories->values + id * d;
    else
        widen(d, (const float *)memories->values + id * d, f->usual_value);
    if (s->gates_are_double)
        gates_double(d, (const double *)s->own_parts + own * 4 * d, (const double *)s->other_parts + other * 3 * d,
                     (const double *)s->event_parts->parts + event * 3 * d, s->kept_bias, memory, f->value);
    else
        gates_float(d, (const float *)s->own_parts + own * 4 * d, (const float *)s->other_parts + other * 3 * d,
                    (const float *)s->event_parts->parts + event * 3 * d, s->kept_bias, memory, f->value);
    if (!s->table_is_double)
        for (int64_t i = 0; i < d; i++) f->value[i] = (float)f->value[i];
}

FOR_EACH_PROCESSOR static int differs(const double *one, const double *other, int64_t d, double most) {
    int further = 0;
    for (int64_t i = 0; i < d; i++) further |= fabs(one[i] - other[i]) > most;
    return further;
}

/* Where a value stands on the line of `NearDuplicates`, summed in eight parts, so that compilers turn it into vectors. */
FOR_EACH_PROCESSOR static double point_of(const double *restrict value, const double *restrict direction, int64_t d) {
    double parts[8] = {0.0}, sum = 0.0;
    int64_t whole = d / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8)
        for (int64_t part = 0; part < 8; part++) parts[part] += value[i + part] * direction[i + part];
    for (int64_t i = whole; i < d; i++) sum += value[i] * direction[i];
    for (int64_t part = 0; part < 8; part++) sum += parts[part];
    return sum;
}

/* The id of a value of the version that is nearly the same, or NONE. Only those are compared that have been appended,
   so that none stands for another that is further away, however many lie between. */
static int32_t find_alike(Follow *f, const Memories *memories, int64_t version, double point) {
    int64_t d = f->s.dimensions;
    int compared = 0;
    for (int32_t id = f->alike_head[version]; id != NONE && compared < MOST_COMPARED; id = f->alike_next[id]) {
        compared++;
        if (fabs(f->point[id] - point) > f->point_reach) continue;
        const double *known = (const double *)memories->values + id * d;
        if (!f->s.memory_is_double) widen(d, (const float *)memories->values + id * d, f->usual_value);
        if (!differs(f->value, f->s.memory_is_double ? known : f->usual_value, d, f->s.most)) return id;
    }
    return NONE;
}

/* Remember a value; where many versions may change, one that is nearly the same stands for it. */
static int32_t share(Follow *f, Memories *memories, int64_t version) {
    if (!f->s.shares) return append(f, memories, version, f->value);
    double point = point_of(f->value, f->s.direction, f->s.dimensions);
    int32_t id = find_alike(f, memories, version, point);
    if (id != NONE) return id;
    id = append(f, memories, version, f->value);
    f->point[id] = point;
    f->alike_next[id] = f->alike_head[version];
    f->alike_head[version] = id;
    return id;
}

/* Compute the contents that are prepared. */
static void compute_chunk(Follow *f, Memories *memories) {
    for (int64_t place = 0; place < f->chunk; place++) {
        Content *content = f->contents + f->computed + place;
        int changed = f->s.imagined[content->version];
        compute_value(f, memories, place);
        if (!changed) {
            read_table(&f->s, content->version, f->usual_value);
            changed = differs(f->value, f->usual_value, f->s.dimensions, f->s.most);
        }
        content->id = changed ? share(f, memories, content->version) : UNCHANGED;
    }
    f->computed += f->chunk;
    f->chunk = 0;
}

/* Compute the next contents of the level, as many as at once: DONE, or LEFT where there are more. FULL: there must first
   be room for that many memories. EVENTS: what is missing of events must first be computed. */
EXPORT int64_t follow_compute(Follow *f, Memories *memories, Missing *missing) {
    if (!f->chunk) {
        int64_t left = f->content_count - f->computed, some = left < f->s.at_once ? left : f->s.at_once;
        if (!some) return DONE;
        missing->count = 3 * some;
        if (memories->length + 3 * some > memories->room) return FULL;
        f->chunk = some;
        int64_t failed = prepare(f, memories, missing);
        if (failed) f->chunk = 0;
        if (failed) return failed;
        if (missing->count && !add_events(f, missing)) return EVENTS;
    }
    compute_chunk(f, memories);
    return f->computed < f->content_count ? LEFT : DONE;
}

/* ---- which versions an answer may depend on ---- */

/* The version of a node's last event before a row, NONE if it has none. */
static int64_t latest_version(const Log *log, int64_t node, int64_t before) {
    int64_t low = log->offsets[node], high = log->offsets[node + 1], first = low;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (log->incidence[middle] < before)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == first) return NONE;
    int64_t row = log->incidence[low - 1];
    return 2 * row + (log->src[row] != node);
}

/* The bit of an event that may be changed, NONE of any other. */
static int64_t bit_of(const Log *log, int64_t row) {
    int64_t low = 0, high = log->event_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (log->events[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < log->event_count && log->events[low] == row ? low : NONE;
}

/* Go on with a table of versions, the latest first: index, own, other, previous and bit, one row each. What a version
   depends on is older, so that all that depend on it have been gone through before. `*word` is where it goes on in
   `seen`; it stops where the table has no room for the versions of a word, or at the oldest event. → how many there are */
EXPORT int64_t lineage_trace(const Log *log, int64_t (*table)[5], int64_t room, int64_t *word, int64_t count) {
    for (; *word >= 2 * log->oldest / 64 && count + 64 <= room; --*word) {
        uint64_t done = 0, left;
        while ((left = log->seen[*word] & ~done)) {
            int64_t place = 63 - __builtin_clzll(left), index = 64 * *word + place, row = index / 2;
            int64_t node = index % 2 ? log->dst[row] : log->src[row], other = index % 2 ? log->src[row] : log->dst[row];
            done |= (uint64_t)1 << place;
            if (row < log->oldest) continue;
            int64_t start = row / log->batch * log->batch, bit = bit_of(log, row);
            int64_t found[] = {latest_version(log, node, start), latest_version(log, other, start),
                               bit < 0 ? NONE : latest_version(log, node, row)};
            for (int column = 0; column < 3; column++)
                if (found[column] >= 0) log->seen[found[column] / 64] |= (uint64_t)1 << found[column] % 64;
            int64_t traced[] = {index, found[0], found[1], found[2], bit};
            memcpy(table[count++], traced, sizeof(traced));
        }
    }
    return count;
}

/* How many versions were seen before each word. → how many in all */
EXPORT int64_t lineage_count(const Log *log, int32_t *before) {
    int64_t count = 0;
    for (int64_t word = 0; word < log->words; word++) {
        before[word] = (int32_t)count;
        count += __builtin_popcountll(log->seen[word]);
    }
    return count;
}

/* The place of a version: 1 is that of the first one, 0 stands for none. */
static int64_t place_of(const Log *log, const int32_t *before, int64_t index) {
    if (index < 0) return 0;
    uint64_t earlier = ((uint64_t)1 << index % 64) - 1;
    return 1 + before[index / 64] + __builtin_popcountll(log->seen[index / 64] & earlier);
}

/* The indices of all versions that were seen, and by place what the table says of those that were traced: places of own,
   other and previous, and the bit. `traced`: their places, ascending. */
EXPORT void lineage_columns(const Log *log, const int32_t *before, int64_t (*table)[5], int64_t count, int64_t *index,
                            int64_t *own, int64_t *other, int64_t *previous, int64_t *bit, int64_t *traced) {
    *index++ = NONE;
    for (int64_t word = 0; word < log->words; word++)
        for (uint64_t left = log->seen[word]; left; left &= left - 1) *index++ = 64 * word + __builtin_ctzll(left);
    for (int64_t row = 0; row < count; row++) {
        int64_t place = traced[count - 1 - row] = place_of(log, before, table[row][0]);
        own[place] = place_of(log, before, table[row][1]);
        other[place] = place_of(log, before, table[row][2]);
        previous[place] = place_of(log, before, table[row][3]);
        bit[place] = table[row][4];
    }
}

/* The versions that may be computed from each, where the parent may change: see `lineage._children`. `next` has where
   those of each version begin; without `children`, they are counted there. */
EXPORT void lineage_children(int64_t count, const int64_t *versions, const int64_t *own, const int64_t *other,
                             const int64_t *previous, const int64_t *bit, const uint8_t *changes, int64_t *next,
                             int64_t *children) {
    for (int64_t place = 0; place < count; place++)
        for (int side = 0; side < 2; side++)
            for (int64_t parent = (side ? other : own)[versions[place]]; changes[parent]; parent = previous[parent]) {
                if (children) children[next[parent]] = versions[place];
                next[parent]++;
                if (bit[parent] < 0) break; /* else it may be absent, and the memory is the version before */
            }
}

/* Masks and levels of versions, in the order of rows: see `_dependencies`. */
EXPORT void lineage_depend(int64_t count, int64_t words, const int64_t *versions, const int64_t *own,
                           const int64_t *other, const int64_t *previous, const int64_t *bit, uint64_t *parents,
                           uint64_t *memory, int64_t *level, int64_t *deepest) {
    for (int64_t place = 0; place < count; place++) {
        int64_t v = versions[place], may_be_absent = bit[v] >= 0, before = previous[v];
        uint64_t any = 0;
        for (int64_t word = 0; word < words; word++) {
            uint64_t mask = memory[own[v] * words + word] | memory[other[v] * words + word];
            parents[v * words + word] = mask;
            if (may_be_absent) {
                mask |= memory[before * words + word];
                if (bit[v] / 64 == word) mask |= (uint64_t)1 << bit[v] % 64;
            }
            any |= memory[v * words + word] = mask;
        }
        level[v] = 1 + (deepest[own[v]] > deepest[other[v]] ? deepest[own[v]] : deepest[other[v]]);
        deepest[v] = may_be_absent && deepest[before] > level[v] ? deepest[before] : level[v];
        if (!any) deepest[v] = NONE;
    }
}

/* The latest version at or before each whose event happened, each under its own mask. [count] in and out */
EXPORT void lineage_kept(int64_t count, int64_t words, const int64_t *previous, const int64_t *bit,
                         const uint8_t *imagined, const uint64_t *masks, int64_t *versions) {
    for (int64_t place = 0; place < count; place++) {
        const uint64_t *mask = masks + place * words;
        int64_t v = versions[place];
        while (bit[v] >= 0 && (mask[bit[v] / 64] >> bit[v] % 64 & 1) != imagined[v]) v = previous[v];
        versions[place] = v;
    }
}

/* Which source this was built from, and whether both sides mean the same by what is passed. */
#ifndef SOURCE
#define SOURCE 0
#endif
EXPORT int64_t follow_source(void) { return SOURCE; }
