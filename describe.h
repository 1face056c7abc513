/* describe.h: what a way of training would do with a model, without training.
 */
#ifndef TRAINER_DESCRIBE_H
#define TRAINER_DESCRIBE_H

#include "options.h"

#include <stdio.h>

/* Prints the shape of the outputs, the keys of the state_dict, the devices, how a batch is split,
 * each parameter's shape and bytes, and DDP's buckets. `gpus`: the devices are GPUs. */
void describe(FILE *out, const Options *options, bool gpus);

#endif
