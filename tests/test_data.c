/* test_data.c: images from files that are whole, damaged or not what their names say; generated
 * images; and how a batch brings every sample to exactly one rank.
 *
 * The files are made here, in a directory of the test's own that is removed at the end.
 */
#include "batch.h"
#include "data.h"
#include "sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { TRAIN = 7, TEST = 5, HEIGHT = 3, WIDTH = 4, PIXELS = HEIGHT * WIDTH };

#define TRAIN_IMAGES "train-images-idx3-ubyte"
#define TRAIN_LABELS "train-labels-idx1-ubyte"
#define TEST_IMAGES  "t10k-images-idx3-ubyte"
#define TEST_LABELS  "t10k-labels-idx1-ubyte"

/* --- a directory of IDX files -------------------------------------------------------------- */

static char directory[64];

/* The bytes of a file before they are written. */
typedef struct Bytes {
    unsigned char at[4096];
    size_t count;
} Bytes;

static void put_number(Bytes *bytes, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes->at[bytes->count++] = (unsigned char)(number >> shift);
}

static unsigned char pixel_value(int file, int sample, int pixel)
{
    return (unsigned char)(file * 100 + sample * PIXELS + pixel);
}

static Bytes image_bytes(int file, int count)
{
    Bytes bytes = {.count = 0};
    put_number(&bytes, 0x803);
    put_number(&bytes, (uint32_t)count);
    put_number(&bytes, HEIGHT);
    put_number(&bytes, WIDTH);
    for (int sample = 0; sample < count; sample++)
        for (int pixel = 0; pixel < PIXELS; pixel++)
            bytes.at[bytes.count++] = pixel_value(file, sample, pixel);
    return bytes;
}

static Bytes label_bytes(int count)
{
    Bytes bytes = {.count = 0};
    put_number(&bytes, 0x801);
    put_number(&bytes, (uint32_t)count);
    for (int sample = 0; sample < count; sample++)
        bytes.at[bytes.count++] = (unsigned char)(sample % 4);
    return bytes;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_plain(const char *name, const Bytes *bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->at, 1, bytes->count, file), bytes->count);
    assert_int_equal(fclose(file), 0);
}

static void write_gzipped(const char *name, const Bytes *bytes)
{
    gzFile file = gzopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes->at, (unsigned)bytes->count), (int)bytes->count);
    assert_int_equal(gzclose(file), Z_OK);
}

static Bytes read_back(const char *name)
{
    Bytes bytes = {.count = 0};
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    bytes.count = fread(bytes.at, 1, sizeof bytes.at, file);
    fclose(file);
    return bytes;
}

static void remove_files(void)
{
    static const char *const names[] = {TRAIN_IMAGES,
                                        TRAIN_LABELS,
                                        TEST_IMAGES,
                                        TEST_LABELS,
                                        "train-images.idx3-ubyte",
                                        "t10k-labels.idx1-ubyte"};
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s.gz", names[i]);
        remove(path_of(names[i]));
        remove(path_of(name));
    }
}

/* Before every case: four files as they should be. */
static int good_files(void **state)
{
    (void)state;
    remove_files();
    Bytes train_images = image_bytes(0, TRAIN), test_images = image_bytes(1, TEST);
    Bytes train_labels = label_bytes(TRAIN), test_labels = label_bytes(TEST);
    write_plain(TRAIN_IMAGES, &train_images);
    write_plain(TRAIN_LABELS, &train_labels);
    write_plain(TEST_IMAGES, &test_images);
    write_plain(TEST_LABELS, &test_labels);
    return 0;
}

static int make_directory(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/trainer-data-XXXXXX",
             parent && strlen(parent) < 32 ? parent : "/tmp");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    remove_files();
    return rmdir(directory);
}

/* --- what is loaded ------------------------------------------------------------------------ */

static void check_loaded(void)
{
    Dataset data;
    Error error = data_load(directory, 0, 0, &data);
    assert_null(error);
    assert_false(data.substitute);
    const Images *parts[] = {&data.train, &data.test};
    for (int file = 0; file < 2; file++) {
        const Images *images = parts[file];
        assert_int_equal(images->count, file == 0 ? TRAIN : TEST);
        assert_int_equal(images->height, HEIGHT);
        assert_int_equal(images->width, WIDTH);
        assert_int_equal(images->classes, 4);
        for (int sample = 0; sample < (int)images->count; sample++) {
            assert_int_equal(images->labels[sample], sample % 4);
            for (int pixel = 0; pixel < PIXELS; pixel++)
                assert_int_equal(images->pixels[sample * PIXELS + pixel],
                                 pixel_value(file, sample, pixel));
        }
    }
    data_free(&data);
    assert_null(data.train.pixels);
}

/* Loading must fail with this sentence, and leave nothing behind. */
static void expect_refusal(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void expect_refusal(const char *format, ...)
{
    char expected[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    Dataset data;
    Error error = data_load(directory, 0, 0, &data);
    assert_non_null(error);
    assert_string_equal(error, expected);
    assert_null(data.train.pixels);
    assert_null(data.test.pixels);
}

static void test_plain_files(void **state)
{
    (void)state;
    check_loaded();
}

static void test_gzipped_files_and_the_other_spelling(void **state)
{
    (void)state;
    Bytes bytes = image_bytes(0, TRAIN);
    remove(path_of(TRAIN_IMAGES));
    write_gzipped("train-images.idx3-ubyte.gz", &bytes);
    bytes = label_bytes(TRAIN);
    remove(path_of(TRAIN_LABELS));
    write_gzipped(TRAIN_LABELS ".gz", &bytes);
    bytes = label_bytes(TEST);
    remove(path_of(TEST_LABELS));
    write_plain("t10k-labels.idx1-ubyte", &bytes);
    check_loaded();
}

/* --- what is refused ----------------------------------------------------------------------- */

static void test_missing_files(void **state)
{
    (void)state;
    remove(path_of(TEST_LABELS));
    expect_refusal("%s: no file t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz in it",
                   directory);
    remove_files();
    expect_refusal("%s: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz in it",
                   directory);
}

static void test_missing_directory(void **state)
{
    (void)state;
    Dataset data;
    Error error = data_load("/no/such/directory", 0, 0, &data);
    assert_non_null(error);
    assert_string_equal(error, "--data=/no/such/directory: No such file or directory; give "
                               "fashion-mnist, synthetic or a directory of IDX files");
    char path[256], expected[512];
    snprintf(path, sizeof path, "%s", path_of(TRAIN_IMAGES));
    error = data_load(path, 0, 0, &data);
    assert_non_null(error);
    snprintf(expected, sizeof expected,
             "--data=%s: not a directory; give the directory that the IDX files are in", path);
    assert_string_equal(error, expected);
}

static void test_directory_in_place_of_a_file(void **state)
{
    (void)state;
    remove(path_of(TEST_IMAGES));
    assert_int_equal(mkdir(path_of(TEST_IMAGES), 0700), 0);
    expect_refusal("%s/t10k-images-idx3-ubyte: is a directory, not an IDX file", directory);
}

/* Root may read everything, so root becomes somebody else for a moment. */
static void test_unreadable_file(void **state)
{
    (void)state;
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(chmod(path_of(TRAIN_LABELS), 0), 0);
    uid_t user = geteuid();
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    expect_refusal("%s/train-labels-idx1-ubyte: cannot be opened: Permission denied", directory);
    if (user == 0)
        assert_int_equal(seteuid(user), 0);
}

static void test_empty_file(void **state)
{
    (void)state;
    Bytes nothing = {.count = 0};
    write_plain(TRAIN_IMAGES, &nothing);
    expect_refusal("%s/train-images-idx3-ubyte: ends at byte 0, in the magic number, which should "
                   "go on to byte 4",
                   directory);
}

static void test_files_that_end_too_early(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        const char *says;
    } cases[] = {
        {2, "ends at byte 2, in the magic number, which should go on to byte 4"},
        {4, "ends at byte 4, in the number of images, which should go on to byte 8"},
        {11, "ends at byte 11, in the height of an image, which should go on to byte 12"},
        {15, "ends at byte 15, in the width of an image, which should go on to byte 16"},
        {16, "ends at byte 16, in the pixels, which should go on to byte 100"},
        {99, "ends at byte 99, in the pixels, which should go on to byte 100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes bytes = image_bytes(0, TRAIN);
        bytes.count = cases[i].bytes;
        write_plain(TRAIN_IMAGES, &bytes);
        expect_refusal("%s/train-images-idx3-ubyte: %s", directory, cases[i].says);
    }
    good_files(NULL);
    Bytes bytes = label_bytes(TEST);
    bytes.count--;
    write_plain(TEST_LABELS, &bytes);
    expect_refusal("%s/t10k-labels-idx1-ubyte: ends at byte 12, in the labels, which should go on "
                   "to byte 13",
                   directory);
}

static void test_files_that_go_on_too_long(void **state)
{
    (void)state;
    Bytes bytes = image_bytes(0, TRAIN);
    bytes.count++;
    write_plain(TRAIN_IMAGES, &bytes);
    expect_refusal("%s/train-images-idx3-ubyte: goes on after byte 100, where its header says that "
                   "it ends",
                   directory);
    good_files(NULL);
    bytes = label_bytes(TRAIN);
    bytes.count += 100;
    remove(path_of(TRAIN_LABELS));
    write_gzipped(TRAIN_LABELS ".gz", &bytes);
    expect_refusal("%s/train-labels-idx1-ubyte.gz: goes on after byte 15, where its header says "
                   "that it ends",
                   directory);
}

static void test_files_of_another_kind(void **state)
{
    (void)state;
    Bytes bytes = label_bytes(TRAIN);
    write_plain(TRAIN_IMAGES, &bytes);
    expect_refusal("%s/train-images-idx3-ubyte: byte 0: magic number 0x00000801: these are labels; "
                   "a file of images begins with 0x00000803",
                   directory);
    good_files(NULL);
    bytes = image_bytes(1, TEST);
    write_plain(TEST_LABELS, &bytes);
    expect_refusal("%s/t10k-labels-idx1-ubyte: byte 0: magic number 0x00000803: these are images; "
                   "a file of labels begins with 0x00000801",
                   directory);
    good_files(NULL);
    bytes = image_bytes(0, TRAIN);
    memcpy(bytes.at, "PK\3\4", 4);
    write_plain(TRAIN_IMAGES, &bytes);
    expect_refusal("%s/train-images-idx3-ubyte: byte 0: magic number 0x504b0304; a file of images "
                   "begins with 0x00000803",
                   directory);
}

static void test_counts_that_do_not_match(void **state)
{
    (void)state;
    Bytes bytes = label_bytes(TRAIN - 1);
    write_plain(TRAIN_LABELS, &bytes);
    expect_refusal("%s/train-labels-idx1-ubyte: byte 4: 6 labels, but there are 7 images",
                   directory);
}

static void test_sizes_that_do_not_match(void **state)
{
    (void)state;
    Bytes bytes = image_bytes(1, TEST);
    bytes.at[11] = WIDTH; /* the same number of pixels, the other way round */
    bytes.at[15] = HEIGHT;
    write_plain(TEST_IMAGES, &bytes);
    expect_refusal("%s: training images have 3 x 4 pixels, test images 4 x 3", directory);
}

static void test_headers_that_promise_nonsense(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, height, width;
        const char *says;
    } cases[] = {
        {0, 3, 4, "byte 4: 0 images; expected 1 to 100000000"},
        {0xffffffff, 3, 4, "byte 4: 4294967295 images; expected 1 to 100000000"},
        {7, 0, 4, "byte 8: images of 0 x 4 pixels; expected 1 to 4096 each way"},
        {7, 3, 0x10000, "byte 8: images of 3 x 65536 pixels; expected 1 to 4096 each way"},
        {100000000, 4096, 4096,
         "byte 4: 100000000 images of 4096 x 4096 pixels: no memory for 1677721600000000 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes bytes = {.count = 0};
        put_number(&bytes, 0x803);
        put_number(&bytes, cases[i].count);
        put_number(&bytes, cases[i].height);
        put_number(&bytes, cases[i].width);
        bytes.count += 84;
        write_plain(TRAIN_IMAGES, &bytes);
        expect_refusal("%s/train-images-idx3-ubyte: %s", directory, cases[i].says);
    }
}

/* Where zlib notices depends on how it packed the bytes; that it is noticed, and where in the file,
 * does not. */
static void test_damaged_gzip(void **state)
{
    (void)state;
    const char *name = TRAIN_IMAGES ".gz";
    Bytes bytes = image_bytes(0, TRAIN);
    remove(path_of(TRAIN_IMAGES));
    write_gzipped(name, &bytes);
    Bytes whole = read_back(name);
    char begin[256];
    snprintf(begin, sizeof begin, "%s: ", path_of(name));
    for (size_t at = 10; at < whole.count; at++) { /* behind gzip's own header */
        Bytes flipped = whole;
        flipped.at[at] ^= 0xff;
        write_plain(name, &flipped);
        Dataset data;
        Error error = data_load(directory, 0, 0, &data);
        assert_non_null(error);
        assert_memory_equal(error, begin, strlen(begin));
        assert_non_null(strstr(error, " byte "));
        assert_null(data.train.pixels);
        assert_null(strstr(error + strlen(begin), directory)); /* the name stands there once */
    }
    for (size_t count = 11; count < whole.count; count++) {
        Bytes cut = whole;
        cut.count = count;
        write_plain(name, &cut);
        Dataset data;
        Error error = data_load(directory, 0, 0, &data);
        assert_non_null(error);
        assert_memory_equal(error, begin, strlen(begin));
        assert_non_null(strstr(error, " byte "));
    }
}

/* --- generated images ---------------------------------------------------------------------- */

static void test_generated_images_depend_on_the_seed_alone(void **state)
{
    (void)state;
    Dataset one, again, other;
    assert_null(data_load("synthetic", 600, 5, &one));
    assert_null(data_load("synthetic", 600, 5, &again));
    assert_null(data_load("synthetic", 600, 6, &other));
    assert_int_equal(one.train.count, 600);
    assert_int_equal(one.test.count, 100);
    assert_int_equal(one.train.height, 28);
    assert_int_equal(one.train.width, 28);
    size_t bytes = 600 * 28 * 28;
    assert_memory_equal(one.train.pixels, again.train.pixels, bytes);
    assert_memory_equal(one.train.labels, again.train.labels, 600);
    assert_memory_equal(one.test.pixels, again.test.pixels, bytes / 6);
    assert_memory_not_equal(one.train.pixels, other.train.pixels, bytes);
    assert_memory_not_equal(one.train.labels, other.train.labels, 600);
    assert_memory_not_equal(one.train.pixels, one.test.pixels, bytes / 6);
    data_free(&one);
    data_free(&again);
    data_free(&other);
}

/* The least that can be learned: which class's mean image is nearest. Chance is 10 %. */
static void test_generated_images_can_be_learned(void **state)
{
    (void)state;
    enum { SIZE = 28 * 28, CLASSES = 10 };
    static float mean[CLASSES][SIZE];
    Dataset data;
    assert_null(data_load("synthetic", 3000, 1, &data));
    assert_int_equal(data.train.classes, CLASSES);
    assert_int_equal(data.test.classes, CLASSES);
    float seen[CLASSES] = {0};
    for (size_t i = 0; i < data.train.count; i++) {
        int label = data.train.labels[i];
        assert_in_range(label, 0, CLASSES - 1);
        seen[label]++;
        for (int pixel = 0; pixel < SIZE; pixel++)
            mean[label][pixel] += data.train.pixels[i * SIZE + (size_t)pixel];
    }
    for (int class = 0; class < CLASSES; class ++) {
        assert_true(seen[class] > 200);
        for (int pixel = 0; pixel < SIZE; pixel++)
            mean[class][pixel] /= seen[class];
    }
    int right = 0;
    for (size_t i = 0; i < data.test.count; i++) {
        int nearest = 0;
        float least = 1e30f;
        for (int class = 0; class < CLASSES; class ++) {
            float distance = 0;
            for (int pixel = 0; pixel < SIZE; pixel++) {
                float d = mean[class][pixel] - data.test.pixels[i * SIZE + (size_t)pixel];
                distance += d * d;
            }
            if (distance < least) {
                least = distance;
                nearest = class;
            }
        }
        right += nearest == data.test.labels[i];
    }
    assert_true(right > 0.4 * (double)data.test.count);
    assert_true(right < 0.95 * (double)data.test.count); /* something is left for a network */
    data_free(&data);
}

/* --- batches ------------------------------------------------------------------------------- */

static void test_gather_copies_the_samples_that_are_named(void **state)
{
    (void)state;
    Dataset data;
    assert_null(data_load(directory, 0, 0, &data));
    const uint32_t samples[] = {6, 0, 6, 3};
    uint8_t pixels[4 * PIXELS], labels[4];
    data_gather(&data.train, samples, 4, pixels, labels);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(labels[i], samples[i] % 4);
        for (int pixel = 0; pixel < PIXELS; pixel++)
            assert_int_equal(pixels[i * PIXELS + pixel], pixel_value(0, (int)samples[i], pixel));
    }
    data_free(&data);
}

/* Images of two pixels that spell their own number, so that a float tells which one it was. */
static void numbered_images(Images *images, uint8_t *pixels, uint8_t *labels, size_t count)
{
    *images = (Images){
        .pixels = pixels, .labels = labels, .count = count, .height = 1, .width = 2, .classes = 7};
    for (size_t i = 0; i < count; i++) {
        pixels[2 * i] = (uint8_t)(i / 256);
        pixels[2 * i + 1] = (uint8_t)(i % 256);
        labels[i] = (uint8_t)(i % 7);
    }
}

static size_t number_of(const float *pixels)
{
    return (size_t)(pixels[0] * 255 + 0.5f) * 256 + (size_t)(pixels[1] * 255 + 0.5f);
}

static void check_epoch(Device *device, const Images *images, size_t batch_size, int world,
                        bool shuffled)
{
    int most_rows = (int)batch_size;
    Feed feed, whole;
    assert_null(feed_open(&feed, device, most_rows, 2));
    assert_null(feed_open(&whole, device, most_rows, 2));
    Sampler sampler;
    assert_null(sampler_open(&sampler, images->count, 3));
    float *input = calloc(2 * batch_size, sizeof *input);
    float *all = calloc(2 * batch_size, sizeof *all);
    int *seen = calloc(images->count, sizeof *seen);
    for (size_t begin = 0; begin < images->count; begin += batch_size) {
        size_t left = images->count - begin;
        Batch batch = {.images = images,
                       .order = shuffled ? sampler.order : NULL,
                       .begin = begin,
                       .count = left < batch_size ? left : batch_size,
                       .learn = true};
        /* DataParallel's boss takes all shares, rank by rank, in one load */
        assert_int_equal(feed_load(&whole, &batch, 0, world, world, all), batch.count);
        size_t before = 0;
        for (int rank = 0; rank < world; rank++) {
            int rows = feed_load(&feed, &batch, rank, rank + 1, world, input);
            assert_int_equal(rows, batch_share(&batch, rank, world));
            for (int row = 0; row < rows; row++) {
                size_t position = begin + (size_t)rank + (size_t)row * (size_t)world;
                size_t sample = shuffled ? sampler.order[position] : position;
                assert_int_equal(number_of(input + 2 * row), sample);
                assert_int_equal(feed.labels[row], sample % 7);
                seen[sample]++;
            }
            if (rows > 0)
                assert_memory_equal(all + 2 * before, input, sizeof *input * 2 * (size_t)rows);
            before += (size_t)rows;
        }
        assert_int_equal(before, batch.count);
    }
    for (size_t i = 0; i < images->count; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
    free(all);
    free(input);
    sampler_close(&sampler);
    feed_close(&feed);
    feed_close(&whole);
}

static void test_every_sample_goes_to_one_rank_once(void **state)
{
    (void)state;
    static uint8_t pixels[2 * 1000], labels[1000];
    static const size_t counts[] = {1, 2, 7, 64, 301, 1000};
    static const size_t batches[] = {1, 3, 8, 64, 100};
    static const int worlds[] = {1, 2, 3, 4, 7, 16};
    Error error = NULL;
    Device *device = device_open(DEVICE_CPU, 0, false, &error);
    assert_null(error);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
                Images images;
                numbered_images(&images, pixels, labels, counts[c]);
                check_epoch(device, &images, batches[b], worlds[w], true);
                check_epoch(device, &images, batches[b], worlds[w], false);
            }
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_plain_files, good_files),
        cmocka_unit_test_setup(test_gzipped_files_and_the_other_spelling, good_files),
        cmocka_unit_test_setup(test_missing_files, good_files),
        cmocka_unit_test_setup(test_missing_directory, good_files),
        cmocka_unit_test_setup(test_directory_in_place_of_a_file, good_files),
        cmocka_unit_test_setup(test_unreadable_file, good_files),
        cmocka_unit_test_setup(test_empty_file, good_files),
        cmocka_unit_test_setup(test_files_that_end_too_early, good_files),
        cmocka_unit_test_setup(test_files_that_go_on_too_long, good_files),
        cmocka_unit_test_setup(test_files_of_another_kind, good_files),
        cmocka_unit_test_setup(test_counts_that_do_not_match, good_files),
        cmocka_unit_test_setup(test_sizes_that_do_not_match, good_files),
        cmocka_unit_test_setup(test_headers_that_promise_nonsense, good_files),
        cmocka_unit_test_setup(test_damaged_gzip, good_files),
        cmocka_unit_test(test_generated_images_depend_on_the_seed_alone),
        cmocka_unit_test(test_generated_images_can_be_learned),
        cmocka_unit_test_setup(test_gather_copies_the_samples_that_are_named, good_files),
        cmocka_unit_test(test_every_sample_goes_to_one_rank_once),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
