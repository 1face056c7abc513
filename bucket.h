/* bucket.h: how DistributedDataParallel groups gradients into buckets.
 */
#ifndef TRAINER_BUCKET_H
#define TRAINER_BUCKET_H

#include "model.h"

/* PyTorch's first bucket is small so that communication starts early
 * (torch/nn/parallel/distributed.py, _DEFAULT_FIRST_BUCKET_BYTES). */
#define BUCKET_FIRST_CAP_BYTES (1024.0 * 1024.0)

/* Puts tensors of the given sizes, in this order, into buckets: a tensor joins the open bucket,
 * which closes when its size has reached its cap (`first_cap` for the first one, then `cap`;
 * bytes). bucket_of [tensors] gets each one's bucket. Returns the number of buckets.
 * (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size) */
int bucket_assign(const size_t *tensor_bytes, int tensors, double first_cap, double cap,
                  int *bucket_of);

/* A slice of the gradient arena whose all-reduce is one operation. */
typedef struct Bucket {
    int first_parameter; /* in arena order */
    int parameters;
    size_t offset, count; /* floats of the arena, gaps included */
} Bucket;

/* The buckets of a layout: `buckets` has room for layout->parameters; bucket_of [parameters].
 * `cap_mb` in MiB; `explicit_cap`: it was asked for and holds for the first bucket too. */
int bucket_plan(const Layout *layout, double cap_mb, bool explicit_cap, Bucket *buckets,
                int *bucket_of);

#endif
