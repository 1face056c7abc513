/* data.c: images from IDX files (see data.h; the generated ones are in synthetic.c).
 *
 * The IDX format (yann.lecun.com/exdb/mnist): big-endian, a magic number 0x0000TTDD of element type
 * (0x08: unsigned byte) and number of dimensions, then the dimensions, then the bytes.
 */
#include "data.h"

#include "synthetic.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define PACKAGED_DIRECTORY "/usr/share/datasets/fashion-mnist"
#define MAGIC_IMAGES       0x00000803u
#define MAGIC_LABELS       0x00000801u
#define MOST_SIDE          4096 /* pixels of an image's side */
#define MOST_IMAGES        100000000u

/* --- memory ------------------------------------------------------------------------------- */

static Error map_bytes(size_t bytes, uint8_t **memory)
{
    void *mapped =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRY_SYSTEM(mapped != MAP_FAILED, "memory for %zu bytes of images", bytes);
    *memory = mapped;
    return NULL;
}

Error images_map(Images *images, size_t count, int height, int width)
{
    *images = (Images){.count = count, .height = height, .width = width};
    TRY(map_bytes(count * (size_t)height * (size_t)width, &images->pixels));
    return map_bytes(count, &images->labels);
}

static void images_free(Images *images)
{
    size_t pixels = images->count * (size_t)images->height * (size_t)images->width;
    if (images->pixels)
        munmap(images->pixels, pixels ? pixels : 1);
    if (images->labels)
        munmap(images->labels, images->count ? images->count : 1);
    *images = (Images){0};
}

void data_describe(size_t samples, int pixels, int classes, Dataset *dataset)
{
    *dataset = (Dataset){.name = "described"};
    dataset->train = (Images){.count = samples, .height = 1, .width = pixels, .classes = classes};
    dataset->test = (Images){.height = 1, .width = pixels, .classes = classes};
}

void data_free(Dataset *dataset)
{
    images_free(&dataset->train);
    images_free(&dataset->test);
}

/* Samples lie anywhere in memory, where the processor cannot guess the next one: it is told a few
 * samples ahead, which makes gathering a batch a third faster. */
#define SAMPLES_AHEAD 4
#define CACHE_LINE    64

void data_gather(const Images *images, const uint32_t *samples, size_t count, uint8_t *pixels,
                 uint8_t *labels)
{
    size_t size = (size_t)images->height * (size_t)images->width;
    for (size_t i = 0; i < count; i++) {
        if (i + SAMPLES_AHEAD < count) {
            const uint8_t *ahead = images->pixels + samples[i + SAMPLES_AHEAD] * size;
            for (size_t at = 0; at < size; at += CACHE_LINE)
                __builtin_prefetch(ahead + at);
        }
        memcpy(pixels + i * size, images->pixels + samples[i] * size, size);
        labels[i] = images->labels[samples[i]];
    }
}

/* --- IDX files ---------------------------------------------------------------------------- */

/* An open file; gzFile reads plain files, too. Offsets are those of the unpacked bytes. */
typedef struct IdxFile {
    char path[4096];
    gzFile file;
    size_t offset;
} IdxFile;

/* Opens the first of the file's usual spellings that exists. */
static Error open_idx(IdxFile *idx, const char *directory, const char *part, const char *kind)
{
    static const char *const spellings[] = {"%s/%s-%s-ubyte", "%s/%s-%s-ubyte.gz", "%s/%s.%s-ubyte",
                                            "%s/%s.%s-ubyte.gz"};
    char stem[64], dimensions[16];
    snprintf(stem, sizeof stem, "%s-%s", part, kind);
    snprintf(dimensions, sizeof dimensions, "%s", strcmp(kind, "images") == 0 ? "idx3" : "idx1");
    *idx = (IdxFile){0};
    struct stat status;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        snprintf(idx->path, sizeof idx->path, spellings[i], directory, stem, dimensions);
        if (stat(idx->path, &status) != 0)
            continue;
        if (S_ISDIR(status.st_mode))
            return error_make("%s: is a directory, not an IDX file", idx->path);
        idx->file = gzopen(idx->path, "rb");
        if (!idx->file)
            return error_make("%s: cannot be opened: %s", idx->path, strerror(errno));
        gzbuffer(idx->file, 1 << 18);
        return NULL;
    }
    return error_make("%s: no file %s-%s-ubyte or %s-%s-ubyte.gz in it", directory, stem,
                      dimensions, stem, dimensions);
}

/* What zlib last complained about, in `code`, too; without the file name that it puts in front. */
static const char *complaint(IdxFile *idx, int *code)
{
    const char *text = gzerror(idx->file, code);
    if (*code == Z_ERRNO)
        return strerror(errno);
    size_t length = strlen(idx->path);
    bool named = strncmp(text, idx->path, length) == 0 && strncmp(text + length, ": ", 2) == 0;
    return named ? text + length + 2 : text;
}

/* Reads exactly `bytes`; `what` says what they are. */
static Error read_bytes(IdxFile *idx, void *to, size_t bytes, const char *what)
{
    unsigned char *at = to;
    size_t got = 0;
    while (got < bytes) {
        size_t left = bytes - got;
        int count = gzread(idx->file, at + got, (unsigned)(left < 1u << 30 ? left : 1u << 30));
        if (count <= 0)
            break;
        got += (size_t)count;
    }
    if (got == bytes) {
        idx->offset += bytes;
        return NULL;
    }
    int code;
    const char *reason = complaint(idx, &code);
    if (code != Z_OK && code != Z_BUF_ERROR)
        return error_make("%s: damaged after byte %zu: %s", idx->path, idx->offset + got, reason);
    return error_make("%s: ends at byte %zu, in %s, which should go on to byte %zu", idx->path,
                      idx->offset + got, what, idx->offset + bytes);
}

static Error read_number(IdxFile *idx, uint32_t *number, const char *what)
{
    unsigned char bytes[4];
    TRY(read_bytes(idx, bytes, sizeof bytes, what));
    *number = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
              (uint32_t)bytes[3];
    return NULL;
}

static Error read_magic(IdxFile *idx, uint32_t expected, const char *kind)
{
    uint32_t magic;
    TRY(read_number(idx, &magic, "the magic number"));
    if (magic == expected)
        return NULL;
    const char *is = magic == MAGIC_IMAGES   ? ": these are images"
                     : magic == MAGIC_LABELS ? ": these are labels"
                                             : "";
    return error_make("%s: byte 0: magic number 0x%08x%s; a file of %s begins with 0x%08x",
                      idx->path, magic, is, kind, expected);
}

static Error expect_end(IdxFile *idx)
{
    unsigned char byte;
    int count = gzread(idx->file, &byte, 1);
    if (count > 0)
        return error_make("%s: goes on after byte %zu, where its header says that it ends",
                          idx->path, idx->offset);
    int code;
    const char *reason = complaint(idx, &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END))
        return error_make("%s: damaged after byte %zu: %s", idx->path, idx->offset, reason);
    return NULL;
}

static Error read_images(IdxFile *idx, Images *images)
{
    uint32_t count, height, width;
    TRY(read_magic(idx, MAGIC_IMAGES, "images"));
    TRY(read_number(idx, &count, "the number of images"));
    TRY(read_number(idx, &height, "the height of an image"));
    TRY(read_number(idx, &width, "the width of an image"));
    if (count == 0 || count > MOST_IMAGES)
        return error_make("%s: byte 4: %u images; expected 1 to %u", idx->path, count, MOST_IMAGES);
    if (height == 0 || height > MOST_SIDE || width == 0 || width > MOST_SIDE)
        return error_make("%s: byte 8: images of %u x %u pixels; expected 1 to %d each way",
                          idx->path, height, width, MOST_SIDE);
    size_t bytes = (size_t)count * height * width;
    if (images_map(images, count, (int)height, (int)width))
        return error_make("%s: byte 4: %u images of %u x %u pixels: no memory for %zu bytes",
                          idx->path, count, height, width, bytes);
    TRY(read_bytes(idx, images->pixels, bytes, "the pixels"));
    return expect_end(idx);
}

static Error read_labels(IdxFile *idx, Images *images)
{
    uint32_t count;
    TRY(read_magic(idx, MAGIC_LABELS, "labels"));
    TRY(read_number(idx, &count, "the number of labels"));
    if (count != images->count)
        return error_make("%s: byte 4: %u labels, but there are %zu images", idx->path, count,
                          images->count);
    TRY(read_bytes(idx, images->labels, count, "the labels"));
    TRY(expect_end(idx));
    for (size_t i = 0; i < count; i++)
        if (images->labels[i] >= images->classes)
            images->classes = images->labels[i] + 1;
    return NULL;
}

/* --- data sets ---------------------------------------------------------------------------- */

/* Training or test images of a directory. */
typedef struct Part {
    const char *directory, *name;
    Images images;
    char error[1024];
} Part;

static Error load_part(Part *part)
{
    IdxFile idx;
    TRY(open_idx(&idx, part->directory, part->name, "images"));
    Error error = read_images(&idx, &part->images);
    gzclose(idx.file);
    TRY(error);
    TRY(open_idx(&idx, part->directory, part->name, "labels"));
    error = read_labels(&idx, &part->images);
    gzclose(idx.file);
    return error;
}

static void *part_main(void *argument)
{
    Part *part = argument;
    Error error = load_part(part);
    snprintf(part->error, sizeof part->error, "%s", error ? error : "");
    return NULL;
}

/* Unpacking is what takes the time, so the test images are unpacked beside the training images. */
static Error load_directory(const char *directory, Dataset *dataset)
{
    struct stat status;
    if (stat(directory, &status) != 0)
        return error_make(
            "--data=%s: %s; give fashion-mnist, synthetic or a directory of IDX files", directory,
            strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return error_make(
            "--data=%s: not a directory; give the directory that the IDX files are in", directory);
    Part train = {.directory = directory, .name = "train"};
    Part test = {.directory = directory, .name = "t10k"};
    pthread_t thread;
    bool beside = pthread_create(&thread, NULL, part_main, &test) == 0;
    part_main(&train);
    if (beside)
        pthread_join(thread, NULL);
    else
        part_main(&test);
    dataset->train = train.images;
    dataset->test = test.images;
    if (train.error[0])
        return error_make("%s", train.error);
    if (test.error[0])
        return error_make("%s", test.error);
    if (train.images.height != test.images.height || train.images.width != test.images.width)
        return error_make("%s: training images have %d x %d pixels, test images %d x %d", directory,
                          train.images.height, train.images.width, test.images.height,
                          test.images.width);
    return NULL;
}

Error data_load(const char *source, size_t samples, uint64_t seed, Dataset *dataset)
{
    *dataset = (Dataset){0};
    snprintf(dataset->name, sizeof dataset->name, "%s", source);
    bool packaged = strcmp(source, "fashion-mnist") == 0;
    dataset->substitute = packaged && access(PACKAGED_DIRECTORY, F_OK) != 0;
    Error error;
    if (strcmp(source, "synthetic") == 0 || dataset->substitute) {
        snprintf(dataset->name, sizeof dataset->name, "synthetic");
        error = synthetic_make(&dataset->train, samples, seed, 0);
        if (!error)
            error = synthetic_make(&dataset->test, (samples + 5) / 6, seed, 1);
    } else {
        error = load_directory(packaged ? PACKAGED_DIRECTORY : source, dataset);
    }
    if (error)
        data_free(dataset);
    return error;
}
