/* profile.c: reading a description of hardware (see profile.h). */
#include "device/profile.h"

#include "base/strict_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GB       1e9
#define MS_IN_US 1e-3

double curve_at(const Curve *curve, double x)
{
    int last = curve->points - 1;
    if (last < 0)
        return NAN;
    if (x <= curve->x[0])
        return curve->y[0];
    if (x >= curve->x[last])
        return curve->y[last];
    int i = 1;
    while (x > curve->x[i])
        i++;
    double part = log(x / curve->x[i - 1]) / log(curve->x[i] / curve->x[i - 1]);
    return curve->y[i - 1] * pow(curve->y[i] / curve->y[i - 1], part);
}

/* --- fields ------------------------------------------------------------------------------- */

static void read_curve(StrictJson *json, const char *field, double unit, Curve *curve)
{
    curve->points = strict_pairs(json, field, curve->x, curve->y, CURVE_MOST_POINTS);
    for (int i = 0; i < curve->points; i++)
        curve->y[i] *= unit;
}

static void read_us(StrictJson *json, const char *field, double *ms)
{
    double us = 0;
    if (strict_number(json, field, 0, 1e7, &us))
        *ms = us * MS_IN_US;
}

static void read_link(StrictJson *json, const char *name, bool may_lack, Link *link)
{
    char field[64];
    snprintf(field, sizeof field, "links.%s", name);
    if (may_lack && strict_null(json, field))
        return;
    double gb_per_s = 0;
    snprintf(field, sizeof field, "links.%s.gb_per_s", name);
    link->present = strict_number(json, field, 1e-6, 1e6, &gb_per_s);
    link->bytes_per_s = gb_per_s * GB;
    snprintf(field, sizeof field, "links.%s.latency_us", name);
    read_us(json, field, &link->latency_ms);
    snprintf(field, sizeof field, "links.%s.shared", name);
    if (strcmp(name, "network") != 0 || strict_has(json, field)) /* a machine's always is */
        strict_flag(json, field, &link->shared);
}

static void read_devices(StrictJson *json, Profile *profile)
{
    double memory_gb = 0;
    strict_text(json, "devices.noun", profile->noun, sizeof profile->noun);
    strict_whole(json, "devices.per_node", 1, 4096, &profile->per_node);
    strict_whole(json, "devices.nodes", 1, 100000, &profile->nodes);
    strict_number(json, "devices.memory_gb", 1e-3, 1e6, &memory_gb);
    profile->memory_bytes = memory_gb * GB;
    read_curve(json, "devices.memory_gb_per_s", GB, &profile->memory_bytes_per_s);
    read_curve(json, "devices.products", 1, &profile->flop_per_s);
    if (strict_has(json, "devices.busy_memory_gb_per_s"))
        read_curve(json, "devices.busy_memory_gb_per_s", GB, &profile->busy_memory_bytes_per_s);
    if (strict_has(json, "devices.busy_products"))
        read_curve(json, "devices.busy_products", 1, &profile->busy_flop_per_s);
    read_us(json, "devices.shortest_us", &profile->shortest_ms);
    strict_flag(json, "devices.asynchronous", &profile->asynchronous);
    strict_number(json, "devices.spread", 0, 1, &profile->spread);
}

static void read_collectives(StrictJson *json, Profile *profile)
{
    read_us(json, "collectives.base_us", &profile->base_ms);
    read_us(json, "collectives.step_us", &profile->step_ms);
    read_us(json, "collectives.network_step_us", &profile->network_step_ms);
    read_curve(json, "collectives.ring_gb_per_s", GB, &profile->ring_bytes_per_s);
    if (strict_has(json, "collectives.network_gb_per_s"))
        read_curve(json, "collectives.network_gb_per_s", GB, &profile->network_bytes_per_s);
    strict_number(json, "collectives.device_share", 0, 1, &profile->device_share);
}

static void read_all(StrictJson *json, Profile *profile)
{
    int schema = 0;
    strict_whole(json, "schema", 1, 1, &schema);
    strict_text(json, "name", profile->name, sizeof profile->name);
    strict_text(json, "about", profile->about, sizeof profile->about);
    strict_any(json, "sources");
    strict_any(json, "fitted");
    strict_any(json, "notes");
    read_devices(json, profile);
    read_us(json, "host.launch_us", &profile->launch_ms);
    read_us(json, "host.hand_over_us", &profile->hand_over_ms);
    read_us(json, "host.interpreter_us", &profile->interpreter_ms);
    if (strict_has(json, "host.sample_us"))
        read_us(json, "host.sample_us", &profile->sample_ms);
    read_link(json, "host", false, &profile->host);
    read_link(json, "peer", true, &profile->peer);
    read_link(json, "network", true, &profile->network);
    read_collectives(json, profile);
    if (profile->nodes > 1 && !profile->network.present)
        strict_fail(json, "links.network", "must be there where devices.nodes is more than 1");
}

/* --- the file ----------------------------------------------------------------------------- */

Error profile_read(const char *name, Profile *profile)
{
    *profile = (Profile){0};
    char path[700];
    if (!strict_find("profiles", name, path, sizeof path)) {
        char names[600];
        profile_names(names, sizeof names);
        return error_make("--profile=%.60s: no such profile; there are %s, or give a file", name,
                          *names ? names : "none here");
    }
    StrictJson json;
    TRY(strict_open(&json, path));
    read_all(&json, profile);
    return strict_close(&json);
}

void profile_names(char *text, size_t size)
{
    strict_names("profiles", text, size);
}
