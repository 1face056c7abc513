/* range.c: NVTX, which is a header: without a profiler its calls return at once (see range.h). */
#include "device/range.h"

#ifdef TRAINER_CUDA

#include <nvtx3/nvToolsExt.h>

void device_range_push(const char *name)
{
    nvtxRangePushA(name);
}

void device_range_pop(void)
{
    nvtxRangePop();
}

#else

void device_range_push(const char *name)
{
    (void)name;
}

void device_range_pop(void)
{
}

#endif
