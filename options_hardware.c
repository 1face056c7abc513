/* options_hardware.c: hardware that is not here: --profile, --workload, and what overrides them
 * (see options.h).
 */
#include "options.h"

#include "option_values.h"

/* Sets the speed of the links that ranks talk over. In gigabits: as networks are sold. */
static void set_link(Profile *profile, double gbps)
{
    double bytes_per_s = gbps * 1e9 / 8;
    if (profile->nodes > 1) {
        profile->network.bytes_per_s = bytes_per_s;
        profile->network_bytes_per_s.points = 0;
        return;
    }
    Link *link = profile->peer.present ? &profile->peer : &profile->host;
    link->bytes_per_s = bytes_per_s;
    profile->ring_bytes_per_s = (Curve){.points = 1, .x = {1}, .y = {bytes_per_s}};
}

static void set_latency(Profile *profile, double us)
{
    double ms = us * 1e-3;
    if (profile->nodes > 1) {
        profile->network.latency_ms = ms;
        profile->network_step_ms = ms;
        return;
    }
    Link *link = profile->peer.present ? &profile->peer : &profile->host;
    link->latency_ms = ms;
    profile->step_ms = ms;
}

void options_set_link(Options *options, int link, int latency)
{
    Profile *profile = &options->hardware.profile;
    if (link < options->link_counts)
        set_link(profile, options->link_gbps[link]);
    if (latency < options->latency_counts)
        set_latency(profile, options->latency_us[latency]);
}

Error options_hardware(Options *options)
{
    if (!options->profile)
        return NULL;
    Profile *profile = &options->hardware.profile;
    TRY(profile_read(options->profile, profile));
    options->hardware.micro_batches = options->accumulate;
    Error error = NULL;
    if (options->workload_name)
        options->workload = workload_read(options->workload_name, &error);
    TRY(error);
    int most = options->device_counts ? options->devices[options->device_counts - 1] : 1;
    if (most > profile->per_node && !profile->network.present)
        return error_make("--devices=%d: %s has %d, and no network to others: give at most %d",
                          most, profile->name, profile->per_node, profile->per_node);
    if (options->mode == MODE_DP && most > profile->per_node)
        return error_make("--devices=%d: impossible: DataParallel is one process, and a machine of "
                          "%s has %d %ss",
                          most, profile->name, profile->per_node, profile->noun);
    if (most > COMM_MOST_VIRTUAL_RANKS && !options->hardware.timing_only)
        return error_make("--devices=%d: beyond %d, one rank stands for all: add --timing-only",
                          most, COMM_MOST_VIRTUAL_RANKS);
    options_set_link(options, 0, 0);
    return NULL;
}
