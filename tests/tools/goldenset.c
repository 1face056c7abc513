/* goldenset.c: writes the data set that the golden files were made from (tests/golden) as IDX
 * files.
 *
 *     goldenset DIRECTORY SAMPLES SIDE CLASSES
 *
 * SAMPLES training images of SIDE x SIDE pixels, and the same again for testing.
 */
#include "tests/golden/golden.h"

static void put_number(FILE *file, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        putc((int)(number >> shift & 0xff), file);
}

/* `numbers`: the magic number and the dimensions. */
static bool write_idx(const char *directory, const char *name, const uint32_t *numbers, int count,
                      const uint8_t *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return false;
    }
    for (int i = 0; i < count; i++)
        put_number(file, numbers[i]);
    bool written = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && written;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: goldenset DIRECTORY SAMPLES SIDE CLASSES\n");
        return 2;
    }
    uint32_t samples = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t side = (uint32_t)strtoul(argv[3], NULL, 10);
    uint32_t classes = (uint32_t)strtoul(argv[4], NULL, 10);
    size_t bytes = (size_t)samples * side * side;
    uint8_t *pixels = malloc(bytes + 1), *labels = malloc(samples + 1);
    if (!pixels || !labels)
        return 1;
    golden_images(pixels, labels, samples, side * side, classes);

    bool written = true;
    static const char *const parts[] = {"train", "t10k"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-images-idx3-ubyte", parts[i]);
        written = written && write_idx(argv[1], name, (uint32_t[]){0x803, samples, side, side}, 4,
                                       pixels, bytes);
        snprintf(name, sizeof name, "%s-labels-idx1-ubyte", parts[i]);
        written =
            written && write_idx(argv[1], name, (uint32_t[]){0x801, samples}, 2, labels, samples);
    }
    free(pixels);
    free(labels);
    return written ? 0 : 1;
}
