/* reduce.h: the arithmetic of a reduction on host memory.
 */
#ifndef TRAINER_COMM_REDUCE_H
#define TRAINER_COMM_REDUCE_H

#include "comm/comm.h"

/* into[i] = into[i] op from[i]; COMM_AVG adds. `count` elements of `type`; no overlap. */
void reduce_combine(void *into, const void *from, size_t count, CommType type, CommOp op);

/* The last step of COMM_AVG: into[i] /= world. */
void reduce_divide(void *into, size_t count, CommType type, int world);

#endif
