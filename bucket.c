/* bucket.c: gradients into buckets, by PyTorch's rule (see bucket.h). */
#include "bucket.h"

int bucket_assign(const size_t *tensor_bytes, int tensors, double first_cap, double cap,
                  int *bucket_of)
{
    int bucket = 0;
    double bytes = 0;
    for (int i = 0; i < tensors; i++) {
        bucket_of[i] = bucket;
        bytes += (double)tensor_bytes[i];
        if (bytes >= (bucket == 0 ? first_cap : cap)) {
            bucket++;
            bytes = 0;
        }
    }
    return bytes > 0 ? bucket + 1 : bucket;
}

int bucket_plan(const Layout *layout, double cap_mb, bool explicit_cap, Bucket *buckets,
                int *bucket_of)
{
    size_t tensor_bytes[MODEL_MOST_PARAMETERS];
    for (int i = 0; i < layout->parameters; i++)
        tensor_bytes[i] = sizeof(float) * layout->parameter[i].count;
    double cap = cap_mb * 1024 * 1024;
    int count = bucket_assign(tensor_bytes, layout->parameters,
                              explicit_cap ? cap : BUCKET_FIRST_CAP_BYTES, cap, bucket_of);

    for (int i = 0; i < count; i++)
        buckets[i] = (Bucket){0};
    for (int i = 0; i < layout->parameters; i++) {
        Bucket *bucket = &buckets[bucket_of[i]];
        size_t end =
            i + 1 < layout->parameters ? layout->parameter[i + 1].offset : layout->arena_count;
        if (bucket->parameters++ == 0) {
            bucket->first_parameter = i;
            bucket->offset = layout->parameter[i].offset;
        }
        bucket->count = end - bucket->offset;
    }
    return count;
}
