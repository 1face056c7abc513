/* test_checkpoint.c: checkpoints exchanged with Python's safetensors (files from
 * tests/golden/checkpoint.py), files that break the format's rules, and a writer that is killed.
 *
 * What a whole run writes and goes on with is for checkpoint.sh to test.
 */
#include "base/replace.h"
#include "checkpoint.h"
#include "safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define GOLDEN "tests/golden/checkpoint_"

/* --- files of the test's own --------------------------------------------------------------- */

static char folder[] = "/tmp/test_checkpoint.XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

/* Calls `each` for every name in the folder; returns how many there are. */
static int for_files(void (*each)(const char *path))
{
    int count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count++;
        if (each)
            each(path);
    }
    closedir(directory);
    return count;
}

static void remove_file(const char *path)
{
    if (unlink(path) != 0)
        rmdir(path);
}

static int empty_folder(void **state)
{
    (void)state;
    for_files(remove_file);
    return 0;
}

static int remove_folder(void **state)
{
    empty_folder(state);
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The whole of a file; the caller frees it. */
static char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *content = malloc(*bytes + 1);
    assert_non_null(content);
    assert_int_equal(fread(content, 1, *bytes, file), *bytes);
    fclose(file);
    return content;
}

static void write_all(const char *path, const void *content, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* --- a model -------------------------------------------------------------------------------- */

/* The golden files' model, and its weights. */
typedef struct Twin {
    Layout layout;
    float *weights;
    float *state[2];
} Twin;

static void twin_open(Twin *twin, const int *widths, int layers, uint64_t seed)
{
    layout_init(&twin->layout, widths, layers);
    size_t count = twin->layout.arena_count;
    twin->weights = calloc(3 * count, sizeof *twin->weights);
    assert_non_null(twin->weights);
    twin->state[0] = twin->weights + count;
    twin->state[1] = twin->weights + 2 * count;
    layout_init_weights(&twin->layout, seed, twin->weights);
    for (size_t i = 0; i < count; i++) {
        twin->state[0][i] = 2 * twin->weights[i];
        twin->state[1][i] = 4 * twin->weights[i];
    }
}

static void golden_twin(Twin *twin)
{
    twin_open(twin, (int[]){16, 5, 3}, 2, 7);
}

static void twin_close(Twin *twin)
{
    free(twin->weights);
}

/* What checkpoint.py writes into checkpoint_trainer.safetensors. */
static const Progressed golden_progress = {
    .layers = 2,
    .widths = {16, 5, 3},
    .optimizer = {.kind = OPTIMIZER_ADAMW, .lr = 0.001, .momentum = 0.9, .weight_decay = 0.01},
    .seed = 7,
    .batch = 8,
    .data = "my \"images\"",
    .samples = 45,
    .step = 12,
    .epoch = 2,
};

static const CheckpointFit loose = {.class = "Sequential"};
static const CheckpointFit strict = {.strict = true, .class = "Sequential"};
static const CheckpointFit strict_wrapped = {
    .strict = true, .wrapped = true, .class = "DistributedDataParallel"};

/* Loads into zeroed weights; `notes` [4096] and `loaded` [256] are what is said. */
static Error load(const char *path, const Layout *layout, const CheckpointFit *fit, float *weights,
                  char *notes, char *loaded)
{
    Error error = NULL;
    *notes = *loaded = '\0';
    Checkpoint *checkpoint = checkpoint_open(path, &error);
    if (!checkpoint)
        return error;
    memset(weights, 0, sizeof *weights * layout->arena_count);
    FILE *stream = fmemopen(notes, 4096, "w");
    assert_non_null(stream);
    error = checkpoint_load(checkpoint, layout, fit, stream, weights, loaded);
    fclose(stream);
    checkpoint_close(checkpoint);
    return error;
}

static void assert_loads(const char *path, const CheckpointFit *fit, const char *says)
{
    Twin twin;
    golden_twin(&twin);
    float *weights = calloc(twin.layout.arena_count, sizeof *weights);
    char notes[4096], loaded[256];
    assert_null(load(path, &twin.layout, fit, weights, notes, loaded));
    assert_memory_equal(weights, twin.weights, sizeof *weights * twin.layout.arena_count);
    assert_string_equal(loaded, says);
    free(weights);
    twin_close(&twin);
}

/* Refused with `error` and, on the notes, `list`. */
static void assert_refused(const char *path, const int *widths, int layers,
                           const CheckpointFit *fit, const char *error, const char *list)
{
    Layout layout;
    layout_init(&layout, widths, layers);
    float *weights = calloc(layout.arena_count, sizeof *weights);
    char notes[4096], loaded[256];
    Error found = load(path, &layout, fit, weights, notes, loaded);
    assert_non_null(found);
    assert_string_equal(found, error);
    assert_string_equal(notes, list);
    free(weights);
}

/* --- exchange ------------------------------------------------------------------------------- */

static void test_pytorchs_files_are_loaded(void **state)
{
    (void)state;
    assert_loads(GOLDEN "clean.safetensors", &loose, "4 tensors, keys without \"module.\"");
    assert_loads(GOLDEN "clean.safetensors", &strict, "4 tensors, keys without \"module.\"");
    const char *wrapped = "4 tensors, keys with \"module.\", as a wrapper saves them";
    assert_loads(GOLDEN "wrapped.safetensors", &loose, wrapped);
    assert_loads(GOLDEN "wrapped.safetensors", &strict_wrapped, wrapped);
    assert_loads(GOLDEN "other.safetensors", &loose, "4 tensors, keys without \"module.\"");
    assert_loads(GOLDEN "trainer.safetensors", &strict, "4 tensors, keys without \"module.\"");

    Twin twin;
    twin_open(&twin, (int[]){16, 3}, 1, 7);
    float *weights = calloc(twin.layout.arena_count, sizeof *weights);
    char notes[4096], loaded[256];
    assert_null(load(GOLDEN "single.safetensors", &twin.layout, &strict, weights, notes, loaded));
    assert_memory_equal(weights, twin.weights, sizeof *weights * twin.layout.arena_count);
    free(weights);
    twin_close(&twin);
}

static void test_what_is_written_is_what_python_reads(void **state)
{
    (void)state;
    Twin twin;
    golden_twin(&twin);
    CheckpointSettings settings = {.path = in_folder("ours")};
    assert_null(
        checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &golden_progress));
    size_t ours_bytes, golden_bytes;
    char *ours = read_all(settings.path, &ours_bytes);
    char *golden = read_all(GOLDEN "trainer.safetensors", &golden_bytes);
    assert_int_equal(ours_bytes, golden_bytes);
    assert_memory_equal(ours, golden, golden_bytes);
    free(ours);
    free(golden);
    twin_close(&twin);
    assert_int_equal(for_files(NULL), 1); /* nothing is left beside it */
}

/* Keys with "module.", no optimizer: what a strict load_state_dict of a wrapped model takes. */
static void test_wrapped_keys_and_weights_only(void **state)
{
    (void)state;
    Twin twin;
    golden_twin(&twin);
    CheckpointSettings settings = {
        .path = in_folder("wrapped"), .wrapped = true, .weights_only = true};
    assert_null(
        checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &golden_progress));
    assert_loads(settings.path, &strict_wrapped,
                 "4 tensors, keys with \"module.\", as a wrapper saves them");
    Safetensors file;
    assert_null(safetensors_open(&file, settings.path));
    static const char *const names[] = {"module.0.weight", "module.0.bias", "module.2.weight",
                                        "module.2.bias"};
    assert_int_equal(file.tensors, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(file.tensor[i].name, names[i]);
    safetensors_close(&file);

    Error error = NULL;
    Progressed progressed;
    Checkpoint *checkpoint = checkpoint_open(settings.path, &error);
    assert_non_null(checkpoint);
    error = checkpoint_progressed(checkpoint, &progressed);
    assert_non_null(error);
    assert_non_null(strstr(error,
                           "wrapped: cannot be resumed: its metadata lack step; --load takes "
                           "the weights alone"));
    checkpoint_close(checkpoint);
    twin_close(&twin);
}

static void test_all_of_a_run_comes_back(void **state)
{
    (void)state;
    Twin twin;
    golden_twin(&twin);
    Progressed saved = golden_progress, found;
    saved.optimizer.lr = 0.1 / 3; /* no short decimal gives it back */
    CheckpointSettings settings = {.path = in_folder("run")};
    size_t bytes = sizeof(float) * twin.layout.arena_count;
    float *memory = malloc(2 * bytes);
    float *read[2] = {memory, memory + twin.layout.arena_count};
    for (OptimizerKind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_ADAMW; kind++) {
        saved.optimizer.kind = kind;
        memset(memory, 0, 2 * bytes);
        assert_null(checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &saved));
        Error error = NULL;
        Checkpoint *checkpoint = checkpoint_open(settings.path, &error);
        assert_non_null(checkpoint);
        assert_null(checkpoint_progressed(checkpoint, &found));
        assert_int_equal(found.layers, 2);
        assert_memory_equal(found.widths, saved.widths, sizeof found.widths);
        assert_int_equal(found.optimizer.kind, kind);
        assert_true(found.optimizer.lr == saved.optimizer.lr);
        assert_true(found.optimizer.momentum == saved.optimizer.momentum);
        assert_true(found.optimizer.weight_decay == saved.optimizer.weight_decay);
        assert_true(found.seed == 7);
        assert_int_equal(found.batch, 8);
        assert_string_equal(found.data, saved.data);
        assert_int_equal(found.samples, 45);
        assert_int_equal(found.step, 12);
        assert_int_equal(found.epoch, 2);
        assert_null(checkpoint_load_state(checkpoint, &twin.layout, &saved.optimizer, read));
        assert_memory_equal(read[0], twin.state[0], bytes);
        if (kind != OPTIMIZER_SGD)
            assert_memory_equal(read[1], twin.state[1], bytes);
        checkpoint_close(checkpoint);
    }
    free(memory);
    twin_close(&twin);
}

/* --- what does not fit ---------------------------------------------------------------------- */

/* PyTorch's words, from load_state_dict of PyTorch 1.13. */
static void test_misfits_in_pytorchs_words(void **state)
{
    (void)state;
    const int widths[] = {16, 5, 3};
    assert_refused(GOLDEN "wrapped.safetensors", widths, 2, &strict,
                   GOLDEN "wrapped.safetensors: not loaded: with --strict its keys must be the "
                          "model's, to the letter",
                   "Error(s) in loading state_dict for Sequential:\n"
                   "\tMissing key(s) in state_dict: \"0.weight\", \"0.bias\", \"2.weight\", "
                   "\"2.bias\". \n"
                   "\tUnexpected key(s) in state_dict: \"module.0.bias\", \"module.0.weight\", "
                   "\"module.2.bias\", \"module.2.weight\". \n");
    assert_refused(GOLDEN "clean.safetensors", widths, 2, &strict_wrapped,
                   GOLDEN "clean.safetensors: not loaded: with --strict its keys must be the "
                          "model's, to the letter",
                   "Error(s) in loading state_dict for DistributedDataParallel:\n"
                   "\tMissing key(s) in state_dict: \"module.0.weight\", \"module.0.bias\", "
                   "\"module.2.weight\", \"module.2.bias\". \n"
                   "\tUnexpected key(s) in state_dict: \"0.bias\", \"0.weight\", \"2.bias\", "
                   "\"2.weight\". \n");
    assert_refused(GOLDEN "clean.safetensors", (int[]){16, 6, 3}, 2, &loose,
                   GOLDEN "clean.safetensors: not loaded: its shapes are not those of --layers",
                   "Error(s) in loading state_dict for Sequential:\n"
                   "\tsize mismatch for 0.weight: copying a param with shape torch.Size([5, 16]) "
                   "from checkpoint, the shape in current model is torch.Size([6, 16]).\n"
                   "\tsize mismatch for 0.bias: copying a param with shape torch.Size([5]) from "
                   "checkpoint, the shape in current model is torch.Size([6]).\n"
                   "\tsize mismatch for 2.weight: copying a param with shape torch.Size([3, 5]) "
                   "from checkpoint, the shape in current model is torch.Size([3, 6]).\n");
    assert_refused(GOLDEN "single.safetensors", widths, 2, &loose,
                   GOLDEN "single.safetensors: none of its 2 tensors is one of the model's, such "
                          "as \"0.weight\"",
                   "");
    assert_refused(GOLDEN "half.safetensors", widths, 2, &loose,
                   GOLDEN "half.safetensors: 0.weight is F16; only F32 can be loaded", "");
}

/* Not strict: what is there is loaded, what is not keeps its values, and both are said. */
static void test_missing_and_unexpected_keys_are_listed(void **state)
{
    (void)state;
    Layout layout;
    layout_init(&layout, (int[]){16, 5, 3, 2}, 3);
    float *weights = malloc(sizeof *weights * layout.arena_count);
    char notes[4096], loaded[256];
    assert_null(load(GOLDEN "other.safetensors", &layout, &loose, weights, notes, loaded));
    assert_non_null(strstr(notes, GOLDEN "other.safetensors: Missing key(s) in state_dict: "
                                         "\"4.weight\", \"4.bias\". They keep their first "
                                         "values.\n"));
    assert_non_null(strstr(notes, GOLDEN "other.safetensors: Unexpected key(s) in state_dict: "));
    assert_non_null(strstr(notes, "\"running_mean\""));
    assert_non_null(strstr(notes, "\"num_batches_tracked\""));
    const Parameter *missing = layout_registered(&layout, 4);
    assert_string_equal(missing->name, "4.weight");
    for (size_t i = 0; i < missing->count; i++)
        assert_true(weights[missing->offset + i] == 0);
    CheckpointFit complete = {.complete = true, .class = "Sequential"};
    Error error = load(GOLDEN "other.safetensors", &layout, &complete, weights, notes, loaded);
    assert_non_null(error);
    assert_string_equal(error, GOLDEN "other.safetensors: cannot be resumed: it lacks 4.weight");
    free(weights);
}

static void test_state_that_is_not_there(void **state)
{
    (void)state;
    Twin twin;
    golden_twin(&twin);
    Error error = NULL;
    Checkpoint *checkpoint = checkpoint_open(GOLDEN "clean.safetensors", &error);
    error = checkpoint_load_state(checkpoint, &twin.layout, &golden_progress.optimizer, twin.state);
    assert_non_null(error);
    assert_string_equal(error, GOLDEN "clean.safetensors: cannot be resumed: it lacks "
                                      "optimizer.exp_avg.0.weight; --load takes the weights "
                                      "alone");
    checkpoint_close(checkpoint);
    twin_close(&twin);
}

/* --- the format's rules --------------------------------------------------------------------- */

/* A file with this header and `data_bytes` zeros after it. */
static void write_file(const char *path, const char *header, size_t data_bytes)
{
    char content[4096] = "";
    uint64_t length = strlen(header);
    memcpy(content, &length, sizeof length);
    assert_true(8 + length + data_bytes < sizeof content);
    strcpy(content + 8, header);
    write_all(path, content, 8 + length + data_bytes);
}

#define VECTOR(name, begin, end)                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"

static void test_headers_that_break_a_rule(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *says; /* NULL: the file is fine */
    } files[] = {
        {"{}", 0, NULL},
        {"{}\n\t   ", 0, NULL},
        {"{" VECTOR("a", "0", "8") "}", 8, NULL},
        {"{" VECTOR("b", "8", "16") "," VECTOR("a", "0", "8") "}", 16, NULL},
        {"{\"__metadata__\":{\"a\":\"\\u00e9\"}," VECTOR("\xc3\xa9", "0", "8") "}", 8, NULL},
        {"{\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,0]}}", 0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}," VECTOR("b", "0",
                                                                                   "8") "}",
         8, NULL},

        {"[]", 0, "its header does not begin with {"},
        {" {}", 0, "its header does not begin with {"},
        {"{\"a\":", 0, "its header is not JSON: an error at byte 4"},
        {"{\"a\":1}x", 0, "its header goes on after the closing brace, at byte 7"},
        {"{\"a\1\":1}", 0, "its header has a control character at byte 3"},
        {"{\"\xff\":1}", 0, "its header is not UTF-8 at byte 2"},
        {"{\"\xc0\xaf\":1}", 0, "its header is not UTF-8 at byte 2"},
        {"{\"\xed\xa0\x80\":1}", 0, "its header is not UTF-8 at byte 2"},
        {"{\"a\xe2\x82", 0, "its header is not UTF-8 at byte 3"},
        {"{\"a\\u0000b\":1}", 0, "its header has a name or text with a zero in it"},

        {"{" VECTOR("a", "0", "8") "," VECTOR("a", "8", "16") "}", 16, "its header has a twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "its header has __metadata__ twice"},
        {"{\"__metadata__\":{\"b\":\"1\",\"a\":\"1\",\"b\":\"2\"}}", 0, "__metadata__ has b twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "a has dtype twice"},
        {"{\"__metadata__\":7}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"step\":7}}", 0, "__metadata__: step is not a string"},

        {"{\"a\":[]}", 0, "a is not described by an object"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a has no dtype"},
        {"{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a has no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "a has no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"Shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "a has Shape, which is none of dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8,
         "a has no data_offsets: two whole numbers, where it begins and ends"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8,
         "a has no data_offsets: two whole numbers, where it begins and ends"},
        {"{" VECTOR("a", "-8", "0") "}", 8,
         "a has no data_offsets: two whole numbers, where it begins and ends"},
        {"{" VECTOR("a", "0.5", "8.5") "}", 8,
         "a has no data_offsets: two whole numbers, where it begins and ends"},
        {"{" VECTOR("a", "0", "1e300") "}", 8,
         "a has no data_offsets: two whole numbers, where it begins and ends"},
        {"{" VECTOR("a", "8", "0") "}", 8, "a ends at byte 0, before it begins at byte 8"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "a has an unknown dtype, F31"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
         "a has a shape of something else than whole numbers from 0 up"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8,
         "a has a shape of something else than whole numbers from 0 up"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8,
         "a has a shape of more bytes than can be counted"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
         "a F32 of shape [3] is 12 bytes, but its data_offsets are 8 apart"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
         "a has numbers that do not fill whole bytes"},

        {"{" VECTOR("a", "0", "8") "," VECTOR("b", "4", "12") "}", 12,
         "b begins at byte 4 of the data, within a, which ends at byte 8"},
        {"{" VECTOR("a", "0", "8") "," VECTOR("b", "0", "8") "}", 8,
         "b begins at byte 0 of the data, within a, which ends at byte 8"},
        {"{" VECTOR("a", "0", "8") "," VECTOR("b", "12", "20") "}", 20,
         "a hole in the data: bytes 8 to 11, before b, are no tensor's"},
        {"{" VECTOR("a", "4", "12") "}", 12,
         "a hole in the data: bytes 0 to 3, before a, are no tensor's"},
        {"{" VECTOR("a", "0", "8") "}", 7,
         "cut short: its data end at byte 7, its tensors at byte 8"},
        {"{" VECTOR("a", "0", "8") "}", 11,
         "its tensors end at byte 8 of the data, but 11 bytes are there"},
        {"{}", 1, "its tensors end at byte 0 of the data, but 1 bytes are there"},
    };
    const char *path = in_folder("file");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char expected[1024];
        Safetensors file;
        write_file(path, files[i].header, files[i].data_bytes);
        Error error = safetensors_open(&file, path);
        snprintf(expected, sizeof expected, "%s: %s", path, files[i].says ? files[i].says : "");
        if (files[i].says && !error)
            fail_msg("%s is accepted", files[i].header);
        if (files[i].says)
            assert_string_equal(error, expected);
        else if (error)
            fail_msg("%s: %s", files[i].header, error);
        safetensors_close(&file);
    }
}

static void expect_open(const char *path, const char *says)
{
    Safetensors file;
    char expected[1024];
    snprintf(expected, sizeof expected, "%s: %s", path, says);
    Error error = safetensors_open(&file, path);
    assert_non_null(error);
    assert_string_equal(error, expected);
    safetensors_close(&file);
}

static void test_files_that_are_none(void **state)
{
    (void)state;
    expect_open(in_folder("none"), "cannot be opened: No such file or directory");
    expect_open(folder, "is not a file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    expect_open(in_folder("pipe"), "is not a file"); /* and nothing hangs */
    write_all(in_folder("short"), "abc", 3);
    expect_open(in_folder("short"), "not a safetensors file: 3 bytes, and the header's length "
                                    "alone takes 8");
    write_all(in_folder("words"), "0123456789abcdef", 16);
    expect_open(in_folder("words"),
                "not a safetensors file, or cut short: its first 8 bytes say that a header of "
                "3978425819141910832 bytes follows, but 8 do");
    write_all(in_folder("zero"), "\0\0\0\0\0\0\0\0", 8);
    expect_open(in_folder("zero"), "its header of 0 bytes is too short to be JSON");
    const char *large = in_folder("large"); /* a sparse file: it takes no room */
    uint64_t length = 100000001;
    write_all(large, &length, sizeof length);
    assert_int_equal(truncate(large, 100000100), 0);
    expect_open(large, "its header of 100000001 bytes is longer than the 100000000 that are "
                       "allowed");
}

/* Wherever a good file is cut, it is refused; and whichever byte of its header is another, nothing
 * worse happens than a refusal. */
static void test_damaged_files(void **state)
{
    (void)state;
    size_t bytes;
    char *content = read_all(GOLDEN "trainer.safetensors", &bytes);
    const char *path = in_folder("damaged");
    for (size_t cut = 0; cut < bytes; cut++) {
        Safetensors file;
        write_all(path, content, cut);
        assert_non_null(safetensors_open(&file, path));
        safetensors_close(&file);
    }
    uint64_t header_bytes;
    memcpy(&header_bytes, content, sizeof header_bytes);
    Layout layout;
    layout_init(&layout, (int[]){16, 5, 3}, 2);
    float *weights = malloc(sizeof *weights * layout.arena_count);
    for (size_t i = 0; i < 8 + (size_t)header_bytes; i++) {
        static const char others[] = {0,   1,   '0', '9',  '"', '{',        '}',       '[',
                                      ',', '-', 'e', '\\', ' ', (char)0x80, (char)0xff};
        char old = content[i], notes[4096], loaded[256];
        content[i] = others[(i * 7 + i / 15) % sizeof others];
        write_all(path, content, bytes);
        content[i] = old;
        Error error = load(path, &layout, &loose, weights, notes, loaded);
        if (error)
            assert_memory_equal(error, path, strlen(path));
    }
    free(weights);
    free(content);
}

/* Metadata of a run that make no sense. */
static void test_runs_that_cannot_be_resumed(void **state)
{
    (void)state;
    static const struct {
        const char *good, *bad, *says;
    } changes[] = {
        {"\"step\":\"12\"", "\"step\":\"-1\"",
         "its metadata have step=-1: must lie between 0 and 9223372036854775807"},
        {"\"step\":\"12\"", "\"step\":\"18\"",
         "18 steps are not 2 epochs with 45 samples in batches of 8"},
        {"\"epoch\":\"2\"", "\"epoch\":\"x\"", "its metadata have epoch=x: not a whole number"},
        {"\"lr\":\"0.001\"", "\"lr\":\"nanny\"", "its metadata have lr=nanny: not a number"},
        {"\"batch\":\"8\"", "\"batch\":\"0\"",
         "its metadata have batch=0: must lie between 1 and 1048576"},
        {"adamw\"", "lions\"", "its metadata have optimizer=lions, which is none"},
        {"16,5,3\"", "16,5,x\"", "its metadata have layers=16,5,x"},
        {"\"samples\"", "\"sampled\"", "its metadata lack samples; --load takes the weights alone"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        size_t bytes, length = strlen(changes[i].good);
        char *content = read_all(GOLDEN "trainer.safetensors", &bytes);
        char *place = memmem(content, bytes, changes[i].good, length);
        assert_non_null(place);
        assert_int_equal(strlen(changes[i].bad), length);
        memcpy(place, changes[i].bad, length);
        const char *path = in_folder("run");
        write_all(path, content, bytes);
        free(content);

        Error error = NULL;
        Progressed progressed;
        char expected[1024];
        snprintf(expected, sizeof expected, "%s: cannot be resumed: %s", path, changes[i].says);
        Checkpoint *checkpoint = checkpoint_open(path, &error);
        assert_non_null(checkpoint);
        error = checkpoint_progressed(checkpoint, &progressed);
        assert_non_null(error);
        assert_string_equal(error, expected);
        checkpoint_close(checkpoint);
    }
}

/* --- saving that fails, or is cut off ------------------------------------------------------- */

static void test_saving_that_fails_keeps_the_old_file(void **state)
{
    (void)state;
    Twin twin;
    golden_twin(&twin);
    char path[600], expected[1024];
    snprintf(path, sizeof path, "%s", in_folder("file"));
    write_all(path, "old", 3);

    /* no more than 64 bytes fit into any file, as on a disk that is full */
    struct rlimit old_limit, limit;
    getrlimit(RLIMIT_FSIZE, &old_limit);
    limit = (struct rlimit){.rlim_cur = 64, .rlim_max = old_limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    CheckpointSettings settings = {.path = path};
    Error error =
        checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &golden_progress);
    setrlimit(RLIMIT_FSIZE, &old_limit);
    assert_non_null(error);
    snprintf(expected, sizeof expected, "%s: cannot be saved: File too large", path);
    assert_string_equal(error, expected);
    size_t bytes;
    char *content = read_all(path, &bytes);
    assert_int_equal(bytes, 3);
    assert_memory_equal(content, "old", 3);
    free(content);
    assert_int_equal(for_files(NULL), 1);

    settings.path = in_folder("none/file");
    error = checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &golden_progress);
    assert_non_null(error);
    assert_non_null(strstr(error, "none/file: cannot be saved: No such file or directory"));

    assert_int_equal(mkdir(in_folder("directory"), 0700), 0);
    settings.path = in_folder("directory");
    error = checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &golden_progress);
    assert_non_null(error);
    assert_non_null(strstr(error, "directory: cannot be saved: Is a directory"));
    assert_int_equal(for_files(NULL), 2); /* the file and the directory: nothing half-written */
    twin_close(&twin);
}

/* A symbolic link stays one: the file that it points to is the new one. */
static void test_links_are_followed(void **state)
{
    (void)state;
    Twin twin;
    golden_twin(&twin);
    char path[600];
    snprintf(path, sizeof path, "%s", in_folder("link"));
    write_all(in_folder("file"), "old", 3);
    assert_int_equal(symlink("file", path), 0);
    CheckpointSettings settings = {.path = path};
    assert_null(
        checkpoint_save(&settings, &twin.layout, twin.weights, twin.state, &golden_progress));
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_loads(in_folder("file"), &strict, "4 tensors, keys without \"module.\"");
    twin_close(&twin);
}

/* Saves the one and the other for ever, until it is killed. */
static void save_for_ever(const char *path, const Twin *twin)
{
    CheckpointSettings settings = {.path = path};
    for (;;)
        for (int i = 0; i < 2; i++)
            if (checkpoint_save(&settings, &twin[i].layout, twin[i].weights, twin[i].state,
                                &golden_progress))
                _exit(1);
}

/* The contents of `path` are those of one of the two; which one. */
static int which_content(const char *path, char *const content[2], size_t bytes)
{
    size_t found_bytes;
    char *found = read_all(path, &found_bytes);
    assert_int_equal(found_bytes, bytes);
    int which = memcmp(found, content[0], bytes) == 0   ? 0
                : memcmp(found, content[1], bytes) == 0 ? 1
                                                        : -1;
    free(found);
    return which;
}

/* How many partial files killed writers have left. */
static int partial_files;

static void count_partial(const char *path)
{
    partial_files += strstr(path, ".partial-") != NULL;
}

/* Has a process an open file without a name? Then it is in the middle of saving. */
static bool holds_a_nameless_file(pid_t process)
{
    char path[64], target[PATH_MAX];
    bool found = false;
    for (int file = 3; file < 16; file++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process, file);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        found = found || (strstr(target, "(deleted)") && strstr(target, "/#"));
    }
    return found;
}

/* Makes open fail with O_TMPFILE, as on a file system that does not have it. False: not possible
 * here. */
static bool forbid_nameless_files(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Kills writers all over the time that a few savings take, with or without O_TMPFILE. Whatever the
 * moment: a whole file, and nothing else once the next one has cleaned up. Counts in
 * partial_files how many left something, and returns how many were seen with a nameless file. */
static int kill_writers(bool nameless)
{
    enum { KILLS = 100 };
    Twin twin[2];
    char *content[2], path[600];
    size_t bytes;
    int status, writing = 0;
    snprintf(path, sizeof path, "%s", in_folder("file"));
    CheckpointSettings settings = {.path = path};
    for (int i = 0; i < 2; i++) {
        twin_open(&twin[i], (int[]){256, 256, 10}, 2, (uint64_t)i); /* 0.8 MB with its state */
        assert_null(checkpoint_save(&settings, &twin[i].layout, twin[i].weights, twin[i].state,
                                    &golden_progress));
        content[i] = read_all(path, &bytes);
    }
    partial_files = 0;
    for (int i = 0; i < KILLS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (!nameless && !forbid_nameless_files())
                _exit(2);
            save_for_ever(path, twin);
        }
        usleep((useconds_t)(i * 7919 % 10000));
        kill(child, SIGSTOP);
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        writing += holds_a_nameless_file(child);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(which_content(path, content, bytes) >= 0);
        for_files(count_partial);
        replace_clean(path);
        assert_int_equal(for_files(NULL), 1);
    }
    for (int i = 0; i < 2; i++) {
        free(content[i]);
        twin_close(&twin[i]);
    }
    return writing;
}

static void test_a_killed_writer_leaves_a_whole_file_and_nothing_else(void **state)
{
    (void)state;
    int probe = open(in_folder("."), O_TMPFILE | O_WRONLY, 0600);
    if (probe < 0)
        skip();
    close(probe);
    /* else nobody was killed while writing, and this test has shown nothing */
    assert_true(kill_writers(true) > 0);
    /* between its name and its place there is only a moment */
    assert_true(partial_files < 50);
}

static void test_without_nameless_files(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(forbid_nameless_files() ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        skip();
    assert_int_equal(kill_writers(false), 0);
    assert_true(partial_files > 0);
}

/* Only what nobody writes any more is removed, and only what belongs to this file. */
static void test_cleaning_spares_what_is_at_work(void **state)
{
    (void)state;
    write_all(in_folder("file.partial-1"), "left", 4);
    write_all(in_folder("file.partial-2"), "at work", 7);
    write_all(in_folder("file.partial-2b"), "other", 5);
    write_all(in_folder("afile.partial-1"), "other", 5);
    int file = open(in_folder("file.partial-2"), O_WRONLY);
    assert_int_equal(flock(file, LOCK_EX), 0);
    replace_clean(in_folder("file"));
    assert_int_equal(for_files(NULL), 3);
    assert_int_equal(access(in_folder("file.partial-1"), F_OK), -1);
    close(file);
    replace_clean(in_folder("file"));
    assert_int_equal(for_files(NULL), 2);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_teardown(test, empty_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorchs_files_are_loaded),
        IN_FOLDER(test_what_is_written_is_what_python_reads),
        IN_FOLDER(test_wrapped_keys_and_weights_only),
        IN_FOLDER(test_all_of_a_run_comes_back),
        cmocka_unit_test(test_misfits_in_pytorchs_words),
        cmocka_unit_test(test_missing_and_unexpected_keys_are_listed),
        cmocka_unit_test(test_state_that_is_not_there),
        IN_FOLDER(test_headers_that_break_a_rule),
        IN_FOLDER(test_files_that_are_none),
        IN_FOLDER(test_damaged_files),
        IN_FOLDER(test_runs_that_cannot_be_resumed),
        IN_FOLDER(test_saving_that_fails_keeps_the_old_file),
        IN_FOLDER(test_links_are_followed),
        IN_FOLDER(test_a_killed_writer_leaves_a_whole_file_and_nothing_else),
        IN_FOLDER(test_without_nameless_files),
        IN_FOLDER(test_cleaning_spares_what_is_at_work),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
