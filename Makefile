# Makefile: `make help` lists what it can do.
#
# BUILD is where everything goes; each kind of build has a folder of its own. SANITIZE names gcc's
# sanitizers; CUDA=0 leaves CUDA out; V=1 shows the commands.

BUILD    ?= build
SANITIZE ?=
CC       := gcc
PYTHON   ?= /usr/bin/python3
Q        := $(if $(V),,@)
# On all cores, unless -j was given.
CORES    := $(shell nproc)
MAKE_ALL = $(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(CORES))

# What this machine has, probed once per build folder, and again after packages were installed.
CONFIG   := $(BUILD)/config.mk
NO_PROBE := help prepare demo test clean lint
ifneq ($(filter-out $(NO_PROBE),$(or $(MAKECMDGOALS),all)),)
include $(CONFIG)
endif

TRAINER  := $(if $(filter build,$(BUILD)),trainer,$(BUILD)/trainer)
PROGRAM  := $(if $(filter /%,$(TRAINER)),,./)$(TRAINER)
SOURCES  := $(wildcard *.c base/*.c device/*.c comm/*.c report/*.c)
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o) $(if $(NVCC),$(BUILD)/kernels.o)
LIBRARY  := $(filter-out $(BUILD)/main.o,$(OBJECTS))
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
TOOLS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/tools/*.c))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion
# -ffp-contract=off: the same results on every x86-64. -fno-math-errno: sqrtf may be an instruction.
CFLAGS   := -std=c11 -D_GNU_SOURCE -O3 -g -ffp-contract=off -fno-math-errno $(WARNINGS) -I. -MMD -MP
LDFLAGS  :=
ifneq ($(SANITIZE),)
CFLAGS   += -O1 -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -DTRAINER_SANITIZED=1
LDFLAGS  += -fsanitize=$(SANITIZE)
endif
CFLAGS   += $(filter -I%,$(BLAS)) $(CUDA_DEFINES) $(CUDA_INCLUDE:%=-isystem %)
LIBS     := $(filter-out -I%,$(BLAS)) $(CUDA_LIBS) -lcjson -lz -lm -lpthread
# -fmad=false: the kernels round as the CPU does. all-major: every generation that the toolkit knows,
# and PTX for newer ones.
NVFLAGS  := -O3 -std=c++17 -arch=all-major -fmad=false -I. -Xcompiler -fno-threadsafe-statics
COMMANDS := $(CC) $(CFLAGS) $(LDFLAGS) $(LIBS) $(NVCC) $(if $(NVCC),$(NVFLAGS))

.PHONY: all help check-model prepare demo test test-gpu tests trainer-build lessons results bench bench-gpu reproduce lint clean FORCE
.DELETE_ON_ERROR:

all: $(TRAINER) ## build with what is there, and say what was found
	@echo "Built $(TRAINER) with:"
	@cat $(BUILD)/found.txt

# --- for people ----------------------------------------------------------------------------------

demo: ## install what is missing, build, and compare DP with DDP on this machine
	@tools/install.sh
	+@$(MAKE_ALL) all
	@echo
	$(PROGRAM)

test: ## install what is missing, build (with sanitizers, too), run all tests
	@tools/install.sh test
	+@$(MAKE_ALL) all tests BUILD=build
	+@$(MAKE_ALL) tests trainer-build CUDA=0 BUILD=build/asan SANITIZE=address,undefined
	+@$(MAKE_ALL) tests trainer-build CUDA=0 BUILD=build/tsan SANITIZE=thread
	@tests/run.sh

prepare: ## install what is missing and build, so that a class can work offline
	@tools/install.sh test
	+@$(MAKE_ALL) all

lessons: $(TRAINER) ## run every command of the lessons and say which outputs differ (UPDATE=1: write them)
	@UPDATE=$(UPDATE) TRAINER=$(PROGRAM) PYTHON=$(PYTHON) tests/lessons.sh $(PAGE)

results: $(TRAINER) ## write this machine's runs beside the captured ones in results/
	@tools/results.sh $(PROGRAM)

bench: $(TRAINER) ## each figure of speed beside its target (a few minutes; wants python3-torch)
	+@$(MAKE_ALL) $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))
	@$(PYTHON) bench/bench.py $(PROGRAM) $(BUILD)/bench

check-model: $(TRAINER) ## calibrate this machine, and hold virtual times against measured ones (four minutes)
	@$(PYTHON) tools/check_model.py $(PROGRAM)

reproduce: $(TRAINER) ## published results beside those of the virtual devices, into results/reproduce.md
	@$(PYTHON) tools/reproduce.py --trainer=$(PROGRAM)

lint: ## clang-format, clang-tidy and cppcheck, where they are installed
	@tools/lint.sh

clean: ## remove what was built
	rm -rf build trainer

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

# --- building ------------------------------------------------------------------------------------

$(CONFIG): tools/probe.sh tools/blas.sh $(BUILD)/asked.txt $(wildcard /var/lib/dpkg/status)
	@CUDA=$(CUDA) CC=$(CC) tools/probe.sh $@ $(BUILD)/found.txt

# A file that changes only when its text does: what depends on it is made again then, and only then.
write_if_changed = @mkdir -p $(@D); printf '%s\n' '$(1)' >$@.new; \
    cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(BUILD)/asked.txt: FORCE
	$(call write_if_changed,CC=$(CC) CUDA=$(CUDA) $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null))

$(BUILD)/commands.txt: FORCE
	$(call write_if_changed,$(COMMANDS))

trainer-build: $(TRAINER)
tests: $(TESTS) $(TOOLS)

$(TRAINER): $(OBJECTS) $(BUILD)/commands.txt
	@echo "  link $@"
	$(Q)$(CC) $(LDFLAGS) $(OBJECTS) -o $@ $(LIBS)

$(BUILD)/%.o: %.c $(BUILD)/commands.txt
	@mkdir -p $(@D)
	@echo "  cc   $@"
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/kernels.o: kernels.cu kernels.h $(BUILD)/commands.txt
	@echo "  nvcc $@"
	$(Q)$(NVCC) $(NVFLAGS) -c $< -o $@

$(BUILD)/tests/%: tests/%.c $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  link $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -MF $@.d $< $(LIBRARY) -o $@ -lcmocka $(LIBS)

$(BUILD)/bench/%: bench/%.c $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  link $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -MF $@.d $< $(LIBRARY) -o $@ $(LIBS)

# The revision is compiled into two files; they are compiled again when it changes, and only then.
$(BUILD)/revision.h: FORCE
	$(call write_if_changed,#define TRAINER_REVISION "$(shell git describe --always --dirty 2>/dev/null || echo unknown)")

$(BUILD)/options.o $(BUILD)/report/environment.o: CFLAGS += -include $(BUILD)/revision.h
$(BUILD)/options.o $(BUILD)/report/environment.o: $(BUILD)/revision.h

# --- GPUs ----------------------------------------------------------------------------------------

test-gpu: ## the GPU path on the real GPUs of this machine, with compute-sanitizer where there is one
	+@$(MAKE_ALL) all tests
	@JSONGET=$(BUILD)/tests/tools/jsonget TRAINER=$(PROGRAM) tools/test-gpu.sh

bench-gpu: ## step time, and its share of what the GPU can do, beside PyTorch's
	+@$(MAKE_ALL) all $(BUILD)/bench/gpu_limits $(BUILD)/tests/tools/jsonget
	@JSONGET=$(BUILD)/tests/tools/jsonget TRAINER=$(PROGRAM) bench/gpu.sh $(BUILD)/bench/gpu_limits

-include tests/softcuda/softcuda.mk

-include $(OBJECTS:.o=.d) $(TESTS:%=%.d) $(TOOLS:%=%.d)
