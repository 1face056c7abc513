# softcuda.mk: the software CUDA (softcuda.h says what it is): three libraries that stand in for
# NVIDIA's, and the programs that test them. A part of the Makefile, which has found the toolkit (NVCC,
# CUDA_INCLUDE). Other versions than 13 have other libraries and another way to launch a kernel: there,
# as where there is no toolkit, nothing is built, and tests/softcuda.sh skips what it tests.
#
#     make softcuda                                                     builds all of it
#     LD_LIBRARY_PATH=build/softcuda ./trainer --device=cuda

SOFTCUDA_VERSION := $(if $(NVCC),$(shell \
    sed -n 's/^.define CUDART_VERSION *\([0-9]*\)...$$/\1/p' $(CUDA_INCLUDE)/cuda_runtime_api.h))
ifeq ($(SOFTCUDA_VERSION),13)

SOFTCUDA         := $(BUILD)/softcuda
SOFTCUDA_SOURCES := tests/softcuda
# -fno-strict-aliasing: as nvcc compiles a kernel; a float4 is read where floats were written.
# -U_FORTIFY_SOURCE: its longjmp takes a fiber for a broken stack.
SOFTCUDA_CXX = $(CXX) -std=c++17 -O2 -g -fPIC -ffp-contract=off -fno-strict-aliasing -U_FORTIFY_SOURCE \
    $(WARNINGS) -MMD -MP -I. -I$(SOFTCUDA_SOURCES) -isystem $(CUDA_INCLUDE) $(filter -I%,$(BLAS))
# -Bsymbolic: the kernels' names are also functions of the program, which must not take their place.
SOFTCUDA_LINK = $(CXX) -shared -Wl,-Bsymbolic -Wl,-soname,$(@F) -o $@

SOFTCUDA_CUDART := $(patsubst %,$(SOFTCUDA)/%.o,memory schedule cudart launch kernels plant_kernels)
SOFTCUDA_NCCL   := $(if $(findstring TRAINER_NCCL,$(CUDA_DEFINES)),libnccl.so.2 test_nccl)

.PHONY: softcuda
softcuda: $(addprefix $(SOFTCUDA)/,libcudart.so.13 libcublas.so.13 no_barriers/libcudart.so.13 plants \
    $(SOFTCUDA_NCCL))
tests: softcuda

# The libraries carry the version names that programs ask for; libnccl has none.
$(SOFTCUDA)/libcudart.so.13: $(SOFTCUDA_CUDART) $(SOFTCUDA)/libcudart.so.13.map
	@echo "  link $@"
	$(Q)$(SOFTCUDA_LINK) $(SOFTCUDA_CUDART) -Wl,--version-script=$@.map
# A planted mistake: every __syncthreads of kernels.cu is gone. The tests of the kernels must notice.
$(SOFTCUDA)/no_barriers/libcudart.so.13: $(SOFTCUDA_CUDART) $(SOFTCUDA)/no_barriers.o \
    $(SOFTCUDA)/libcudart.so.13.map
	@mkdir -p $(@D)
	$(Q)$(SOFTCUDA_LINK) $(SOFTCUDA_CUDART:%/kernels.o=%/no_barriers.o) \
	    -Wl,--version-script=$(SOFTCUDA)/libcudart.so.13.map
$(SOFTCUDA)/libcublas.so.13: $(SOFTCUDA)/cublas.o $(SOFTCUDA)/libcudart.so.13 $(SOFTCUDA)/libcublas.so.13.map
	@echo "  link $@"
	$(Q)$(SOFTCUDA_LINK) $< $(SOFTCUDA)/libcudart.so.13 $(filter-out -I%,$(BLAS)) -Wl,--version-script=$@.map
$(SOFTCUDA)/libnccl.so.2: $(SOFTCUDA)/nccl.o $(SOFTCUDA)/collective.o $(SOFTCUDA)/libcudart.so.13
	@echo "  link $@"
	$(Q)$(SOFTCUDA_LINK) $^ -pthread
$(SOFTCUDA)/%.map: | $(SOFTCUDA)
	@echo '$* { global: *; };' > $@

$(SOFTCUDA)/%.o: $(SOFTCUDA_SOURCES)/%.cpp | $(SOFTCUDA)
	@echo "  c++  $@"
	$(Q)$(SOFTCUDA_CXX) -c $< -o $@

# The kernels of a .cu file: KERNEL(name) for each, and the unit that is compiled with it.
SOFTCUDA_UNIT = $(SOFTCUDA_CXX) -Wno-unknown-pragmas -DKERNEL_SOURCE='"$<"' -DKERNEL_LIST='"$(word 2,$^)"' \
    -c $(SOFTCUDA_SOURCES)/kernel_unit.cpp -o $@
SOFTCUDA_LIST = sed -n 's/^__global__ void \([a-zA-Z0-9_]*\)(.*/KERNEL(\1)/p' $< > $@
$(SOFTCUDA)/kernels.list: kernels.cu | $(SOFTCUDA)
	$(Q)$(SOFTCUDA_LIST)
$(SOFTCUDA)/plant_kernels.list: $(SOFTCUDA_SOURCES)/plants/plants.cu | $(SOFTCUDA)
	$(Q)$(SOFTCUDA_LIST)
$(SOFTCUDA)/kernels.o: kernels.cu $(SOFTCUDA)/kernels.list $(SOFTCUDA_SOURCES)/kernel_unit.cpp
	@echo "  c++  $@"
	$(Q)$(SOFTCUDA_UNIT)
$(SOFTCUDA)/no_barriers.o: kernels.cu $(SOFTCUDA)/kernels.list $(SOFTCUDA_SOURCES)/kernel_unit.cpp
	@echo "  c++  $@"
	$(Q)$(SOFTCUDA_UNIT) -DSOFTCUDA_NO_BARRIERS
$(SOFTCUDA)/plant_kernels.o: $(SOFTCUDA_SOURCES)/plants/plants.cu $(SOFTCUDA)/plant_kernels.list \
    $(SOFTCUDA_SOURCES)/kernel_unit.cpp
	@echo "  c++  $@"
	$(Q)$(SOFTCUDA_UNIT)

$(SOFTCUDA)/plants: $(SOFTCUDA_SOURCES)/plants/plants.cu | $(SOFTCUDA)
	@echo "  nvcc $@"
	$(Q)$(NVCC) -std=c++17 -cudart shared $< -o $@
$(SOFTCUDA)/test_nccl: $(SOFTCUDA_SOURCES)/test_nccl.c $(SOFTCUDA)/libnccl.so.2
	@echo "  link $@"
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARNINGS) -isystem $(CUDA_INCLUDE) $< \
	    $(SOFTCUDA)/libnccl.so.2 $(SOFTCUDA)/libcudart.so.13 -lcmocka -o $@

$(SOFTCUDA):
	@mkdir -p $@

-include $(wildcard $(SOFTCUDA)/*.d)

endif
