/* golden.h: reads the golden files of this folder, and makes the data set that they were made from.
 *
 * The files are words between white space; lines that begin with # are comments. The scripts
 * NAME.py say what the words of NAME.txt mean.
 */
#ifndef TRAINER_TESTS_GOLDEN_H
#define TRAINER_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline FILE *golden_open(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be opened; run the tests from the repository's root", path);
    return file;
}

/* The next word, or false at the end of the file. */
static inline bool golden_next(FILE *file, char word[64])
{
    while (fscanf(file, "%63s", word) == 1) {
        if (word[0] != '#')
            return true;
        int character;
        do
            character = getc(file);
        while (character != '\n' && character != EOF);
    }
    return false;
}

/* The next word, which must be there. */
static inline const char *golden_word(FILE *file)
{
    static char word[64];
    if (!golden_next(file, word))
        fail_msg("a golden file ends too early");
    return word;
}

static inline void golden_expect(FILE *file, const char *expected)
{
    assert_string_equal(golden_word(file), expected);
}

static inline uint64_t golden_number(FILE *file, int base)
{
    const char *word = golden_word(file);
    char *end;
    uint64_t number = strtoull(word, &end, base);
    if (*end)
        fail_msg("a golden file has %s where a number should be", word);
    return number;
}

static inline uint64_t golden_integer(FILE *file)
{
    return golden_number(file, 10);
}

static inline double golden_real(FILE *file)
{
    const char *word = golden_word(file);
    char *end;
    double number = strtod(word, &end);
    if (*end)
        fail_msg("a golden file has %s where a number should be", word);
    return number;
}

static inline uint32_t golden_bits(FILE *file)
{
    return (uint32_t)golden_number(file, 16);
}

static inline uint32_t bits_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* LAYERS WIDTHS...; returns the number of layers. */
static inline int golden_widths(FILE *file, int *widths, int most_layers)
{
    int layers = (int)golden_integer(file);
    assert_in_range(layers, 1, most_layers);
    for (int i = 0; i <= layers; i++)
        widths[i] = (int)golden_integer(file);
    return layers;
}

/* 64-bit FNV-1a over 32-bit numbers, as common.py's fnv. */
static inline uint64_t golden_fnv(const uint32_t *numbers, size_t count)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ numbers[i]) * 1099511628211u;
    return hash;
}

/* An integer hash of 32 bits, as common.py's scramble. */
static inline uint32_t golden_scramble(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* The generated data set, as common.py's images: pixels [count, size], labels [count]. */
static inline void golden_images(uint8_t *pixels, uint8_t *labels, uint32_t count, uint32_t size,
                                 uint32_t classes)
{
    for (uint32_t sample = 0; sample < count; sample++) {
        uint32_t label = golden_scramble(sample) % classes;
        labels[sample] = (uint8_t)label;
        for (uint32_t pixel = 0; pixel < size; pixel++) {
            uint32_t pattern = golden_scramble(0x10000000u + label * size + pixel) >> 24;
            uint32_t noise = golden_scramble(0x20000000u + sample * size + pixel) >> 24;
            pixels[sample * size + pixel] = (uint8_t)((pattern + 3 * noise) / 4);
        }
    }
}

#endif
