/* test_random.c: the random stream against the Mersenne Twister's published value and PyTorch's
 * numbers. */
#include "base/random.h"

#include "tests/golden/golden.h"

/* The C++ standard ([rand.predef]) publishes the 10000th number of mt19937 with its default seed.
 */
static void test_published_number(void **state)
{
    (void)state;
    Random random;
    random_seed(&random, 5489);
    for (int i = 0; i < 9999; i++)
        random_next(&random);
    assert_int_equal(random_next(&random), 4123659995u);
}

static void test_uniform_like_pytorch(void **state)
{
    (void)state;
    FILE *file = golden_open("uniform");
    char word[64];
    int cases = 0;
    for (; golden_next(file, word); cases++) {
        assert_string_equal(word, "uniform");
        uint64_t seed = golden_integer(file);
        int count = (int)golden_integer(file);
        float low = float_of(golden_bits(file));
        float high = float_of(golden_bits(file));
        Random random;
        random_seed(&random, seed);
        for (int i = 0; i < count; i++) {
            if (i == 20) /* the file leaves out the numbers from 20 to 619 */
                for (int skip = 0; skip < 600; skip++)
                    random_next(&random);
            uint32_t expected = golden_bits(file);
            uint32_t got = bits_of(random_uniform(&random, low, high));
            if (got != expected)
                fail_msg("seed %ju, %g to %g, number %d: %08x, PyTorch has %08x", (uintmax_t)seed,
                         (double)low, (double)high, i, got, expected);
        }
    }
    fclose(file);
    assert_int_equal(cases, 21);
}

static void test_only_the_low_32_bits_of_a_seed_count(void **state)
{
    (void)state;
    Random one, other;
    random_seed(&one, 7);
    random_seed(&other, 0x900000007u);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(random_next(&one), random_next(&other));
    random_seed(&other, 8);
    assert_int_not_equal(random_next(&one), random_next(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_number),
        cmocka_unit_test(test_uniform_like_pytorch),
        cmocka_unit_test(test_only_the_low_32_bits_of_a_seed_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
