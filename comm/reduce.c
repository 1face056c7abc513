/* reduce.c: sum, product, least and greatest of two vectors of each element type (see reduce.h). */
#include "comm/reduce.h"

#include "base/hot.h"

/* A loop of its own for every type and operation, so that each can be vectorised. */
#define DEFINE_LOOP(NAME, TYPE, EXPRESSION)                                                        \
    HOT static void NAME(TYPE *restrict into, const TYPE *restrict from, size_t count)             \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            TYPE a = into[i], b = from[i];                                                         \
            into[i] = (EXPRESSION);                                                                \
        }                                                                                          \
    }

#define DEFINE_TYPE(SUFFIX, TYPE)                                                                  \
    DEFINE_LOOP(sum_##SUFFIX, TYPE, a + b)                                                         \
    DEFINE_LOOP(min_##SUFFIX, TYPE, b < a ? b : a)                                                 \
    DEFINE_LOOP(max_##SUFFIX, TYPE, b > a ? b : a)                                                 \
    DEFINE_LOOP(prod_##SUFFIX, TYPE, a *b)                                                         \
    static void combine_##SUFFIX(TYPE *into, const TYPE *from, size_t count, CommOp op)            \
    {                                                                                              \
        switch (op) {                                                                              \
        case COMM_SUM:                                                                             \
        case COMM_AVG:                                                                             \
            sum_##SUFFIX(into, from, count);                                                       \
            break;                                                                                 \
        case COMM_MIN:                                                                             \
            min_##SUFFIX(into, from, count);                                                       \
            break;                                                                                 \
        case COMM_MAX:                                                                             \
            max_##SUFFIX(into, from, count);                                                       \
            break;                                                                                 \
        case COMM_PROD:                                                                            \
            prod_##SUFFIX(into, from, count);                                                      \
            break;                                                                                 \
        }                                                                                          \
    }

/* int32 is added and multiplied as uint32, where running over is defined: the bits are the same. */
DEFINE_TYPE(float, float)
DEFINE_TYPE(double, double)
DEFINE_TYPE(uint64, uint64_t)
DEFINE_LOOP(sum_int32, uint32_t, a + b)
DEFINE_LOOP(prod_int32, uint32_t, a *b)
DEFINE_LOOP(min_int32, int32_t, b < a ? b : a)
DEFINE_LOOP(max_int32, int32_t, b > a ? b : a)

static void combine_int32(void *into, const void *from, size_t count, CommOp op)
{
    switch (op) {
    case COMM_SUM:
    case COMM_AVG:
        sum_int32(into, from, count);
        break;
    case COMM_MIN:
        min_int32(into, from, count);
        break;
    case COMM_MAX:
        max_int32(into, from, count);
        break;
    case COMM_PROD:
        prod_int32(into, from, count);
        break;
    }
}

void reduce_combine(void *into, const void *from, size_t count, CommType type, CommOp op)
{
    switch (type) {
    case COMM_FLOAT:
        combine_float(into, from, count, op);
        break;
    case COMM_DOUBLE:
        combine_double(into, from, count, op);
        break;
    case COMM_INT32:
        combine_int32(into, from, count, op);
        break;
    case COMM_UINT64:
        combine_uint64(into, from, count, op);
        break;
    }
}

/* A loop of its own for every type here, too. */
#define DEFINE_DIVIDE(SUFFIX, TYPE)                                                                \
    HOT static void divide_##SUFFIX(TYPE *into, size_t count, TYPE divisor)                        \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            into[i] /= divisor;                                                                    \
    }

DEFINE_DIVIDE(float, float)
DEFINE_DIVIDE(double, double)
DEFINE_DIVIDE(int32, int32_t)
DEFINE_DIVIDE(uint64, uint64_t)

void reduce_divide(void *into, size_t count, CommType type, int world)
{
    switch (type) {
    case COMM_FLOAT:
        divide_float(into, count, (float)world);
        break;
    case COMM_DOUBLE:
        divide_double(into, count, world);
        break;
    case COMM_INT32:
        divide_int32(into, count, world);
        break;
    case COMM_UINT64:
        divide_uint64(into, count, (uint64_t)world);
        break;
    }
}
