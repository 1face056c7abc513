/* transport.h: what a kind of communicator has to provide. Included by comm.c, the transports
 * (shm.c, nccl.c, ...) and nobody else.
 */
#ifndef TRAINER_COMM_TRANSPORT_H
#define TRAINER_COMM_TRANSPORT_H

#include "base/futex.h"
#include "comm/comm.h"

typedef enum {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BARRIER
} Collective;

/* One operation as its caller asked for it. */
typedef struct Operation {
    Collective collective;
    void *to;
    const void *from; /* the same as `to` where the operation is in place */
    size_t count;     /* elements, as the public function defines it */
    CommType type;
    CommOp op;
    int root;
    CommAlgorithm algorithm; /* of an all-reduce in shared memory */
    Event after;
    BytesKind kind; /* what its bytes are counted as */
    int bucket;     /* that it carries; -1: none */
} Operation;

typedef struct Transport {
    const char *name; /* for tables */
    Error (*alloc)(Comm *comm, size_t bytes, void **memory);
    Error (*start)(Comm *comm, const Operation *operation, Event *done);
    void (*in_background)(Comm *comm);
    int (*take_spans)(Comm *comm, CommSpan *spans, int most);
    void (*close)(Comm *comm);
} Transport;

#define COMM_NCCL_ID_BYTES 128

/* A group; what it points to is shared by all ranks, in one anonymous mapping. */
struct Group {
    CommKind kind;
    int world;
    int processes; /* ranks that are there: all of them, but for virtual ones */
    int cores;     /* that the ranks share: with one each, they may spin while they wait */
    size_t mapped_bytes;
    size_t bytes_per_rank;
    unsigned char *memory;  /* the mapping: seats (struct Seat, shm.c), the NCCL id, then heaps */
    Word *nccl_ready;       /* in the mapping: 1 when nccl_id is valid */
    unsigned char *nccl_id; /* in the mapping: rank 0's ncclUniqueId, published after the fork */
    _Atomic uint64_t
        *last; /* in the mapping: [world], what each rank started last: sequence * 8 + collective */
    void *seats;          /* in the mapping: [world] of shm.c's struct Seat */
    double *arrivals;     /* in the mapping: virtual ranks' (comm/virtual.c) */
    unsigned char *heaps; /* in the mapping: [processes][bytes_per_rank] */
};

struct Comm {
    const Transport *transport;
    Group *group;
    int rank;
    Device *device;
    double timeout_s;
    bool background;
    BytesKind kind;
    int bucket;
    CommAlgorithm algorithm;
    bool untouched;    /* memory is handed out as it is mapped: zero, and not there until used */
    uint64_t sequence; /* operations started */
    char last_text[64];
    void *state; /* the transport's own */
};

/* Set transport and state of a seat whose other fields are filled in. */
Error shm_open_seat(Comm *comm);
Error staged_open_seat(Comm *comm); /* shared memory for CUDA devices: through the host */
Error nccl_open_seat(Comm *comm);
Error virtual_open_seat(Comm *comm);

/* "all_reduce" and so on; bytes of an element. */
const char *collective_name(Collective collective);
size_t comm_type_bytes(CommType type);

/* Bytes for the seats of a group (known to shm.c). */
size_t shm_seats_bytes(int world);

/* Bytes for the arrivals of virtual ranks (known to virtual.c). */
size_t virtual_arrivals_bytes(int processes);

/* NCCL's part of struct Peers (comm/nccl.c); NULL functions where NCCL is not built in. */
typedef struct PeersTransport {
    void *(*open)(Device *const *devices, int count, Error *error); /* NULL, no error: use copies */
    Error (*broadcast)(void *state, float *const *buffers, int devices, size_t count,
                       BytesKind kind);
    Error (*reduce)(void *state, float *const *buffers, int devices, size_t count);
    void (*close)(void *state);
} PeersTransport;

extern const PeersTransport nccl_peers;

#endif
