/* test_sampler.c: orders and splits against PyTorch's DistributedSampler and torch.chunk. */
#include "sampler.h"

#include "batch.h"
#include "tests/golden/golden.h"

static void test_orders_like_pytorch(void **state)
{
    (void)state;
    FILE *file = golden_open("orders");
    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        assert_string_equal(word, "order");
        size_t count = golden_integer(file);
        uint64_t seed = golden_integer(file);
        uint64_t epoch = golden_integer(file);
        size_t world = golden_integer(file);
        size_t rank = golden_integer(file);
        size_t length = golden_integer(file);
        uint64_t hash = golden_number(file, 16);
        bool whole = strcmp(golden_word(file), "numbers") == 0;

        Sampler sampler;
        assert_null(sampler_open(&sampler, count, seed));
        sampler_set_epoch(&sampler, epoch);
        uint32_t *own = malloc(length * sizeof *own);
        assert_non_null(own);
        size_t rows = 0;
        for (size_t at = rank; at < count; at += world)
            own[rows++] = sampler.order[at];
        assert_int_equal(rows, length);
        for (size_t i = 0; whole && i < length; i++) {
            uint64_t expected = golden_integer(file);
            if (own[i] != expected)
                fail_msg("%zu samples, seed %ju, epoch %ju, rank %zu of %zu: place %zu has %u, "
                         "PyTorch has %ju",
                         count, (uintmax_t)seed, (uintmax_t)epoch, rank, world, i, own[i],
                         (uintmax_t)expected);
        }
        if (golden_fnv(own, length) != hash)
            fail_msg("%zu samples, seed %ju, epoch %ju, rank %zu of %zu: not PyTorch's order",
                     count, (uintmax_t)seed, (uintmax_t)epoch, rank, world);
        free(own);
        sampler_close(&sampler);
    }
    fclose(file);
    assert_int_equal(cases, 54 + 3 + 4 + 14);
}

/* What the batches bring a rank in an epoch is DistributedSampler's sequence for it, where the
 * number of ranks divides the batch and the data set. Each image's label is its own number. */
static void test_batches_like_distributed_sampler(void **state)
{
    (void)state;
    enum { MOST = 60 };
    uint8_t numbers[MOST];
    for (int i = 0; i < MOST; i++)
        numbers[i] = (uint8_t)i;
    Error error;
    Device *device = device_open(DEVICE_CPU, 0, false, &error);
    assert_non_null(device);
    float *input;
    assert_null(device_alloc(device, MOST * sizeof *input, (void **)&input));

    FILE *file = golden_open("orders");
    char word[64];
    int cases = 0;
    while (golden_next(file, word)) {
        if (strcmp(word, "order") != 0)
            continue;
        size_t count = golden_integer(file);
        uint64_t seed = golden_integer(file);
        uint64_t epoch = golden_integer(file);
        int world = (int)golden_integer(file);
        int rank = (int)golden_integer(file);
        size_t length = golden_integer(file);
        golden_word(file); /* the hash */
        if (strcmp(golden_word(file), "numbers") != 0 || world == 1)
            continue;
        cases++;

        Images images = {
            .pixels = numbers, .labels = numbers, .count = count, .height = 1, .width = 1};
        Sampler sampler;
        assert_null(sampler_open(&sampler, count, seed));
        sampler_set_epoch(&sampler, epoch);
        size_t batch_rows = (size_t)world * (length % 2 ? 1 : 2);
        Feed feed;
        assert_null(feed_open(&feed, device, (int)batch_rows, 1));
        for (size_t begin = 0; begin < count; begin += batch_rows) {
            size_t rows = begin + batch_rows <= count ? batch_rows : count - begin;
            Batch batch = {
                .images = &images, .order = sampler.order, .begin = begin, .count = rows};
            int own = feed_load(&feed, &batch, rank, rank + 1, world, input);
            assert_int_equal(own, batch_share(&batch, rank, world));
            for (int row = 0; row < own; row++) {
                uint8_t label;
                assert_null(device_download(device, &label, feed.labels + row, 1));
                assert_int_equal(label, golden_integer(file));
            }
        }
        feed_close(&feed);
        sampler_close(&sampler);
    }
    assert_int_equal(cases, 2 + 3 + 4 + 5);
    fclose(file);
    device_close(device);
}

static void test_chunks_like_pytorch(void **state)
{
    (void)state;
    FILE *file = golden_open("chunks");
    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        assert_string_equal(word, "chunk");
        size_t rows = golden_integer(file);
        int devices = (int)golden_integer(file);
        for (int device = 0; device < devices; device++)
            assert_int_equal(sampler_chunk(rows, devices, device), golden_integer(file));
    }
    fclose(file);
    assert_int_equal(cases, 33 * 9 + 13 + 3);
}

static void test_no_samples_and_one(void **state)
{
    (void)state;
    for (size_t count = 0; count < 2; count++) {
        Sampler sampler;
        assert_null(sampler_open(&sampler, count, 1));
        sampler_set_epoch(&sampler, 3);
        if (count)
            assert_int_equal(sampler.order[0], 0);
        sampler_close(&sampler);
    }
}

/* Epochs can be asked for in any order, again, and each has its own. */
static void test_epochs_do_not_depend_on_each_other(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    Sampler sampler, fresh;
    assert_null(sampler_open(&sampler, COUNT, 3));
    sampler_set_epoch(&sampler, 9);
    sampler_set_epoch(&sampler, 4);
    assert_null(sampler_open(&fresh, COUNT, 3));
    assert_memory_not_equal(sampler.order, fresh.order, COUNT * sizeof *fresh.order);
    sampler_set_epoch(&fresh, 4);
    assert_memory_equal(sampler.order, fresh.order, COUNT * sizeof *fresh.order);
    sampler_close(&sampler);
    sampler_close(&fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_like_pytorch),
        cmocka_unit_test(test_batches_like_distributed_sampler),
        cmocka_unit_test(test_chunks_like_pytorch),
        cmocka_unit_test(test_no_samples_and_one),
        cmocka_unit_test(test_epochs_do_not_depend_on_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
