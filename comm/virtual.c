/* virtual.c: collectives among virtual devices: shared memory moves the numbers, a profile says how
 * long it took.
 *
 * Every rank notes, for every operation, the virtual time at which it arrived. When all have, each
 * of them works out the same end: the latest arrival, or the end of the operation before (a
 * communicator has one queue), plus what the profile says that such an operation lasts. So the
 * times depend on the notes alone, not on who ran first on the machine.
 *
 * Beyond COMM_MOST_VIRTUAL_RANKS ranks one rank stands for all. It computes for itself; that the
 * slowest of so many is later than it is follows from the profile's spread.
 */
#include "device/virtual.h"
#include "comm/shm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Arrivals that are kept: more than a rank can be ahead of another's reading of them, which is
 * shm.c's queue and what a rank starts before it settles. */
#define ARRIVALS   1024
#define MOST_AHEAD 512

typedef struct VirtualComm {
    Comm inner; /* a seat of shm.c's in a group of the processes that there are */
    Group inner_group;
    const Hardware *hardware;
    uint32_t started, settled; /* operations */
    Operation asked[ARRIVALS]; /* of operation n: asked[n % ARRIVALS], and so on */
    Event moved[ARRIVALS];     /* its bytes are there */
    double done_ms[ARRIVALS];
    CommSpan span[ARRIVALS];
    double free_ms;     /* the end of the latest operation that is settled */
    double together_ms; /* when all ranks last went on at the same time */
    uint32_t waited;    /* operations that were waited for */
    uint32_t spans_taken;
} VirtualComm;

size_t virtual_arrivals_bytes(int processes)
{
    return sizeof(double) * ARRIVALS * (size_t)processes;
}

static double *arrival_of(const Comm *comm, uint32_t number, int rank)
{
    return &comm->group
                ->arrivals[(number % ARRIVALS) * (size_t)comm->group->processes + (size_t)rank];
}

/* --- how long ----------------------------------------------------------------------------- */

/* The rate at which a ring's bytes pass, in bytes per second: that of the slowest part of it. */
static double ring_rate(const Profile *profile, double bytes, int nodes)
{
    double rate = curve_at(&profile->ring_bytes_per_s, bytes);
    if (nodes == 1)
        return rate;
    double network = profile->network_bytes_per_s.points > 0
                         ? curve_at(&profile->network_bytes_per_s, bytes)
                         : profile->network.bytes_per_s;
    return profile->per_node == 1 ? network : fmin(rate, network);
}

/* `rounds` times round a ring, in each of which a rank passes on the N-th part of the bytes (N - 1)
 * times. An all-reduce goes round twice (Patarasuk and Yuan 2009). */
static double ring_ms(const Profile *profile, double bytes, int ranks, int nodes, int rounds)
{
    double n = ranks;
    double network_steps = nodes > 1 ? nodes : 0;
    double steps_ms =
        rounds * ((n - nodes) * profile->step_ms + network_steps * profile->network_step_ms);
    return profile->base_ms + steps_ms +
           rounds * (n - 1) / n * bytes / ring_rate(profile, bytes, nodes) * 1e3;
}

/* Up a tree and down again (NCCL, src/graph/tuning.cc). */
static double tree_ms(const Profile *profile, double bytes, int ranks, int nodes)
{
    int per_node = ranks < profile->per_node ? ranks : profile->per_node;
    double steps_ms =
        2 * ((per_node - 1) * profile->step_ms + ceil(log2(nodes)) * profile->network_step_ms);
    return profile->base_ms + steps_ms + 2 * bytes / ring_rate(profile, bytes, nodes) * 1e3;
}

/* Rank 0 takes everyone's, one after the other, and sends the sum to everyone. */
static double naive_ms(const Profile *profile, double bytes, int ranks, int nodes)
{
    double step_ms = nodes > 1 ? profile->network_step_ms : profile->step_ms;
    return profile->base_ms +
           2 * (ranks - 1) * (step_ms + bytes / ring_rate(profile, bytes, nodes) * 1e3);
}

static double operation_ms(const Comm *comm, const Operation *operation)
{
    const VirtualComm *self = comm->state;
    const Profile *profile = &self->hardware->profile;
    int ranks = comm->group->world;
    if (ranks == 1)
        return 0;
    int nodes = hardware_nodes(self->hardware, ranks);
    double bytes = (double)(operation->count * comm_type_bytes(operation->type));
    switch (operation->collective) {
    case COLLECTIVE_ALL_REDUCE: {
        double ring = ring_ms(profile, bytes, ranks, nodes, 2);
        double tree = tree_ms(profile, bytes, ranks, nodes);
        return operation->algorithm == COMM_RING    ? ring
               : operation->algorithm == COMM_TREE  ? tree
               : operation->algorithm == COMM_NAIVE ? naive_ms(profile, bytes, ranks, nodes)
                                                    : fmin(ring, tree);
    }
    case COLLECTIVE_BROADCAST:
        return ring_ms(profile, bytes, ranks, nodes, 1);
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER: /* bytes are a rank's row */
        return ring_ms(profile, bytes * ranks, ranks, nodes, 1);
    case COLLECTIVE_BARRIER:
        break;
    }
    return ring_ms(profile, 0, ranks, nodes, 1);
}

/* Counts what a rank's part of it moves: in a ring and in a tree the same, on average over ranks.
 */
static void count(Comm *comm, const Operation *operation)
{
    double n = comm->group->world;
    double bytes = (double)(operation->count * comm_type_bytes(operation->type));
    double moved = operation->collective == COLLECTIVE_ALL_REDUCE  ? 2 * bytes * (n - 1) / n
                   : operation->collective == COLLECTIVE_BROADCAST ? bytes * (n - 1) / n
                   : operation->collective == COLLECTIVE_BARRIER   ? 0
                                                                   : bytes * (n - 1);
    Counters *counters = device_counters(comm->device);
    counters->sent[operation->kind] += (uint64_t)moved;
    counters->received[operation->kind] += (uint64_t)moved;
    counters->collectives[operation->kind] += operation->collective == COLLECTIVE_ALL_REDUCE;
}

/* --- settling ----------------------------------------------------------------------------- */

/* When the last of all ranks came to operation `number`. */
static double last_arrival(const Comm *comm, uint32_t number)
{
    const VirtualComm *self = comm->state;
    double last_ms = *arrival_of(comm, number, 0);
    for (int rank = 1; rank < comm->group->processes; rank++)
        last_ms = fmax(last_ms, *arrival_of(comm, number, rank));
    if (comm->group->processes == comm->group->world)
        return last_ms;
    double slowest = virtual_slowest(comm->device);
    return self->together_ms + (last_ms - self->together_ms) * slowest;
}

/* Works out the ends of operations up to `number`, when all ranks have come to them. */
static Error settle(Comm *comm, uint32_t number)
{
    VirtualComm *self = comm->state;
    while (self->settled < number) {
        uint32_t next = ++self->settled;
        size_t slot = next % ARRIVALS;
        Event *moved = &self->moved[slot];
        if (moved->wait)
            TRY(moved->wait(moved->source, moved->ticket));
        double last_ms = last_arrival(comm, next);
        /* behind an earlier operation a rank waits for that one's end, not for a colleague */
        double start_ms = fmax(*arrival_of(comm, next, comm->rank), self->free_ms);
        double begin_ms = fmax(last_ms, self->free_ms);
        self->free_ms = begin_ms + operation_ms(comm, &self->asked[slot]);
        self->done_ms[slot] = self->free_ms;
        self->span[slot] = (CommSpan){
            .start_ms = start_ms,
            .arrived_ms = begin_ms,
            .done_ms = self->free_ms,
        };
        count(comm, &self->asked[slot]);
    }
    return NULL;
}

/* While the device computed, operations took their share of it: its queue stands that much later.
 */
static void charge_share(Comm *comm, uint32_t number)
{
    VirtualComm *self = comm->state;
    double share = self->hardware->profile.device_share;
    double computed_ms = virtual_queue_ms(comm->device), beside_ms = 0;
    for (; self->waited < number; self->waited++) {
        const CommSpan *span = &self->span[(self->waited + 1) % ARRIVALS];
        beside_ms += fmax(0, fmin(span->done_ms, computed_ms) - span->arrived_ms);
    }
    if (beside_ms > 0 && share > 0)
        virtual_delay(comm->device, share * beside_ms);
}

/* Event.wait: afterwards the event's handle points to the time of its end. */
static Error virtual_comm_wait(void *source, uint64_t ticket)
{
    Comm *comm = source;
    VirtualComm *self = comm->state;
    if (self->waited < ticket) { /* the first wait after computing: for all that was started */
        TRY(settle(comm, self->started));
        charge_share(comm, self->started);
    }
    self->together_ms = fmax(self->together_ms, self->done_ms[ticket % ARRIVALS]);
    return NULL;
}

/* --- the transport ------------------------------------------------------------------------ */

/* With timing only, the model's numbers stay where they are; those that steer the program travel.
 */
static Operation what_moves(const Comm *comm, const Operation *operation)
{
    const VirtualComm *self = comm->state;
    Operation moves = *operation;
    if (self->hardware->timing_only && operation->type == COMM_FLOAT)
        moves.count = 0;
    moves.after = (Event){0};
    return moves;
}

/* Everyone has what the rank that stands for all has. */
static void stand_for_all(const Comm *comm, const Operation *operation)
{
    size_t row = operation->count * comm_type_bytes(operation->type);
    if (operation->collective != COLLECTIVE_ALL_GATHER ||
        comm->group->processes == comm->group->world || operation->type == COMM_FLOAT)
        return;
    for (int rank = 0; rank < comm->group->world; rank++)
        if ((const unsigned char *)operation->to + (size_t)rank * row != operation->from)
            memcpy((unsigned char *)operation->to + (size_t)rank * row, operation->from, row);
}

static Error virtual_start(Comm *comm, const Operation *operation, Event *done)
{
    VirtualComm *self = comm->state;
    if (self->started - self->settled >= MOST_AHEAD)
        TRY(settle(comm, self->started - MOST_AHEAD / 2));
    virtual_launch(comm->device);
    uint32_t number = ++self->started;
    size_t slot = number % ARRIVALS;
    self->asked[slot] = *operation;
    *arrival_of(comm, number, comm->rank) = fmax(virtual_host_ms(), operation->after.time_ms);
    Operation moves = what_moves(comm, operation);
    TRY(shm_transport.start(&self->inner, &moves, &self->moved[slot]));
    stand_for_all(comm, operation);
    *done = (Event){.wait = virtual_comm_wait,
                    .source = comm,
                    .ticket = number,
                    .handle = &self->done_ms[slot]};
    return NULL;
}

static int virtual_take_spans(Comm *comm, CommSpan *spans, int most)
{
    VirtualComm *self = comm->state;
    int taken = 0;
    if (self->settled - self->spans_taken >= ARRIVALS)
        self->spans_taken = self->settled - (ARRIVALS - 1);
    while (taken < most && self->spans_taken != self->settled)
        spans[taken++] = self->span[++self->spans_taken % ARRIVALS];
    return taken;
}

static Error virtual_comm_alloc(Comm *comm, size_t bytes, void **memory)
{
    VirtualComm *self = comm->state;
    return shm_transport.alloc(&self->inner, bytes, memory);
}

static void virtual_comm_close(Comm *comm)
{
    VirtualComm *self = comm->state;
    shm_transport.close(&self->inner);
    free(self);
}

Error virtual_open_seat(Comm *comm)
{
    static const Transport transport = {
        .name = "virtual links",
        .alloc = virtual_comm_alloc,
        .start = virtual_start,
        .take_spans = virtual_take_spans,
        .close = virtual_comm_close,
    };
    VirtualComm *self = calloc(1, sizeof *self);
    if (!self)
        return error_make("no memory for a communicator");
    self->hardware = virtual_hardware(comm->device);
    self->inner_group = *comm->group;
    self->inner_group.world = comm->group->processes;
    self->inner = *comm;
    self->inner.group = &self->inner_group;
    self->inner.device = NULL; /* what moves is counted here */
    self->inner.background = false;
    self->inner.untouched = self->hardware->timing_only;
    comm->state = self;
    comm->transport = &transport;
    Error error = shm_open_seat(&self->inner);
    if (error)
        free(self);
    return error;
}
