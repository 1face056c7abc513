/* comm.h: collectives among the ranks of a group, and copies among the devices of one process.
 *
 * A communicator is one rank's seat in a group. Every rank calls the same operations in the same
 * order. They are started by the call, run beside the caller, complete in the order in which they
 * were started, and are awaited with device_wait on the event that they return:
 *
 *     Event done;
 *     TRY(comm_all_reduce(comm, gradient, count, COMM_FLOAT, COMM_SUM, device_record(device),
 * &done));
 *     ...                                      more backward pass
 *     TRY(device_wait(device, &done));         now gradient holds the sum over all ranks
 *
 * An operation that fails (a rank that did not arrive before the deadline, ranks that asked for
 * different things, an error of the transport) gives an Error that names rank, operation and
 * sequence number; the communicator is then of no further use. There are no globals: a test may
 * open all seats of a group as threads of one process.
 */
#ifndef TRAINER_COMM_H
#define TRAINER_COMM_H

#include "base/error.h"
#include "device/device.h"

typedef struct Group Group;
typedef struct Comm Comm;

typedef enum {
    COMM_SHM,    /* shared memory of one machine; with CUDA devices staged through the host */
    COMM_NCCL,   /* NCCL: one GPU per rank */
    COMM_VIRTUAL /* for virtual devices: shared memory, and virtual clocks */
} CommKind;

/* Of virtual ranks, so many are processes; beyond, one stands for all. */
#define COMM_MOST_VIRTUAL_RANKS 16

/* The processes that a group of `world` ranks has. */
int comm_processes(CommKind kind, int world);

typedef enum { COMM_FLOAT, COMM_DOUBLE, COMM_INT32, COMM_UINT64 } CommType;

/* COMM_AVG is the sum divided by the world size (for integers rounded towards zero). */
typedef enum { COMM_SUM, COMM_AVG, COMM_MIN, COMM_MAX, COMM_PROD } CommOp;

/* How shared memory does an all-reduce (comm/algorithms.c); NCCL chooses by itself. */
typedef enum {
    COMM_DIRECT, /* each rank adds up its slice over all ranks and writes it to all */
    COMM_RING,   /* slices travel twice round a ring */
    COMM_TREE,   /* sums go up a binary tree, and the last one down */
    COMM_NAIVE   /* rank 0 adds up all and sends it back */
} CommAlgorithm;

/* "direct", "ring", "tree" or "naive" */
const char *comm_algorithm_name(CommAlgorithm algorithm);

/* Makes a group of `world` ranks, each with `bytes_per_rank` of a symmetric heap: what is allocated
 * in the same order lies at the same offset on every rank. Called once, before the fork; all memory
 * is one anonymous mapping, so nothing is left behind whoever is killed. NULL and `*error` on
 * failure. */
Group *comm_group(CommKind kind, int world, size_t bytes_per_rank, Error *error);

/* Unmaps the group. Each process does this for itself; others are not disturbed. */
void comm_group_free(Group *group);

/* Heap bytes that an allocation of `bytes` uses up: for sizing bytes_per_rank. */
size_t comm_heap_bytes(size_t bytes);

/* Takes seat `rank`. `timeout_s` bounds the wait for other ranks in each operation; time during
 * which the whole group sleeps (between turns) does not count. `background`: a communication thread
 * (called "comm") carries the operations while the caller computes; without it, device_wait does.
 * Collective: returns when NCCL's group is complete; shared memory has nothing to wait for. */
Comm *comm_open(Group *group, int rank, Device *device, double timeout_s, bool background,
                Error *error);

/* Ends the communication thread and gives the seat back. Not collective. */
void comm_close(Comm *comm);

int comm_rank(const Comm *comm);
int comm_world(const Comm *comm);

/* "shared memory", "shared memory, staged through the host", "NCCL": for tables. */
const char *comm_transport(const Comm *comm);

/* `bytes` of zeroed memory that collectives can use, 64-byte aligned, charged to the device's
 * counters. Lives until the group is freed (shared memory) or comm_close (NCCL). */
Error comm_alloc(Comm *comm, size_t bytes, void **memory);

/* Each of these starts an operation once `after` has happened on this rank's device, and gives the
 * event of its completion on every rank. Buffers come from comm_alloc, the same one on every rank.
 */

/* buffer[i] = op over all ranks of buffer[i], in place; `count` elements. Every rank ends up with
 * the same bits. Sums are taken in rank order, unless comm_use chose a ring or a tree or NCCL takes
 * them. */
Error comm_all_reduce(Comm *comm, void *buffer, size_t count, CommType type, CommOp op, Event after,
                      Event *done);

/* Rank `root`'s buffer to everyone's, in place. */
Error comm_broadcast(Comm *comm, void *buffer, size_t count, CommType type, int root, Event after,
                     Event *done);

/* Everyone's `from` [count] to everyone's `to` [world, count], in rank order. The buffers may not
 * overlap, unless `from` is this rank's own row of `to`. */
Error comm_all_gather(Comm *comm, void *to, const void *from, size_t count, CommType type,
                      Event after, Event *done);

/* to [count] = this rank's row of the reduction of everyone's `from` [world, count]. The buffers
 * may not overlap. */
Error comm_reduce_scatter(Comm *comm, void *to, const void *from, size_t count, CommType type,
                          CommOp op, Event after, Event *done);

/* Returns when every rank has called it. */
Error comm_barrier(Comm *comm);

/* Says that the caller goes on computing: the communication thread may begin what was started.
 * Without it an operation begins, at the latest, in the device_wait for it. That is the quicker way
 * for an operation which the caller awaits at once: it saves waking a thread. NCCL always begins.
 */
void comm_in_background(Comm *comm);

/* What one operation did, for the timeline. Host clock, ms. */
typedef struct CommSpan {
    double start_ms;   /* this rank arrived */
    double arrived_ms; /* the last rank had arrived */
    double done_ms;    /* every rank had finished */
} CommSpan;

/* Hands over the spans of the operations completed since the last call, oldest first, at most
 * `most`; returns how many. NCCL gives none: it cannot tell waiting from moving. */
int comm_take_spans(Comm *comm, CommSpan *spans, int most);

/* Bytes that gradients' operations moved are counted in the device's counters under `kind`
 * (BYTES_PARAMETER_GRADIENTS until this is called). */
void comm_count_as(Comm *comm, BytesKind kind);

/* All-reduces started from now on go this way (COMM_DIRECT until this is called): the same on every
 * rank. NCCL does not listen. */
void comm_use(Comm *comm, CommAlgorithm algorithm);

/* Operations started from now on carry bucket `bucket`, which messages about them then name; -1, as
 * at first: none. */
void comm_name_bucket(Comm *comm, int bucket);

/* What a rank started last: "all_reduce #12", or "none". Any process may ask, also about a rank
 * that is dead. */
void comm_group_last_operation(const Group *group, int rank, char *text, size_t size);

/* --- the devices of one process ----------------------------------------------------------- *
 * What DataParallel needs: the model from device 0 to every other, gradients back. */

typedef struct Peers Peers;

/* `star`: device 0 copies to and from each other device in turn (always so on CPUs); otherwise NCCL
 * is used where every device is a GPU of its own. The array of devices stays the caller's. */
Peers *peers_open(Device *const *devices, int count, bool star, Error *error);
void peers_close(Peers *peers);
const char *peers_transport(const Peers *peers);

/* buffers[i][0..count) = buffers[0][0..count) for the first `devices` devices. */
Error peers_broadcast(Peers *peers, float *const *buffers, int devices, size_t count,
                      BytesKind kind);

/* buffers[0][j] += buffers[1][j] + ... in the order of the devices, for the first `devices` of
 * them. Gradients, so counted as BYTES_PARAMETER_GRADIENTS. */
Error peers_reduce(Peers *peers, float *const *buffers, int devices, size_t count);

#endif
