/* workload.c: reading descriptions of networks (see workload.h). */
#include "workload.h"

#include "base/named_file.h"
#include "base/strict_json.h"

#include <limits.h>
#include <stdlib.h>

#define MOST_OPERATIONS 1000000

static void read_layer(StrictObject *root, int index, WorkLayer *layer)
{
    int most = (int)(sizeof layer->count / sizeof *layer->count);
    StrictObject object = strict_element(root, "layers", index);
    strict_text(&object, "name", layer->name, sizeof layer->name);
    layer->parameters = strict_counts(&object, "parameters", most, layer->count);
    layer->flop = strict_amount(&object, "forward_flop");
    layer->activation_bytes = strict_amount(&object, "activation_bytes");
    layer->operations = (int)strict_whole(&object, "operations", 1, MOST_OPERATIONS);
    strict_close(&object);
}

static void read_layers(StrictObject *root, Workload *workload)
{
    workload->layers = strict_objects(root, "layers", WORKLOAD_MOST_LAYERS);
    for (int i = 0; i < workload->layers; i++) {
        read_layer(root, i, &workload->layer[i]);
        workload->parameters += workload->layer[i].parameters;
    }
    if (workload->parameters > WORKLOAD_MOST_PARAMETERS)
        strict_mistake(root, "layers", "%d parameters; at most %d", workload->parameters,
                       WORKLOAD_MOST_PARAMETERS);
    else if (workload->layers > 0 && workload->parameters == 0)
        strict_mistake(root, "layers", "no layer has parameters, so there is nothing to train");
}

static Error read_file(const char *path, Workload *workload)
{
    StrictFile file;
    StrictObject root = strict_open(&file, path);
    strict_whole(&root, "schema", 1, 1);
    strict_text(&root, "name", workload->name, sizeof workload->name);
    strict_text_list(&root, "sources");
    strict_text(&root, "sample", workload->sample, sizeof workload->sample);
    workload->input_bytes = strict_positive(&root, "input_bytes");
    workload->output_bytes = strict_positive(&root, "output_bytes");
    workload->output_gradient_bytes = workload->output_bytes;
    if (strict_has(&root, "output_gradient_bytes"))
        workload->output_gradient_bytes = strict_positive(&root, "output_gradient_bytes");
    read_layers(&root, workload);
    strict_close(&root);
    return strict_end(&file);
}

Workload *workload_read(const char *name, Error *error)
{
    char path[PATH_MAX];
    *error = named_file("workloads", "workload", name, path, sizeof path);
    if (*error)
        return NULL;
    Workload *workload = calloc(1, sizeof *workload);
    *error = workload ? read_file(path, workload) : error_make("no memory for a workload");
    if (*error) {
        free(workload);
        return NULL;
    }
    return workload;
}

void workload_names(char *text, size_t size)
{
    named_file_list("workloads", text, size);
}
