/* virtual.h: devices that are not here. A virtual device does the arithmetic of a CPU, or none at
 * all, and keeps time by clocks that follow a profile.
 *
 * There is a clock for every host thread, one for every device's queue and one for every link. An
 * operation costs its host thread a launch, begins when thread and queue (and, for a copy, both
 * queues and the link) are ready, and lasts what the profile says. Nothing else moves a clock, so
 * the same command gives the same times to the last digit, however busy the machine is.
 */
#ifndef TRAINER_DEVICE_VIRTUAL_H
#define TRAINER_DEVICE_VIRTUAL_H

#include "device/device.h"
#include "device/profile.h"

#include <stdint.h>

typedef struct Hardware Hardware;

/* What all virtual devices of a command have in common. Made before the fork; the caller's. */
struct Hardware {
    Profile profile;
    bool timing_only;  /* no arithmetic, and no memory where it would be large */
    int micro_batches; /* of a step: its computing time is the sum of as many */
    bool interpreter;  /* as PyTorch: operations cost the interpreter's time, and the threads of a
                          process share one interpreter */
};

/* A device's place among those of its run. */
typedef struct VirtualPlace {
    int index;   /* of all devices of the run */
    int devices; /* of the run */
    int workers; /* devices of this process: one, or all of DataParallel's */
} VirtualPlace;

/* Opens a virtual device. NULL and `*error` on failure. */
Device *device_open_virtual(const Hardware *hardware, VirtualPlace place, Error *error);

/* Machines that the first `devices` devices stand in. */
int hardware_nodes(const Hardware *hardware, int devices);

/* --- for comm/virtual.c ------------------------------------------------------------------------
 */

const Hardware *virtual_hardware(const Device *device);

/* The calling thread's clock. Queueing an operation costs it a launch. */
double virtual_host_ms(void);
void virtual_launch(Device *device);

/* The point where the device's queue stands. */
double virtual_queue_ms(const Device *device);

/* The device could not compute for so long, because something else used it. */
void virtual_delay(Device *device, double ms);

/* How many times as long as this device's computing in the present step that of the run's slowest
 * device takes. At least 1. */
double virtual_slowest(Device *device);

#endif
