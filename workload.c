/* workload.c: reading a network that is only described (see workload.h). */
#include "workload.h"

#include "base/strict_json.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_BYTES 1e12
#define MOST_FLOP  1e15

static void read_layer(StrictJson *json, int number, Workload *workload)
{
    WorkLayer *layer = &workload->layer[number];
    char field[96];
    snprintf(field, sizeof field, "layers[%d].name", number);
    strict_text(json, field, layer->name, sizeof layer->name);
    snprintf(field, sizeof field, "layers[%d].forward_flop", number);
    strict_number(json, field, 0, MOST_FLOP, &layer->flop);
    snprintf(field, sizeof field, "layers[%d].activation_bytes", number);
    strict_number(json, field, 0, MOST_BYTES, &layer->activation_bytes);
    snprintf(field, sizeof field, "layers[%d].operations", number);
    strict_whole(json, field, 0, 10000, &layer->operations);

    snprintf(field, sizeof field, "layers[%d].parameters", number);
    int tensors = strict_list(json, field);
    int room = (int)(sizeof layer->count / sizeof *layer->count);
    if (tensors > room || workload->parameters + tensors > WORKLOAD_MOST_PARAMETERS) {
        strict_fail(json, field, "are too many tensors");
        return;
    }
    for (int i = 0; i < tensors; i++) {
        int count = 0;
        snprintf(field, sizeof field, "layers[%d].parameters[%d]", number, i);
        if (strict_whole(json, field, 1, 2000000000, &count))
            layer->count[layer->parameters++] = (size_t)count;
    }
    workload->parameters += layer->parameters;
}

static void read_all(StrictJson *json, Workload *workload)
{
    int schema = 0;
    strict_whole(json, "schema", 1, 1, &schema);
    strict_text(json, "name", workload->name, sizeof workload->name);
    strict_text(json, "sample", workload->sample, sizeof workload->sample);
    strict_any(json, "sources");
    strict_number(json, "input_bytes", 4, MOST_BYTES, &workload->input_bytes);
    strict_number(json, "output_bytes", 4, MOST_BYTES, &workload->output_bytes);
    workload->output_gradient_bytes = workload->output_bytes;
    if (strict_has(json, "output_gradient_bytes"))
        strict_number(json, "output_gradient_bytes", 4, MOST_BYTES,
                      &workload->output_gradient_bytes);
    workload->layers = strict_list(json, "layers");
    if (workload->layers < 1 || workload->layers > WORKLOAD_MOST_LAYERS)
        strict_fail(json, "layers", "must be 1 to 1024 layers");
    for (int i = 0; i < workload->layers && !json->error; i++)
        read_layer(json, i, workload);
    if (workload->parameters == 0)
        strict_fail(json, "layers", "must have a parameter at least");
}

Workload *workload_read(const char *name, Error *error)
{
    char path[700];
    if (!strict_find("workloads", name, path, sizeof path)) {
        char names[600];
        workload_names(names, sizeof names);
        *error = error_make("--workload=%.60s: no such workload; there are %s, or give a file",
                            name, *names ? names : "none here");
        return NULL;
    }
    StrictJson json;
    *error = strict_open(&json, path);
    if (*error)
        return NULL;
    Workload *workload = calloc(1, sizeof *workload);
    if (workload)
        read_all(&json, workload);
    else
        strict_fail(&json, "layers", "no memory for them");
    *error = strict_close(&json);
    if (*error) {
        free(workload);
        return NULL;
    }
    return workload;
}

void workload_names(char *text, size_t size)
{
    strict_names("workloads", text, size);
}
