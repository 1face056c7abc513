/* profile.c: reading descriptions of hardware (see profile.h). */
#include "device/profile.h"

#include "base/named_file.h"
#include "base/strict_json.h"

#include <limits.h>
#include <math.h>

#define MOST_PER_NODE 4096
#define MOST_NODES    100000

/* --- curves -------------------------------------------------------------------------------- */

double curve_at(const Curve *curve, double x)
{
    int last = curve->points - 1;
    if (last < 0)
        return 0;
    if (x <= curve->x[0])
        return curve->y[0];
    if (x >= curve->x[last])
        return curve->y[last];
    int i = 1;
    while (x > curve->x[i])
        i++;
    double share = log(x / curve->x[i - 1]) / log(curve->x[i] / curve->x[i - 1]);
    return curve->y[i - 1] * pow(curve->y[i] / curve->y[i - 1], share);
}

/* A curve whose second numbers count `unit`s. */
static void read_curve(StrictObject *object, const char *key, double unit, Curve *curve)
{
    curve->points = strict_pairs(object, key, CURVE_MOST_POINTS, curve->x, curve->y);
    for (int i = 0; i < curve->points; i++)
        curve->y[i] *= unit;
}

/* --- the parts of a profile ---------------------------------------------------------------- */

static double read_ms(StrictObject *object, const char *key_us)
{
    return strict_amount(object, key_us) / 1e3;
}

/* The rates of a linear layer's operations at all shapes that can be made of the sizes. */
static void read_layers(StrictObject *devices, const char *key, LayerTable *table)
{
    static const char *const works[LAYER_WORKS] = {"forward", "backward_params", "backward_input"};
    if (!strict_has(devices, key))
        return;
    StrictObject layers = strict_object(devices, key);
    table->sizes = strict_positives(&layers, "sizes", LAYER_MOST_SIZES, table->size);
    for (int i = 1; i < table->sizes; i++)
        if (!(table->size[i] > table->size[i - 1]))
            strict_mistake(&layers, "sizes", "must ascend, but %.15g follows %.15g", table->size[i],
                           table->size[i - 1]);
    int shapes = table->sizes * table->sizes * table->sizes;
    for (int work = 0; work < LAYER_WORKS; work++) {
        int rates =
            strict_positives(&layers, works[work], LAYER_MOST_RATES, table->flop_per_s[work]);
        if (shapes > 0 && rates > 0 && rates != shapes)
            strict_mistake(&layers, works[work], "%d rates, but %d sizes make %d shapes", rates,
                           table->sizes, shapes);
    }
    strict_close(&layers);
}

static void read_optional_curve(StrictObject *object, const char *key, double unit, Curve *curve)
{
    if (strict_has(object, key))
        read_curve(object, key, unit, curve);
}

static void read_devices(StrictObject *root, Profile *profile)
{
    StrictObject devices = strict_object(root, "devices");
    strict_text(&devices, "noun", profile->noun, sizeof profile->noun);
    profile->per_node = (int)strict_whole(&devices, "per_node", 1, MOST_PER_NODE);
    profile->nodes = (int)strict_whole(&devices, "nodes", 1, MOST_NODES);
    profile->memory_bytes = strict_positive(&devices, "memory_gb") * 1e9;
    read_curve(&devices, "memory_gb_per_s", 1e9, &profile->memory_bytes_per_s);
    read_curve(&devices, "products", 1, &profile->flop_per_s);
    profile->busy_flop_per_s = profile->flop_per_s;
    read_optional_curve(&devices, "busy_memory_gb_per_s", 1e9, &profile->busy_memory_bytes_per_s);
    read_optional_curve(&devices, "busy_products", 1, &profile->busy_flop_per_s);
    read_layers(&devices, "layers", &profile->layers);
    profile->busy_layers = profile->layers;
    read_layers(&devices, "busy_layers", &profile->busy_layers);
    read_optional_curve(&devices, "convert_gb_per_s", 1e9, &profile->convert_bytes_per_s);
    read_optional_curve(&devices, "loss_gb_per_s", 1e9, &profile->loss_bytes_per_s);
    profile->shortest_ms = read_ms(&devices, "shortest_us");
    profile->asynchronous = strict_flag(&devices, "asynchronous");
    profile->spread = strict_fraction(&devices, "spread");
    strict_close(&devices);
}

static void read_host(StrictObject *root, Profile *profile)
{
    StrictObject host = strict_object(root, "host");
    profile->launch_ms = read_ms(&host, "launch_us");
    profile->hand_over_ms = read_ms(&host, "hand_over_us");
    profile->interpreter_ms = read_ms(&host, "interpreter_us");
    if (strict_has(&host, "sample_us"))
        profile->sample_ms = read_ms(&host, "sample_us");
    strict_close(&host);
}

/* A machine has one network link, so a network need not say that it is shared. */
static void read_link(StrictObject *links, const char *key, bool is_network, Link *link)
{
    StrictObject object = strict_object(links, key);
    link->present = true;
    link->bytes_per_s = strict_positive(&object, "gb_per_s") * 1e9;
    link->latency_ms = read_ms(&object, "latency_us");
    link->shared = is_network;
    if (!is_network || strict_has(&object, "shared"))
        link->shared = strict_flag(&object, "shared");
    strict_close(&object);
}

static void read_links(StrictObject *root, Profile *profile)
{
    StrictObject links = strict_object(root, "links");
    read_link(&links, "host", false, &profile->host);
    if (!strict_is_null(&links, "peer"))
        read_link(&links, "peer", false, &profile->peer);
    if (!strict_is_null(&links, "network"))
        read_link(&links, "network", true, &profile->network);
    else if (profile->nodes > 1)
        strict_mistake(&links, "network", "null, but devices.nodes is %d: machines need a network",
                       profile->nodes);
    strict_close(&links);
}

static void read_collectives(StrictObject *root, Profile *profile)
{
    StrictObject collectives = strict_object(root, "collectives");
    profile->base_ms = read_ms(&collectives, "base_us");
    profile->step_ms = read_ms(&collectives, "step_us");
    profile->network_step_ms = read_ms(&collectives, "network_step_us");
    read_curve(&collectives, "ring_gb_per_s", 1e9, &profile->ring_bytes_per_s);
    read_optional_curve(&collectives, "network_gb_per_s", 1e9, &profile->network_bytes_per_s);
    if (profile->network_bytes_per_s.points > 0 && !profile->network.present)
        strict_mistake(&collectives, "network_gb_per_s", "but links.network is null");
    profile->device_share = strict_fraction(&collectives, "device_share");
    strict_close(&collectives);
}

/* --- profiles ------------------------------------------------------------------------------ */

Error profile_read(const char *name, Profile *profile)
{
    char path[PATH_MAX];
    TRY(named_file("profiles", "profile", name, path, sizeof path));
    *profile = (Profile){0};
    StrictFile file;
    StrictObject root = strict_open(&file, path);
    strict_whole(&root, "schema", 1, 1);
    strict_text(&root, "name", profile->name, sizeof profile->name);
    strict_text(&root, "about", profile->about, sizeof profile->about);
    strict_text_list(&root, "sources");
    strict_text_list(&root, "fitted");
    strict_text_object(&root, "notes");
    read_devices(&root, profile);
    read_host(&root, profile);
    read_links(&root, profile);
    read_collectives(&root, profile);
    strict_close(&root);
    return strict_end(&file);
}

void profile_names(char *text, size_t size)
{
    named_file_list("profiles", text, size);
}
