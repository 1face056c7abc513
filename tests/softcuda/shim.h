/* shim.h: what a kernel finds on a GPU, for kernels that are compiled for the CPU. Included before
 * the .cu file, by kernel_unit.cpp alone. launch.cpp runs the threads.
 *
 * A block's threads run one after the other, so plain variables tell a thread which it is. One that
 * meets a barrier is left there, in the middle of its function, while others run up to it.
 */
#ifndef SOFTCUDA_SHIM_H
#define SOFTCUDA_SHIM_H

#include "softcuda.h"

#include <cmath>
#include <cstring>
#include <vector_functions.h>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* In a section of its own, so that launch.cpp can fill it with 0xff before each block. */
#undef __shared__
#define __shared__ static __attribute__((section("softcuda_shared")))

inline void __syncthreads()
{
#ifndef SOFTCUDA_NO_BARRIERS /* a planted mistake (softcuda.mk) */
    softcuda::block_barrier();
#endif
}

inline void __threadfence()
{
}

inline unsigned softcuda_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class T> T __shfl_sync(unsigned mask, T value, unsigned from)
{
    static_assert(sizeof(T) <= 8, "a lane gives at most 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = softcuda::exchange(mask, bits, from % 32);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, unsigned apart)
{
    return __shfl_sync(mask, value, softcuda_lane() ^ apart);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned apart)
{
    unsigned from = softcuda_lane() + apart;
    return __shfl_sync(mask, value, from < 32 ? from : softcuda_lane());
}

/* One thread runs at a time. */
template <class T> T atomicAdd(T *to, T value)
{
    T before = *to;
    *to += value;
    return before;
}

#endif
