/* profile.h: a description of hardware that is not here, read from a file (profiles/README.md says
 * what each field means): what a virtual device's clock follows.
 */
#ifndef TRAINER_DEVICE_PROFILE_H
#define TRAINER_DEVICE_PROFILE_H

#include "base/error.h"
#include "device/layer_table.h"

#include <stdbool.h>
#include <stddef.h>

#define CURVE_MOST_POINTS 64

/* A quantity that depends on a size: points in ascending order of x, interpolated between the
 * logarithms of both numbers, and flat beyond the ends. */
typedef struct Curve {
    int points; /* 0: there is none */
    double x[CURVE_MOST_POINTS], y[CURVE_MOST_POINTS];
} Curve;

double curve_at(const Curve *curve, double x);

typedef struct Link {
    bool present;
    double bytes_per_s; /* one way */
    double latency_ms;
    bool shared; /* by all devices of a machine */
} Link;

typedef struct Profile {
    char name[64];
    char about[256];
    char noun[16]; /* "GPU", "core" */
    int per_node, nodes;
    double memory_bytes;           /* of a device */
    Curve memory_bytes_per_s;      /* by bytes touched */
    Curve busy_memory_bytes_per_s; /* while all devices of the machine compute; else the same */
    Curve flop_per_s;              /* of a product, by its FLOP */
    Curve busy_flop_per_s;         /* while all devices of the machine compute; else the same */
    LayerTable layers;             /* of a linear layer's operations; none: by FLOP and bytes */
    LayerTable busy_layers;        /* while all devices of the machine compute; else the same */
    Curve convert_bytes_per_s;     /* of making floats of bytes, by bytes touched; none: memory's */
    Curve loss_bytes_per_s;        /* of softmax and cross-entropy, by bytes touched; the same */
    double shortest_ms;
    bool asynchronous;
    double spread; /* standard deviation of a step's computing time, as a fraction */

    double launch_ms, hand_over_ms, interpreter_ms, sample_ms;

    Link host, peer, network;

    double base_ms, step_ms, network_step_ms;
    Curve ring_bytes_per_s;    /* bus bandwidth inside a machine, by message size in bytes */
    Curve network_bytes_per_s; /* between machines; none: the network link's */
    double device_share;
} Profile;

/* Reads a profile: a file, or the name of one in the folder profiles/ beside the program or in the
 * working directory. The Error names the file, and the field that is unknown, missing or
 * impossible. */
Error profile_read(const char *name, Profile *profile);

/* The names of the profiles that are there, with commas between them, for messages. */
void profile_names(char *text, size_t size);

#endif
