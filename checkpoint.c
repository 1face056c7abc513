/* checkpoint.c: what of a run is saved, under which names, and what must fit when it is loaded
 * again (see checkpoint.h). The file's format is safetensors.c's concern.
 */
#include "checkpoint.h"

#include "option_values.h" /* shown: a name from a file may hold anything */
#include "safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WRAPPER   "module." /* both of PyTorch's wrappers hold the model under this name */
#define OPTIMIZER "optimizer."

struct Checkpoint {
    Safetensors file;
};

/* --- names -------------------------------------------------------------------------------- */

/* "optimizer.exp_avg.0.weight" */
static void state_name(char *name, size_t size, const OptimizerSettings *settings, int state,
                       const Parameter *parameter)
{
    snprintf(name, size, OPTIMIZER "%s.%s", optimizer_state_name(settings, state), parameter->name);
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* A key of the file without the wrapper's name. */
static const char *unwrapped(const char *key)
{
    return begins_with(key, WRAPPER) ? key + strlen(WRAPPER) : key;
}

/* --- saving ------------------------------------------------------------------------------- */

static bool add_text(cJSON *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool add_text(cJSON *object, const char *key, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cJSON_AddStringToObject(object, key, text) != NULL;
}

void checkpoint_widths(const Progressed *progressed, char *text, size_t size)
{
    size_t used = 0;
    for (int i = 0; i <= progressed->layers && used < size; i++) {
        int length =
            snprintf(text + used, size - used, "%s%d", i ? "," : "", progressed->widths[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* Metadata can only be text. Seventeen digits give a double back to the last bit. */
static cJSON *metadata_of(const Progressed *progressed, bool weights_only)
{
    const OptimizerSettings *optimizer = &progressed->optimizer;
    char layers[(MODEL_MOST_LAYERS + 1) * 12] = "";
    checkpoint_widths(progressed, layers, sizeof layers);
    cJSON *object = cJSON_CreateObject();
    bool complete = add_text(object, "format", "pt") && /* what PyTorch's side expects */
                    add_text(object, "layers", "%s", layers);
    if (progressed->unused != UNUSED_NONE)
        complete = complete && add_text(object, "unused", "%s", unused_name(progressed->unused));
    if (!weights_only)
        complete = complete && add_text(object, "step", "%lld", (long long)progressed->step) &&
                   add_text(object, "epoch", "%lld", (long long)progressed->epoch) &&
                   add_text(object, "seed", "%llu", (unsigned long long)progressed->seed) &&
                   add_text(object, "batch", "%d", progressed->batch) &&
                   add_text(object, "optimizer", "%s", optimizer_name(optimizer->kind)) &&
                   add_text(object, "lr", "%.17g", optimizer->lr) &&
                   add_text(object, "momentum", "%.17g", optimizer->momentum) &&
                   add_text(object, "weight_decay", "%.17g", optimizer->weight_decay) &&
                   cJSON_AddStringToObject(object, "data", progressed->data) &&
                   add_text(object, "samples", "%lld", (long long)progressed->samples);
    if (complete)
        return object;
    cJSON_Delete(object);
    return NULL;
}

static FloatTensor tensor_of(const Parameter *parameter, const float *arena)
{
    return (FloatTensor){
        .rows = parameter->rows,
        .columns = parameter->columns,
        .values = arena + parameter->offset,
    };
}

Error checkpoint_save(const CheckpointSettings *settings, const Layout *layout,
                      const float *weights, float *const state[2], const Progressed *progressed)
{
    FloatTensor tensor[3 * MODEL_MOST_PARAMETERS];
    size_t tensors = 0;
    for (int i = 0; i < layout->parameters; i++) {
        const Parameter *parameter = layout_registered(layout, i);
        FloatTensor *next = &tensor[tensors++];
        *next = tensor_of(parameter, weights);
        snprintf(next->name, sizeof next->name, "%s%s", settings->wrapped ? WRAPPER : "",
                 parameter->name);
    }
    int states = settings->weights_only ? 0 : optimizer_states(&progressed->optimizer);
    for (int s = 0; s < states; s++)
        for (int i = 0; i < layout->parameters; i++) {
            const Parameter *parameter = layout_registered(layout, i);
            FloatTensor *next = &tensor[tensors++];
            *next = tensor_of(parameter, state[s]);
            state_name(next->name, sizeof next->name, &progressed->optimizer, s, parameter);
        }
    cJSON *metadata = metadata_of(progressed, settings->weights_only);
    Error error = metadata ? safetensors_write(settings->path, tensor, tensors, metadata)
                           : error_make("no memory to save %s", settings->path);
    cJSON_Delete(metadata);
    return error;
}

/* --- loading: where the run stands -------------------------------------------------------- */

Checkpoint *checkpoint_open(const char *path, Error *error)
{
    Checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    *error = checkpoint ? safetensors_open(&checkpoint->file, path) : error_make("no memory");
    if (*error && checkpoint) {
        safetensors_close(&checkpoint->file);
        free(checkpoint);
        checkpoint = NULL;
    }
    return checkpoint;
}

void checkpoint_close(Checkpoint *checkpoint)
{
    if (checkpoint)
        safetensors_close(&checkpoint->file);
    free(checkpoint);
}

/* An Error about a checkpoint, with its file before it. */
static Error about(const Checkpoint *checkpoint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static Error about(const Checkpoint *checkpoint, const char *format, ...)
{
    char text[700];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_make("%s: %s", shown(checkpoint->file.path).text, text);
}

static Error read_text(const Checkpoint *checkpoint, const char *key, const char **text)
{
    *text = safetensors_metadata(&checkpoint->file, key);
    return *text ? NULL
                 : about(checkpoint,
                         "cannot be resumed: its metadata lack %s; --load takes the weights alone",
                         key);
}

static Error read_integer(const Checkpoint *checkpoint, const char *key, int64_t least,
                          int64_t most, int64_t *value)
{
    const char *text;
    TRY(read_text(checkpoint, key, &text));
    Error error = parse_integer(key, text, least, most, value);
    return error ? about(checkpoint, "cannot be resumed: its metadata have %s", error + 2) : NULL;
}

static Error read_real(const Checkpoint *checkpoint, const char *key, double *value)
{
    const char *text;
    TRY(read_text(checkpoint, key, &text));
    Error error = parse_real(key, text, 0, 1000, value);
    return error ? about(checkpoint, "cannot be resumed: its metadata have %s", error + 2) : NULL;
}

static Error read_optimizer(const Checkpoint *checkpoint, OptimizerSettings *optimizer)
{
    const char *text;
    TRY(read_text(checkpoint, "optimizer", &text));
    for (OptimizerKind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_ADAMW; kind++) {
        if (strcmp(optimizer_name(kind), text) != 0)
            continue;
        optimizer->kind = kind;
        TRY(read_real(checkpoint, "lr", &optimizer->lr));
        TRY(read_real(checkpoint, "momentum", &optimizer->momentum));
        return read_real(checkpoint, "weight_decay", &optimizer->weight_decay);
    }
    return about(checkpoint, "cannot be resumed: its metadata have optimizer=%s, which is none",
                 shown(text).text);
}

/* A model without a branch has no such entry. */
static Error read_unused(const Checkpoint *checkpoint, Unused *unused)
{
    const char *text = safetensors_metadata(&checkpoint->file, "unused");
    *unused = UNUSED_NONE;
    for (Unused each = UNUSED_NEVER; text && each <= UNUSED_RANK0; each++)
        if (strcmp(unused_name(each), text) == 0)
            *unused = each;
    return !text || *unused != UNUSED_NONE
               ? NULL
               : about(checkpoint, "cannot be resumed: its metadata have unused=%s",
                       shown(text).text);
}

Error checkpoint_progressed(const Checkpoint *checkpoint, Progressed *progressed)
{
    *progressed = (Progressed){0};
    int64_t seed, batch;
    const char *text;
    int widths;
    TRY(read_integer(checkpoint, "step", 0, INT64_MAX, &progressed->step));
    TRY(read_integer(checkpoint, "epoch", 0, INT64_MAX, &progressed->epoch));
    TRY(read_integer(checkpoint, "seed", 0, UINT32_MAX, &seed));
    TRY(read_integer(checkpoint, "batch", 1, 1 << 20, &batch));
    TRY(read_integer(checkpoint, "samples", 1, UINT32_MAX, &progressed->samples));
    progressed->seed = (uint64_t)seed;
    progressed->batch = (int)batch;
    TRY(read_optimizer(checkpoint, &progressed->optimizer));
    TRY(read_unused(checkpoint, &progressed->unused));

    TRY(read_text(checkpoint, "layers", &text));
    Error error =
        parse_list("layers", text, 1, 1 << 20, progressed->widths, MODEL_MOST_LAYERS + 1, &widths);
    if (error || widths < 2)
        return about(checkpoint, "cannot be resumed: its metadata have layers=%s",
                     shown(text).text);
    progressed->layers = widths - 1;

    TRY(read_text(checkpoint, "data", &text));
    progressed->data = text;

    int64_t per_epoch = (progressed->samples + batch - 1) / batch;
    if (progressed->epoch != progressed->step / per_epoch)
        return about(checkpoint,
                     "cannot be resumed: %lld steps are not %lld epochs with %lld samples in "
                     "batches of %lld",
                     (long long)progressed->step, (long long)progressed->epoch,
                     (long long)progressed->samples, (long long)batch);
    return NULL;
}

/* --- loading: which tensor is which ------------------------------------------------------- */

/* Which of the file's tensors is which of the model's. */
typedef struct Match {
    const Tensor *tensor[MODEL_MOST_PARAMETERS]; /* by PyTorch's order; NULL: missing */
    int missing, unexpected, wrapped, clean;     /* how many keys */
} Match;

/* The model's parameter that a key of the file means, in PyTorch's order; -1: none. */
static int parameter_of(const Layout *layout, const CheckpointFit *fit, const char *key)
{
    if (fit->strict && begins_with(key, WRAPPER) != fit->wrapped)
        return -1;
    for (int i = 0; i < layout->parameters; i++)
        if (strcmp(layout_registered(layout, i)->name, unwrapped(key)) == 0)
            return i;
    return -1;
}

/* Tensors of the optimizer are not the model's, and not unexpected. */
static bool is_unexpected(const Layout *layout, const CheckpointFit *fit, const char *key)
{
    return !begins_with(key, OPTIMIZER) && parameter_of(layout, fit, key) < 0;
}

static Error match_keys(const Checkpoint *checkpoint, const Layout *layout,
                        const CheckpointFit *fit, Match *match)
{
    *match = (Match){.missing = layout->parameters};
    for (size_t i = 0; i < checkpoint->file.tensors; i++) {
        const Tensor *tensor = &checkpoint->file.tensor[i];
        match->unexpected += is_unexpected(layout, fit, tensor->name);
        int parameter = parameter_of(layout, fit, tensor->name);
        if (parameter < 0)
            continue;
        if (match->tensor[parameter])
            return about(checkpoint, "has both %s and %s: which one is meant?",
                         match->tensor[parameter]->name, tensor->name);
        match->tensor[parameter] = tensor;
        match->missing--;
        if (begins_with(tensor->name, WRAPPER))
            match->wrapped++;
        else
            match->clean++;
    }
    return NULL;
}

static bool has_shape(const Tensor *tensor, const Parameter *parameter)
{
    const cJSON *rows = cJSON_GetArrayItem(tensor->shape, 0);
    const cJSON *columns = cJSON_GetArrayItem(tensor->shape, 1);
    return cJSON_GetArraySize(tensor->shape) == (parameter->columns > 0 ? 2 : 1) &&
           rows->valuedouble == parameter->rows &&
           (!columns || columns->valuedouble == parameter->columns);
}

/* "[10, 32]" */
static const char *parameter_shape(const Parameter *parameter, char *text, size_t size)
{
    if (parameter->columns > 0)
        snprintf(text, size, "[%d, %d]", parameter->rows, parameter->columns);
    else
        snprintf(text, size, "[%d]", parameter->rows);
    return text;
}

static Error check_dtype(const Checkpoint *checkpoint, const Tensor *tensor)
{
    if (strcmp(tensor->dtype, "F32") == 0)
        return NULL;
    return about(checkpoint, "%s is %s; only F32 can be loaded", shown(tensor->name).text,
                 tensor->dtype);
}

/* --- loading: what PyTorch says when they do not fit -------------------------------------- */

static void print_missing(FILE *out, const Layout *layout, const CheckpointFit *fit,
                          const Match *match)
{
    const char *comma = "";
    fprintf(out, "Missing key(s) in state_dict: ");
    for (int i = 0; i < layout->parameters; i++) {
        if (match->tensor[i])
            continue;
        fprintf(out, "%s\"%s%s\"", comma, fit->strict && fit->wrapped ? WRAPPER : "",
                layout_registered(layout, i)->name);
        comma = ", ";
    }
    fprintf(out, ". ");
}

static void print_unexpected(FILE *out, const Checkpoint *checkpoint, const Layout *layout,
                             const CheckpointFit *fit)
{
    const char *comma = "";
    fprintf(out, "Unexpected key(s) in state_dict: ");
    for (size_t i = 0; i < checkpoint->file.tensors; i++) {
        const char *key = checkpoint->file.tensor[i].name;
        if (!is_unexpected(layout, fit, key))
            continue;
        fprintf(out, "%s\"%s\"", comma, shown(key).text);
        comma = ", ";
    }
    fprintf(out, ". ");
}

/* One line for every shape that differs; returns how many. Without `out` it only counts. */
static int print_shapes(FILE *out, const Layout *layout, const Match *match)
{
    int different = 0;
    for (int i = 0; i < layout->parameters; i++) {
        const Parameter *parameter = layout_registered(layout, i);
        const Tensor *tensor = match->tensor[i];
        if (!tensor || has_shape(tensor, parameter))
            continue;
        different++;
        char file[128], model[64];
        if (out)
            fprintf(out,
                    "\n\tsize mismatch for %s: copying a param with shape torch.Size(%s) from "
                    "checkpoint, the shape in current model is torch.Size(%s).",
                    tensor->name, safetensors_shape(tensor, file, sizeof file),
                    parameter_shape(parameter, model, sizeof model));
    }
    return different;
}

/* The same words at the same places as in PyTorch, and the same order: missing, unexpected, shapes.
 */
static Error refuse(const Checkpoint *checkpoint, const Layout *layout, const CheckpointFit *fit,
                    const Match *match, FILE *notes)
{
    fprintf(notes, "Error(s) in loading state_dict for %s:", fit->class);
    if (fit->strict && match->missing) {
        fprintf(notes, "\n\t");
        print_missing(notes, layout, fit, match);
    }
    if (fit->strict && match->unexpected) {
        fprintf(notes, "\n\t");
        print_unexpected(notes, checkpoint, layout, fit);
    }
    print_shapes(notes, layout, match);
    fprintf(notes, "\n");
    if (fit->strict && (match->missing || match->unexpected))
        return about(checkpoint, "not loaded: with --strict its keys must be the model's, to the "
                                 "letter");
    return about(checkpoint, "not loaded: its shapes are not those of --layers");
}

/* --- loading: tensors --------------------------------------------------------------------- */

Error checkpoint_load(const Checkpoint *checkpoint, const Layout *layout, const CheckpointFit *fit,
                      FILE *notes, float *weights, char loaded[256])
{
    Match match;
    TRY(match_keys(checkpoint, layout, fit, &match));
    bool misfit = fit->strict && (match.missing || match.unexpected);
    if (misfit || print_shapes(NULL, layout, &match) > 0)
        return refuse(checkpoint, layout, fit, &match, notes);
    int found = layout->parameters - match.missing;
    if (found == 0)
        return about(checkpoint, "none of its %zu tensors is one of the model's, such as \"%s\"",
                     checkpoint->file.tensors, layout_registered(layout, 0)->name);
    for (int i = 0; i < layout->parameters; i++) {
        const Parameter *parameter = layout_registered(layout, i);
        if (!match.tensor[i] && fit->complete)
            return about(checkpoint, "cannot be resumed: it lacks %s", parameter->name);
        if (match.tensor[i])
            TRY(check_dtype(checkpoint, match.tensor[i]));
    }
    for (int i = 0; i < layout->parameters; i++)
        if (match.tensor[i])
            TRY(safetensors_read(&checkpoint->file, match.tensor[i],
                                 weights + layout_registered(layout, i)->offset));
    if (match.missing) {
        fprintf(notes, "%s: ", shown(checkpoint->file.path).text);
        print_missing(notes, layout, fit, &match);
        fprintf(notes, "They keep their first values.\n");
    }
    if (match.unexpected) {
        fprintf(notes, "%s: ", shown(checkpoint->file.path).text);
        print_unexpected(notes, checkpoint, layout, fit);
        fprintf(notes, "They are not loaded.\n");
    }
    snprintf(loaded, 256, "%d tensors, keys %s", found,
             match.wrapped && match.clean ? "with and without \"" WRAPPER "\""
             : match.wrapped              ? "with \"" WRAPPER "\", as a wrapper saves them"
                                          : "without \"" WRAPPER "\"");
    return NULL;
}

Error checkpoint_load_state(const Checkpoint *checkpoint, const Layout *layout,
                            const OptimizerSettings *settings, float *const state[2])
{
    for (int s = 0; s < optimizer_states(settings); s++)
        for (int i = 0; i < layout->parameters; i++) {
            const Parameter *parameter = layout_registered(layout, i);
            char name[64], shape[64], found[128];
            state_name(name, sizeof name, settings, s, parameter);
            const Tensor *tensor = safetensors_find(&checkpoint->file, name);
            if (!tensor)
                return about(checkpoint,
                             "cannot be resumed: it lacks %s; --load takes the weights alone",
                             name);
            TRY(check_dtype(checkpoint, tensor));
            if (!has_shape(tensor, parameter))
                return about(checkpoint, "cannot be resumed: %s has shape %s; expected %s", name,
                             safetensors_shape(tensor, found, sizeof found),
                             parameter_shape(parameter, shape, sizeof shape));
            TRY(safetensors_read(&checkpoint->file, tensor, state[s] + parameter->offset));
        }
    return NULL;
}
