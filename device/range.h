/* range.h: names for stretches of host time in NVIDIA's profiler (NVTX): Nsight Systems draws them
 * above the kernels. Without CUDA, and where no profiler listens, they cost next to nothing.
 */
#ifndef TRAINER_DEVICE_RANGE_H
#define TRAINER_DEVICE_RANGE_H

/* Begins a range on the calling thread; ranges nest. */
void device_range_push(const char *name);

/* Ends the innermost one. */
void device_range_pop(void);

#endif
