/* test_profile.c: profiles and workloads: all that are shipped can be read, and every kind of
 * mistake in such a file is named. Run it in the repository's root. */
#include "device/profile.h"
#include "workload.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char made[64]; /* the file that the cases write */

/* --- what the cases share ------------------------------------------------------------------ */

static const char profile_text[] =
    "{\"schema\": 1, \"name\": \"P\", \"about\": \"made up\", \"sources\": [\"s\"],"
    " \"fitted\": [], \"notes\": {\"a\": \"b\"},"
    " \"devices\": {\"noun\": \"GPU\", \"per_node\": 4, \"nodes\": 2, \"memory_gb\": 16,"
    "  \"memory_gb_per_s\": [[1000, 10], [100000, 1000]], \"products\": [[10, 2e9], [20, 3e9]],"
    "  \"busy_products\": [[10, 1e9]], \"shortest_us\": 2, \"asynchronous\": true,"
    "  \"spread\": 0.25, \"busy_memory_gb_per_s\": [[1000, 5]],"
    "  \"layers\": {\"sizes\": [2, 8], \"forward\": [1, 2, 4, 8, 16, 32, 64, 128],"
    "   \"backward_params\": [3, 3, 3, 3, 3, 3, 3, 3],"
    "   \"backward_input\": [5, 5, 5, 5, 5, 5, 5, 5]},"
    "  \"busy_layers\": {\"sizes\": [4], \"forward\": [6], \"backward_params\": [7],"
    "   \"backward_input\": [8]},"
    "  \"convert_gb_per_s\": [[10, 2]], \"loss_gb_per_s\": [[10, 3], [20, 4]]},"
    " \"host\": {\"launch_us\": 4, \"hand_over_us\": 10, \"interpreter_us\": 8,"
    "  \"sample_us\": 500},"
    " \"links\": {\"host\": {\"gb_per_s\": 12, \"latency_us\": 10, \"shared\": false},"
    "  \"peer\": {\"gb_per_s\": 48, \"latency_us\": 9, \"shared\": true},"
    "  \"network\": {\"gb_per_s\": 12.5, \"latency_us\": 15}},"
    " \"collectives\": {\"base_us\": 8.4, \"step_us\": 1.9, \"network_step_us\": 130,"
    "  \"ring_gb_per_s\": [[32768, 6]], \"network_gb_per_s\": [[64, 2.5]],"
    "  \"device_share\": 0.05}}";

static const char workload_text[] =
    "{\"schema\": 1, \"name\": \"W\", \"sources\": [\"s\"], \"sample\": \"image\","
    " \"input_bytes\": 100, \"output_bytes\": 40, \"output_gradient_bytes\": 4,"
    " \"layers\": [{\"name\": \"fc\", \"parameters\": [6, 2], \"forward_flop\": 12,"
    "   \"activation_bytes\": 8, \"operations\": 2},"
    "  {\"name\": \"relu\", \"parameters\": [], \"forward_flop\": 0, \"activation_bytes\": 8,"
    "   \"operations\": 1}]}";

static void write_text_to(const char *path, const char *text)
{
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    assert_int_equal(fclose(stream), 0);
}

static void write_text(const char *text)
{
    write_text_to(made, text);
}

static void write_json(const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    assert_non_null(text);
    write_text(text);
    free(text);
}

/* Reads `made` as a profile or a workload. */
static Error read_made(bool is_profile)
{
    if (is_profile) {
        static Profile profile;
        return profile_read(made, &profile);
    }
    Error error;
    free(workload_read(made, &error));
    return error;
}

/* The error is "FILE: `expected`", or begins so. */
static void assert_named(Error error, const char *expected)
{
    if (!error)
        fail_msg("no error, expected \"%s\"", expected);
    char whole[512];
    snprintf(whole, sizeof whole, "%s: %s", made, expected);
    if (strncmp(error, whole, strlen(whole)) != 0)
        fail_msg("\"%s\", expected \"%s\"", error, whole);
}

/* The value at a path as the errors write it: "devices.products", "layers[0].name", "". */
static cJSON *value_at(cJSON *json, const char *path)
{
    char copy[96];
    snprintf(copy, sizeof copy, "%s", path);
    char *rest;
    for (char *part = strtok_r(copy, ".", &rest); part; part = strtok_r(NULL, ".", &rest)) {
        char *bracket = strchr(part, '[');
        if (bracket)
            *bracket = '\0';
        json = cJSON_GetObjectItemCaseSensitive(json, part);
        if (bracket)
            json = cJSON_GetArrayItem(json, atoi(bracket + 1));
        assert_non_null(json);
    }
    return json;
}

/* Splits a path into that of the object (its length) and the field's name. */
static size_t object_length(const char *path, const char **key)
{
    const char *dot = strrchr(path, '.');
    *key = dot ? dot + 1 : path;
    return dot ? (size_t)(dot - path) : 0;
}

/* The text with one field replaced by `value` (JSON), or removed if it is NULL, into `made`. */
static void write_changed(bool is_profile, const char *path, const char *value)
{
    cJSON *json = cJSON_Parse(is_profile ? profile_text : workload_text);
    assert_non_null(json);
    const char *key;
    char parent[96];
    snprintf(parent, sizeof parent, "%.*s", (int)object_length(path, &key), path);
    cJSON *object = value_at(json, parent);
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    if (value) {
        cJSON *item = cJSON_Parse(value);
        assert_non_null(item);
        cJSON_AddItemToObject(object, key, item);
    }
    write_json(json);
    cJSON_Delete(json);
}

typedef struct Change {
    const char *path, *value, *error;
} Change;

static void assert_changes_named(bool is_profile, const Change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_changed(is_profile, changes[i].path, changes[i].value);
        assert_named(read_made(is_profile), changes[i].error);
    }
}

/* Removes the fields of `json`, an object of `document`, one by one, and those of the objects in
 * it; all but the optional ones must be named. */
static int remove_each(bool is_profile, cJSON *json, const char *path)
{
    static const char *const optional[] = {
        "devices.busy_products", "devices.busy_memory_gb_per_s", "devices.layers",
        "devices.busy_layers",   "devices.convert_gb_per_s",     "devices.loss_gb_per_s",
        "host.sample_us",        "collectives.network_gb_per_s", "output_gradient_bytes",
    };
    int removed = 0;
    const cJSON *field;
    cJSON_ArrayForEach(field, json)
    {
        char place[96], expected[128];
        snprintf(place, sizeof place, "%.40s%s%.40s", path, *path ? "." : "", field->string);
        snprintf(expected, sizeof expected, "%s: is missing", place);
        bool may_go = false;
        for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
            may_go |= strcmp(place, optional[i]) == 0;
        write_changed(is_profile, place, NULL);
        if (may_go)
            assert_null(read_made(is_profile));
        else
            assert_named(read_made(is_profile), expected);
        removed++;
        if (cJSON_IsObject(field) && strcmp(field->string, "notes") != 0)
            removed += remove_each(is_profile, value_at(json, field->string), place);
    }
    return removed;
}

static void assert_close(double actual, double expected)
{
    if (!(fabs(actual - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g, expected %.17g", actual, expected);
}

/* --- what is shipped ----------------------------------------------------------------------- */

/* Calls `check` with the name of each file in `folder`, without ".json". Returns how many. */
static int each_name(const char *folder, void (*check)(const char *name))
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char name[256];
        snprintf(name, sizeof name, "%s", entry->d_name);
        char *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".json") != 0)
            continue;
        *dot = '\0';
        check(name);
        count++;
    }
    closedir(directory);
    return count;
}

static void check_profile(const char *name)
{
    static Profile profile;
    Error error = profile_read(name, &profile);
    if (error)
        fail_msg("%s", error);
    assert_true(profile.name[0] && profile.memory_bytes_per_s.points > 0);
    assert_true(profile.flop_per_s.points > 0 && profile.busy_flop_per_s.points > 0);
    assert_true(profile.network.present == (profile.nodes > 1));
}

static void check_workload(const char *name)
{
    Error error;
    Workload *workload = workload_read(name, &error);
    if (!workload)
        fail_msg("%s", error);
    assert_true(workload->layers > 0 && workload->parameters > 0);
    free(workload);
}

static void all_shipped_files_are_read(void **state)
{
    (void)state;
    assert_true(each_name("profiles", check_profile) >= 16);
    assert_true(each_name("workloads", check_workload) >= 10);
}

/* Totals: torchvision's documentation for ResNet, VGG; the paper or the code that `sources` in the
 * files names for the others. */
static void totals_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t parameters;
    } totals[] = {
        {"resnet-50", 25557032}, {"resnet-101", 44549160}, {"vgg-16", 138357544},
        {"gpt-2", 124439808},    {"mlp-5x1000", 5005000},
    };
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        Error error;
        Workload *workload = workload_read(totals[i].name, &error);
        if (!workload)
            fail_msg("%s", error);
        size_t sum = 0;
        for (int layer = 0; layer < workload->layers; layer++)
            for (int p = 0; p < workload->layer[layer].parameters; p++)
                sum += workload->layer[layer].count[p];
        assert_int_equal(sum, totals[i].parameters);
        free(workload);
    }
}

/* --- values -------------------------------------------------------------------------------- */

static void profile_is_in_the_units_of_the_program(void **state)
{
    (void)state;
    static Profile p;
    write_text(profile_text);
    assert_null(profile_read(made, &p));
    assert_string_equal(p.name, "P");
    assert_string_equal(p.about, "made up");
    assert_string_equal(p.noun, "GPU");
    assert_int_equal(p.per_node, 4);
    assert_int_equal(p.nodes, 2);
    assert_close(p.memory_bytes, 16e9);
    assert_int_equal(p.memory_bytes_per_s.points, 2);
    assert_close(p.memory_bytes_per_s.x[1], 1e5);
    assert_close(p.memory_bytes_per_s.y[1], 1e12);
    assert_close(p.flop_per_s.y[1], 3e9);
    assert_int_equal(p.busy_flop_per_s.points, 1);
    assert_close(p.busy_flop_per_s.y[0], 1e9);
    assert_close(p.busy_memory_bytes_per_s.y[0], 5e9);
    assert_int_equal(p.layers.sizes, 2);
    assert_close(p.layers.size[1], 8);
    assert_close(p.layers.flop_per_s[LAYER_FORWARD][4], 16);
    assert_close(p.layers.flop_per_s[LAYER_BACKWARD_PARAMS][7], 3);
    assert_close(p.layers.flop_per_s[LAYER_BACKWARD_INPUT][0], 5);
    assert_int_equal(p.busy_layers.sizes, 1);
    assert_close(p.busy_layers.flop_per_s[LAYER_BACKWARD_PARAMS][0], 7);
    assert_close(p.convert_bytes_per_s.y[0], 2e9);
    assert_close(p.loss_bytes_per_s.y[1], 4e9);
    assert_close(p.shortest_ms, 0.002);
    assert_true(p.asynchronous);
    assert_close(p.spread, 0.25);
    assert_close(p.launch_ms, 0.004);
    assert_close(p.hand_over_ms, 0.010);
    assert_close(p.interpreter_ms, 0.008);
    assert_close(p.sample_ms, 0.5);
    assert_true(p.host.present && p.peer.present && p.network.present);
    assert_close(p.host.bytes_per_s, 12e9);
    assert_close(p.host.latency_ms, 0.010);
    assert_false(p.host.shared);
    assert_close(p.peer.bytes_per_s, 48e9);
    assert_true(p.peer.shared);
    assert_close(p.network.bytes_per_s, 12.5e9);
    assert_close(p.network.latency_ms, 0.015);
    assert_true(p.network.shared);
    assert_close(p.base_ms, 0.0084);
    assert_close(p.step_ms, 0.0019);
    assert_close(p.network_step_ms, 0.130);
    assert_close(p.ring_bytes_per_s.x[0], 32768);
    assert_close(p.ring_bytes_per_s.y[0], 6e9);
    assert_close(p.network_bytes_per_s.y[0], 2.5e9);
    assert_close(p.device_share, 0.05);
}

static void what_is_left_out_has_its_default(void **state)
{
    (void)state;
    static Profile p;
    write_changed(true, "devices.busy_products", NULL);
    assert_null(profile_read(made, &p));
    assert_int_equal(p.busy_flop_per_s.points, 2);
    assert_close(p.busy_flop_per_s.y[1], 3e9);
    write_changed(true, "devices.busy_layers", NULL);
    assert_null(profile_read(made, &p));
    assert_int_equal(p.busy_layers.sizes, 2);
    assert_close(p.busy_layers.flop_per_s[LAYER_FORWARD][7], 128);
    write_changed(true, "devices.layers", NULL);
    assert_null(profile_read(made, &p));
    assert_int_equal(p.layers.sizes, 0);
    assert_int_equal(p.busy_layers.sizes, 1);
    write_changed(true, "host.sample_us", NULL);
    assert_null(profile_read(made, &p));
    assert_true(p.sample_ms == 0);
    write_changed(true, "collectives.network_gb_per_s", NULL);
    assert_null(profile_read(made, &p));
    assert_int_equal(p.network_bytes_per_s.points, 0);
    write_changed(true, "links.peer", "null");
    assert_null(profile_read(made, &p));
    assert_false(p.peer.present);

    Error error;
    write_changed(false, "output_gradient_bytes", NULL);
    Workload *workload = workload_read(made, &error);
    assert_non_null(workload);
    assert_true(workload->output_gradient_bytes == 40);
    free(workload);
}

static void workload_has_its_layers(void **state)
{
    (void)state;
    Error error;
    write_text(workload_text);
    Workload *w = workload_read(made, &error);
    assert_non_null(w);
    assert_string_equal(w->name, "W");
    assert_string_equal(w->sample, "image");
    assert_true(w->input_bytes == 100 && w->output_bytes == 40);
    assert_true(w->output_gradient_bytes == 4);
    assert_int_equal(w->layers, 2);
    assert_int_equal(w->parameters, 2);
    assert_string_equal(w->layer[0].name, "fc");
    assert_int_equal(w->layer[0].parameters, 2);
    assert_int_equal(w->layer[0].count[0], 6);
    assert_int_equal(w->layer[0].count[1], 2);
    assert_true(w->layer[0].flop == 12 && w->layer[0].activation_bytes == 8);
    assert_int_equal(w->layer[0].operations, 2);
    assert_string_equal(w->layer[1].name, "relu");
    assert_int_equal(w->layer[1].parameters, 0);
    free(w);
}

static void curve_is_straight_between_logarithms(void **state)
{
    (void)state;
    const Curve curve = {.points = 3, .x = {1e3, 1e5, 1e6}, .y = {10, 1000, 500}};
    assert_close(curve_at(&curve, 1e3), 10);
    assert_close(curve_at(&curve, 1e5), 1000);
    assert_close(curve_at(&curve, 1e6), 500);
    assert_close(curve_at(&curve, 1e4), 100); /* half way of both logarithms */
    assert_close(curve_at(&curve, sqrt(1e5 * 1e6)), sqrt(1000. * 500));
    assert_close(curve_at(&curve, 1), 10);
    assert_close(curve_at(&curve, 1e12), 500);
    const Curve point = {.points = 1, .x = {5}, .y = {7}};
    assert_close(curve_at(&point, 1), 7);
    assert_close(curve_at(&point, 5), 7);
    assert_close(curve_at(&point, 9), 7);
}

/* Sizes 2 and 8, so 4 is half way between their logarithms; rates are 2^(4 rows + 2 inputs +
 * outputs), each 0 or 1, so that every size shows in the result. */
static void layer_rates_are_straight_between_logarithms(void **state)
{
    (void)state;
    const LayerTable table = {
        .sizes = 2, .size = {2, 8}, .flop_per_s = {{1, 2, 4, 8, 16, 32, 64, 128}}};
    assert_close(layer_table_at(&table, LAYER_FORWARD, 2, 2, 2), 1);
    assert_close(layer_table_at(&table, LAYER_FORWARD, 2, 2, 8), 2);
    assert_close(layer_table_at(&table, LAYER_FORWARD, 2, 8, 2), 4);
    assert_close(layer_table_at(&table, LAYER_FORWARD, 8, 2, 2), 16);
    assert_close(layer_table_at(&table, LAYER_FORWARD, 2, 2, 4), sqrt(2));
    assert_close(layer_table_at(&table, LAYER_FORWARD, 4, 4, 4), sqrt(128));
    assert_close(layer_table_at(&table, LAYER_FORWARD, 1, 1, 1), 1);
    assert_close(layer_table_at(&table, LAYER_FORWARD, 1000, 1000, 1000), 128);
    assert_close(layer_table_at(&table, LAYER_FORWARD, 1000, 4, 1), 32);
    const LayerTable three = {.sizes = 3,
                              .size = {1, 2, 8},
                              .flop_per_s = {[LAYER_BACKWARD_INPUT] = {[26] = 9, [25] = 4}}};
    assert_close(layer_table_at(&three, LAYER_BACKWARD_INPUT, 8, 9, 8), 9);
    assert_close(layer_table_at(&three, LAYER_BACKWARD_INPUT, 8, 9, 4), 6);
    const LayerTable one = {.sizes = 1, .size = {4}, .flop_per_s = {{6}}};
    assert_close(layer_table_at(&one, LAYER_FORWARD, 1, 4, 100), 6);
}

/* --- mistakes ------------------------------------------------------------------------------ */

static void every_missing_field_is_named(void **state)
{
    (void)state;
    cJSON *profile = cJSON_Parse(profile_text), *workload = cJSON_Parse(workload_text);
    assert_int_equal(remove_each(true, profile, ""), 10 + 15 + 2 * 4 + 4 + 3 + 3 + 3 + 2 + 6);
    assert_int_equal(remove_each(false, workload, ""), 8);
    assert_int_equal(remove_each(false, value_at(workload, "layers[1]"), "layers[1]"), 5);
    cJSON_Delete(profile);
    cJSON_Delete(workload);
}

static void unknown_fields_are_named(void **state)
{
    (void)state;
    static const Change in_profile[] = {
        {"device", "1", "device: no such field (choose schema, name, about, "},
        {"devices.pernode", "1", "devices.pernode: no such field (choose noun, per_node, "},
        {"links.bridge", "null", "links.bridge: no such field (choose host, peer, network)"},
        {"links.network.latency", "1", "links.network.latency: no such field"},
        {"collectives.Step_us", "1", "collectives.Step_us: no such field"},
    };
    assert_changes_named(true, in_profile, sizeof in_profile / sizeof *in_profile);
    static const Change in_workload[] = {
        {"flops", "1", "flops: no such field"},
        {"layers[1].kernels", "1", "layers[1].kernels: no such field"},
    };
    assert_changes_named(false, in_workload, sizeof in_workload / sizeof *in_workload);
}

/* The text of a profile with `from` in it replaced by `to`. */
static void write_replaced(const char *from, const char *to)
{
    const char *place = strstr(profile_text, from);
    assert_non_null(place);
    char text[2 * sizeof profile_text];
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - profile_text), profile_text, to,
             place + strlen(from));
    write_text(text);
}

static void misspelt_fields_are_guessed(void **state)
{
    (void)state;
    write_replaced("\"host\": {\"gb", "\"hosts\": {\"gb");
    assert_named(read_made(true), "links.hosts: no such field; did you mean links.host?");
    write_replaced("\"devices\"", "\"device\"");
    assert_named(read_made(true), "device: no such field; did you mean devices?");
    write_replaced("\"latency_us\": 9", "\"latency\": 9");
    assert_named(read_made(true),
                 "links.peer.latency: no such field; did you mean links.peer.latency_us?");
    write_replaced("\"busy_products\"", "\"busy_product\"");
    assert_named(read_made(true),
                 "devices.busy_product: no such field; did you mean devices.busy_products?");
}

static void fields_that_stand_there_twice_are_named(void **state)
{
    (void)state;
    write_replaced("\"nodes\": 2", "\"nodes\": 2, \"nodes\": 3");
    assert_named(read_made(true), "devices.nodes: stands there twice");
}

static void impossible_values_of_profiles_are_named(void **state)
{
    (void)state;
    static const Change changes[] = {
        {"schema", "2", "schema: 2 must be a whole number of at most 1"},
        {"schema", "0", "schema: 0 must be a whole number of at least 1"},
        {"name", "3", "name: 3 must be a text"},
        {"name", "\"\"", "name: \"\" must be a text of at least one letter"},
        {"name", "\"1234567890123456789012345678901234567890123456789012345678901234\"",
         "name: has 64 bytes; at most 63"},
        {"sources", "\"s\"", "sources: \"s\" must be a list of texts"},
        {"sources", "[1]", "sources[0]: 1 must be a text"},
        {"fitted", "{}", "fitted: {} must be a list of texts"},
        {"notes", "[]", "notes: [] must be an object of texts"},
        {"notes", "{\"x\": 1}", "notes: x: 1 must be a text"},
        {"devices", "4", "devices: 4 must be an object"},
        {"devices.noun", "\"1234567890123456\"", "devices.noun: has 16 bytes; at most 15"},
        {"devices.per_node", "-1", "devices.per_node: -1 must be a whole number of at least 1"},
        {"devices.per_node", "0", "devices.per_node: 0 must be a whole number of at least 1"},
        {"devices.per_node", "1.5", "devices.per_node: 1.5 must be a whole number of at least 1"},
        {"devices.per_node", "\"4\"",
         "devices.per_node: \"4\" must be a whole number of at least 1"},
        {"devices.per_node", "null", "devices.per_node: null must be a whole number of at least 1"},
        {"devices.per_node", "4097",
         "devices.per_node: 4097 must be a whole number of at most 4096"},
        {"devices.nodes", "100001",
         "devices.nodes: 100001 must be a whole number of at most 100000"},
        {"devices.memory_gb", "0", "devices.memory_gb: 0 must be a number above 0"},
        {"devices.memory_gb", "1e19", "devices.memory_gb: 1e+19 must be a number of at most 1e+18"},
        {"devices.memory_gb_per_s", "[]", "devices.memory_gb_per_s: [] must be a list of pairs"},
        {"devices.memory_gb_per_s", "5", "devices.memory_gb_per_s: 5 must be a list of pairs"},
        {"devices.memory_gb_per_s", "[5]", "devices.memory_gb_per_s[0]: 5 must be a pair"},
        {"devices.memory_gb_per_s", "[[1,2],[3,4,5]]",
         "devices.memory_gb_per_s[1]: [3,4,5] must be a pair"},
        {"devices.memory_gb_per_s", "[[1,0]]",
         "devices.memory_gb_per_s[0]: 0 must be a number above 0"},
        {"devices.products", "[[0,1]]", "devices.products[0]: 0 must be a number above 0"},
        {"devices.products", "[[1,2],[3,4],[2,5]]",
         "devices.products[2]: sizes must ascend, but 2 follows 3"},
        {"devices.products", "[[1,2],[1,4]]",
         "devices.products[1]: sizes must ascend, but 1 follows 1"},
        {"devices.busy_products", "null", "devices.busy_products: null must be a list of pairs"},
        {"devices.layers", "3", "devices.layers: 3 must be an object"},
        {"devices.layers.sizes", "[]", "devices.layers.sizes: [] must be a list of numbers"},
        {"devices.layers.sizes", "[8, 2]", "devices.layers.sizes: must ascend, but 2 follows 8"},
        {"devices.layers.sizes", "[1,2,3,4,5,6,7,8,9]",
         "devices.layers.sizes: 9 numbers; at most 8"},
        {"devices.layers.forward", "[1,2,3,4,5,6,7]",
         "devices.layers.forward: 7 rates, but 2 sizes make 8 shapes"},
        {"devices.layers.forward", "[1,2,3,4,5,6,7,0]",
         "devices.layers.forward[7]: 0 must be a number above 0"},
        {"devices.layers.backward", "[1]", "devices.layers.backward: no such field"},
        {"devices.busy_layers.sizes", "[4, 5]",
         "devices.busy_layers.forward: 1 rates, but 2 sizes make 8 shapes"},
        {"devices.convert_gb_per_s", "2", "devices.convert_gb_per_s: 2 must be a list of pairs"},
        {"devices.loss_gb_per_s", "[[2,-1]]",
         "devices.loss_gb_per_s[0]: -1 must be a number above 0"},
        {"devices.shortest_us", "-1", "devices.shortest_us: -1 must be a number of at least 0"},
        {"devices.asynchronous", "1", "devices.asynchronous: 1 must be true or false"},
        {"devices.spread", "-0.1", "devices.spread: -0.1 must be a number of at least 0"},
        {"devices.spread", "1.1", "devices.spread: 1.1 must be a number of at most 1"},
        {"host.launch_us", "-4", "host.launch_us: -4 must be a number of at least 0"},
        {"host.hand_over_us", "[]", "host.hand_over_us: [] must be a number of at least 0"},
        {"host.interpreter_us", "-1", "host.interpreter_us: -1 must be a number of at least 0"},
        {"host.sample_us", "-1", "host.sample_us: -1 must be a number of at least 0"},
        {"links.host", "null", "links.host: null must be an object"},
        {"links.host.gb_per_s", "0", "links.host.gb_per_s: 0 must be a number above 0"},
        {"links.peer", "48", "links.peer: 48 must be an object"},
        {"links.peer.latency_us", "-1", "links.peer.latency_us: -1 must be a number of at least 0"},
        {"links.peer.shared", "\"no\"", "links.peer.shared: \"no\" must be true or false"},
        {"links.network", "null", "links.network: null, but devices.nodes is 2"},
        {"links.network.shared", "3", "links.network.shared: 3 must be true or false"},
        {"collectives.base_us", "-1", "collectives.base_us: -1 must be a number of at least 0"},
        {"collectives.step_us", "-1", "collectives.step_us: -1 must be a number of at least 0"},
        {"collectives.network_step_us", "-1", "collectives.network_step_us: -1 must be"},
        {"collectives.ring_gb_per_s", "[[1,-1]]",
         "collectives.ring_gb_per_s[0]: -1 must be a number above 0"},
        {"collectives.network_gb_per_s", "[[2,1],[1,1]]",
         "collectives.network_gb_per_s[1]: sizes must ascend"},
        {"collectives.device_share", "1.5",
         "collectives.device_share: 1.5 must be a number of at most 1"},
        {"collectives.device_share", "-0.5",
         "collectives.device_share: -0.5 must be a number of at least 0"},
    };
    assert_changes_named(true, changes, sizeof changes / sizeof *changes);
}

static void impossible_values_of_workloads_are_named(void **state)
{
    (void)state;
    static const Change changes[] = {
        {"schema", "2", "schema: 2 must be"},
        {"sample", "1", "sample: 1 must be a text"},
        {"sources", "null", "sources: null must be a list of texts"},
        {"input_bytes", "0", "input_bytes: 0 must be a number above 0"},
        {"output_bytes", "-8", "output_bytes: -8 must be a number above 0"},
        {"output_gradient_bytes", "0", "output_gradient_bytes: 0 must be a number above 0"},
        {"layers", "[]", "layers: [] must be a list of objects"},
        {"layers", "[7]", "layers[0]: 7 must be an object"},
        {"layers[0].name", "\"123456789012345678901234567890123456789012345678\"",
         "layers[0].name: has 48 bytes; at most 47"},
        {"layers[0].parameters", "4", "layers[0].parameters: 4 must be a list of whole numbers"},
        {"layers[0].parameters", "[6, 0]",
         "layers[0].parameters[1]: 0 must be a whole number of at least 1"},
        {"layers[0].parameters", "[1,1,1,1,1,1,1,1,1]",
         "layers[0].parameters: 9 whole numbers; at most 8"},
        {"layers[0].parameters", "[]", "layers: no layer has parameters"},
        {"layers[1].forward_flop", "-1", "layers[1].forward_flop: -1 must be"},
        {"layers[1].activation_bytes", "-1", "layers[1].activation_bytes: -1 must be"},
        {"layers[1].operations", "0",
         "layers[1].operations: 0 must be a whole number of at least 1"},
        {"layers[1].operations", "0.5", "layers[1].operations: 0.5 must be a whole number"},
    };
    assert_changes_named(false, changes, sizeof changes / sizeof *changes);
}

/* `layers` layers of `parameters` tensors each. */
static void write_layers(int layers, int parameters)
{
    cJSON *json = cJSON_Parse(workload_text);
    cJSON *list = cJSON_CreateArray();
    cJSON *layer = cJSON_Duplicate(value_at(json, "layers[0]"), true);
    cJSON *counts = cJSON_CreateArray();
    for (int i = 0; i < parameters; i++)
        cJSON_AddItemToArray(counts, cJSON_CreateNumber(1));
    cJSON_ReplaceItemInObject(layer, "parameters", counts);
    for (int i = 0; i < layers; i++)
        cJSON_AddItemToArray(list, cJSON_Duplicate(layer, true));
    cJSON_ReplaceItemInObject(json, "layers", list);
    write_json(json);
    cJSON_Delete(layer);
    cJSON_Delete(json);
}

static void limits_can_be_reached_and_not_passed(void **state)
{
    (void)state;
    write_layers(1024, 1);
    assert_null(read_made(false));
    write_layers(1025, 1);
    assert_named(read_made(false), "layers: 1025 objects; at most 1024");
    write_layers(128, 8);
    assert_null(read_made(false));
    write_layers(129, 8);
    assert_named(read_made(false), "layers: 1032 parameters; at most 1024");

    char curve[64 * 12] = "[";
    for (int i = 1; i <= 64; i++)
        sprintf(curve + strlen(curve), "[%d,1]%s", i, i < 64 ? "," : "]");
    write_changed(true, "devices.products", curve);
    assert_null(read_made(true));
    strcpy(curve + strlen(curve) - 1, ",[65,1]]");
    write_changed(true, "devices.products", curve);
    assert_named(read_made(true), "devices.products: 65 pairs [size, value]; at most 64");
}

static void files_that_are_not_json_are_named(void **state)
{
    (void)state;
    write_text("");
    assert_named(read_made(true), "line 1 is not JSON");
    write_text("{\n\"schema\": 1,\n\"name\" 2}\n");
    assert_named(read_made(true), "line 3 is not JSON");
    write_text("[1]");
    assert_named(read_made(false), "must be one JSON object");
    char text[sizeof profile_text + 8];
    snprintf(text, sizeof text, "%s\nmore", profile_text);
    write_text(text);
    assert_named(read_made(true), "line 2 is not JSON");
    write_replaced("\"nodes\": 2", "\"nodes\": 1e999");
    assert_named(read_made(true), "devices.nodes: so large a number must be");
    /* what a file says must not steer the terminal */
    write_replaced("\"nodes\": 2", "\"nodes\": 2, \"\\u001b[31m\": 0");
    assert_named(read_made(true), "devices.?[31m: no such field");
    assert_int_equal(unlink(made), 0);
    assert_named(read_made(true), "No such file or directory");
}

/* --- names --------------------------------------------------------------------------------- */

static void names_are_looked_up(void **state)
{
    (void)state;
    static Profile profile;
    assert_null(profile_read("profiles/4x-v100-nvlink.json", &profile));
    assert_null(profile_read("./profiles/4x-v100-nvlink.json", &profile));
    assert_string_equal(profile_read("nowhere.json", &profile),
                        "nowhere.json: No such file or directory");
    Error error = profile_read("4x-v100", &profile);
    assert_non_null(error);
    const char *begin = "4x-v100: no such profile, and no such file; choose 128x4-p100-25gbps, ";
    assert_memory_equal(error, begin, strlen(begin));
    assert_non_null(strstr(error, ", 4x-v100-nvlink, "));
    assert_null(workload_read("lenet", &error));
    assert_non_null(strstr(error, "lenet: no such workload, and no such file; choose bert-base, "));

    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_non_null(profile_read(name, &profile));
    name[0] = '/';
    assert_non_null(profile_read(name, &profile));
}

/* This program's folder, with a folder "profiles" in it for the while. */
static void name_is_found_beside_the_program(void)
{
    static Profile profile;
    char folder[3000], file[4000];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 20);
    assert_true(length > 0);
    folder[length] = '\0';
    strcpy(strrchr(folder, '/'), "/profiles");
    snprintf(file, sizeof file, "%s/beside.json", folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    write_text_to(file, profile_text);
    Error error = profile_read("beside", &profile);
    char names[64];
    profile_names(names, sizeof names);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_null(error);
    assert_string_equal(names, "beside");
}

static void names_are_found_here_and_beside_the_program(void **state)
{
    (void)state;
    static Profile profile;
    char root[4096], folder[] = "/tmp/test_profile.XXXXXX", names[256];
    assert_non_null(getcwd(root, sizeof root));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    profile_names(names, sizeof names);
    assert_string_equal(names, "none");
    name_is_found_beside_the_program();
    write_text_to("mine", profile_text); /* a file is a file, whatever its name ends in */
    assert_null(profile_read("mine", &profile));
    assert_string_equal(profile.name, "P");
    assert_int_equal(unlink("mine"), 0);
    assert_int_equal(chdir(root), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void names_are_listed(void **state)
{
    (void)state;
    char names[256], cut[12];
    workload_names(names, sizeof names);
    assert_string_equal(names, "bert-base, bert-large, cs336-xl, gpt-2, inception-v3, mlp-5x1000, "
                               "resnet-101, resnet-50, vgg-16, yolov5l");
    workload_names(cut, sizeof cut);
    assert_string_equal(cut, "bert-base, ");
}

int main(void)
{
    snprintf(made, sizeof made, "/tmp/test_profile.%d.json", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shipped_files_are_read),
        cmocka_unit_test(totals_are_the_published_ones),
        cmocka_unit_test(profile_is_in_the_units_of_the_program),
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(workload_has_its_layers),
        cmocka_unit_test(curve_is_straight_between_logarithms),
        cmocka_unit_test(layer_rates_are_straight_between_logarithms),
        cmocka_unit_test(every_missing_field_is_named),
        cmocka_unit_test(unknown_fields_are_named),
        cmocka_unit_test(misspelt_fields_are_guessed),
        cmocka_unit_test(fields_that_stand_there_twice_are_named),
        cmocka_unit_test(impossible_values_of_profiles_are_named),
        cmocka_unit_test(impossible_values_of_workloads_are_named),
        cmocka_unit_test(limits_can_be_reached_and_not_passed),
        cmocka_unit_test(files_that_are_not_json_are_named),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(names_are_found_here_and_beside_the_program),
        cmocka_unit_test(names_are_listed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(made);
    return failed;
}
