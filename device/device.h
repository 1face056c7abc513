/* device.h: what the program asks of a device, be it a CPU core, a GPU, or one that is not here
 * (virtual.h).
 *
 * A device is an engine with its own memory and one queue. Work is done in the order in which it
 * was queued; a call may return before its work is done. The CPU device does the work in the call;
 * the CUDA device queues it on a stream. `float *` and `void *` arguments are memory of the device
 * named first, unless the comment says host.
 *
 * Failure follows from that: a call that queues work cannot know yet whether the work will succeed,
 * so it returns nothing. The first failure stays with the device, later work on it is skipped, and
 * device_sync, device_wait and device_failure report it.
 *
 * A device is used by one thread at a time; different devices may be used by different threads.
 */
#ifndef TRAINER_DEVICE_H
#define TRAINER_DEVICE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Device Device;

typedef enum { DEVICE_CPU, DEVICE_CUDA, DEVICE_VIRTUAL } DeviceKind;

/* What bytes that cross devices carry: one line of the traffic table each. */
typedef enum {
    BYTES_MODEL,
    BYTES_INPUTS,
    BYTES_OUTPUTS,
    BYTES_OUTPUT_GRADIENTS,
    BYTES_PARAMETER_GRADIENTS,
    BYTES_USED_MAP, /* DDP's ranks tell each other which parameters they used */
    BYTES_KINDS
} BytesKind;

/* What a device has done since it was opened. Bytes are counted by whoever moves them, where they
 * move, at both ends. */
typedef struct Counters {
    uint64_t sent[BYTES_KINDS];     /* bytes to other devices */
    uint64_t received[BYTES_KINDS]; /* bytes from other devices */
    uint64_t collectives[BYTES_KINDS];
    uint64_t steps[BYTES_KINDS]; /* of collectives: times that it had to wait for another */
    uint64_t allocated_bytes;    /* now */
    uint64_t peak_bytes;         /* the most at any time */
    uint64_t launches;           /* operations queued */
} Counters;

/* A point in a device's or a communicator's work. Copied freely, owned by nobody: events that need
 * a resource take it from a pool of the device that made them (see device_recycle_events). */
typedef struct Event Event;
struct Event {
    double time_ms; /* host clock when it happened; valid at once on the CPU */
    void *handle;   /* the CUDA event, NULL on the CPU */
    /* How the host waits until it has happened (or, with a handle, until the handle has been
     * recorded); NULL when there is nothing to wait for. `source` and `ticket` are its arguments.
     */
    Error (*wait)(void *source, uint64_t ticket);
    void *source;
    uint64_t ticket;
};

/* --- opening ------------------------------------------------------------------------------ */

/* Number of CUDA devices that a process could use; 0 with `*reason` set (why, and what to do) when
 * there are none. Asks in a throw-away child, so that the caller never touches CUDA and may fork.
 */
int device_cuda_count(const char **reason);

/* Opens device `index` of its kind (CUDA: the ordinal of the GPU). The calling process must not
 * fork afterwards. NULL and `*error` on failure. */
Device *device_open(DeviceKind kind, int index, bool tf32, Error *error);

/* Frees what the device still holds. */
void device_close(Device *device);

DeviceKind device_kind(const Device *device);

/* "CPU core" or the GPU's name; for tables. */
const char *device_name(const Device *device);

/* --- memory ------------------------------------------------------------------------------- */

/* `bytes` of zeroed device memory, 64-byte aligned. Freed by device_free, at the latest by
 * device_close. */
Error device_alloc(Device *device, size_t bytes, void **memory);
void device_free(Device *device, void *memory);

/* Whether the device's memory is the host's, so that samples can be gathered right into it. */
bool device_shares_host_memory(const Device *device);

/* Whether only time is wanted of it: large memory is then not there, and must not be touched. */
bool device_is_timing_only(const Device *device);

/* Tells a virtual clock that the host has brought `samples` samples together. */
void device_host_gathers(Device *device, int samples);

/* Charges memory that somebody else provides (the communicator's heap) to the device's counters. */
void device_charge(Device *device, size_t bytes);

/* Host to device. The host memory may be reused as soon as the call returns. */
void device_upload(Device *device, void *to, const void *host_from, size_t bytes);

/* Device to host; returns when the bytes are there. */
Error device_download(Device *device, void *host_to, const void *from, size_t bytes);

/* The only way in which data crosses devices: ordered after earlier work on both, and later work on
 * both waits for it. Counts `bytes` of `kind` as sent and received. Zero bytes are legal. */
void device_copy(Device *to, void *to_memory, Device *from, const void *from_memory, size_t bytes,
                 BytesKind kind);

/* Whether such copies go straight from one memory to the other: false between GPUs without peer
 * access, whose copies pass through the host's memory. */
bool device_copies_directly(Device *to, Device *from);

void device_zero(Device *device, void *memory, size_t bytes);

/* --- arithmetic --------------------------------------------------------------------------- *
 * Matrices are row-major and dense. Zero rows are legal everywhere. */

/* floats[i] = bytes[i] / 255, exactly rounded (what torchvision's ToTensor does). */
void device_bytes_to_float(Device *device, float *floats, const uint8_t *bytes, size_t count);

/* A linear layer, y = x W^T + b, then ReLU if asked.
 * input [rows, in], weight [out, in], bias [out] -> output [rows, out] */
void device_linear_forward(Device *device, float *output, const float *input, const float *weight,
                           const float *bias, int rows, int in, int out, bool relu);

/* dW = dy^T x and db = the column sums of dy; added to what is there if `accumulate`.
 * output_gradient [rows, out], input [rows, in] -> weight_gradient [out, in], bias_gradient [out].
 * Zero rows give zero gradients. */
void device_linear_backward_params(Device *device, float *weight_gradient, float *bias_gradient,
                                   const float *output_gradient, const float *input, int rows,
                                   int in, int out, bool accumulate);

/* dx = dy W, and where `input`, the ReLU output that was this layer's input, is 0: dx = 0.
 * output_gradient [rows, out], weight [out, in], input [rows, in] -> input_gradient [rows, in] */
void device_linear_backward_input(Device *device, float *input_gradient,
                                  const float *output_gradient, const float *weight,
                                  const float *input, int rows, int in, int out);

/* Sums over the rows of a batch, kept on the device. Double, so that the order of the rows does not
 * show in a float's digits. */
typedef struct LossStats {
    double loss_sum;
    double correct;
} LossStats;

/* Softmax cross-entropy of each row and its gradient with respect to the logits, times `scale` (one
 * over the update's global sample count); adds the rows' losses and correct answers to `*stats`. A
 * row is correct when its label has the largest logit; of equal ones the first counts
 * (torch.argmax). logits [rows, classes], labels [rows] -> gradient [rows, classes]; gradient may
 * be logits. */
void device_softmax_cross_entropy(Device *device, float *gradient, LossStats *stats,
                                  const float *logits, const uint8_t *labels, int rows, int classes,
                                  float scale);

/* into[i] += addend[i] */
void device_add(Device *device, float *into, const float *addend, size_t count);

/* torch.optim.SGD (torch/optim/sgd.py, dampening 0, no Nesterov):
 *     d = gradient + weight_decay * weight;  velocity = momentum * velocity + d;  weight -= lr *
 * velocity With momentum 0, velocity may be NULL. */
void device_sgd_step(Device *device, float *weight, const float *gradient, float *velocity,
                     size_t count, float lr, float momentum, float weight_decay);

typedef struct AdamStep {
    /* double, as in PyTorch: 1 - 0.999 is 0.001 only there; rounded to float where an element meets
     * it */
    double lr, beta1, beta2, epsilon, weight_decay;
    bool decoupled; /* AdamW: weight *= 1 - lr * weight_decay; else weight_decay * weight joins the
                       gradient */
    int64_t step;   /* 1 for the first update: the bias corrections are 1 - beta^step */
} AdamStep;

/* torch.optim.Adam and AdamW (torch/optim/adam.py, adamw.py; no amsgrad). `mean` and `square` are
 * the running moments, zero before the first step. */
void device_adam_step(Device *device, float *weight, const float *gradient, float *mean,
                      float *square, size_t count, const AdamStep *adam);

/* Work that is only described, for virtual devices: a product of `flop`, if there is one, then
 * `operations` elementwise operations that touch `bytes` in all. */
void device_work(Device *device, double flop, double bytes, int operations);

/* --- order and time ----------------------------------------------------------------------- */

/* The point after all work queued so far. */
Event device_record(Device *device);

/* Work queued later on this device happens after the event. The CPU blocks, with the deadline of
 * the event's source; CUDA queues the wait (after the host has waited, where the event asks for
 * it). */
Error device_wait(Device *device, const Event *event);

/* Blocks until all queued work is done; reports the device's first failure. */
Error device_sync(Device *device);

/* The device's first failure so far, without waiting. */
Error device_failure(const Device *device);

/* Milliseconds from one event of this device to another. Both must have happened (device_sync). */
double device_elapsed_ms(Device *device, const Event *from, const Event *to);

/* Every event that this device recorded may be forgotten. Called between turns, so that a long run
 * needs no more events than a turn. */
void device_recycle_events(Device *device);

/* The calling thread's time in milliseconds: the machine's clock (base/clock.h), or, of a thread
 * that works on virtual devices, its own. */
double device_host_clock_ms(void);

/* Virtual clocks go along with work that one thread gives another. The giver takes its clock with
 * device_hand_over, and says how many threads now work at once; the receiver goes on no earlier
 * than that and what the hand-over costs. Real clocks need none of it. */
typedef struct HostClock {
    const struct Hardware *hardware; /* NULL: a real clock */
    double ms;
    int threads;
} HostClock;
HostClock device_hand_over(int threads);
void device_take_over(const HostClock *clock);

/* The calling thread does nothing for so long, and so does its device, whose work is done. */
void device_pause(Device *device, double ms);

/* Step `step` begins: a virtual device may take a little longer over one step than over another. */
void device_begin_step(Device *device, int64_t step);

Counters *device_counters(Device *device);

#endif
