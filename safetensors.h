/* safetensors.h: files of named tensors, as Python's `safetensors` reads and writes them
 * (https://github.com/huggingface/safetensors). A file is
 *
 *     8 bytes        the header's length, an unsigned integer, little-endian as everything is
 *     the header     JSON: {"__metadata__": {"key": "text", ...},
 *                           "NAME": {"dtype": "F32", "shape": [10, 32], "data_offsets": [0, 1280]},
 *                           ...}, followed by blanks
 *     the data       all tensors, with nothing before, between or after them; offsets count from
 *                    where the data begin
 *
 * Nothing of it is taken on trust: a file that breaks a rule is refused, with the rule.
 */
#ifndef TRAINER_SAFETENSORS_H
#define TRAINER_SAFETENSORS_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

/* --- reading ------------------------------------------------------------------------------ */

typedef struct Tensor {
    const char *name;
    const char *dtype;   /* "F32", "I64", ... */
    const cJSON *shape;  /* an array of whole numbers, empty for a single number */
    uint64_t begin, end; /* bytes from where the data begin */
} Tensor;

/* A file that is open for reading. Names and texts are valid until it is closed. */
typedef struct Safetensors {
    const char *path; /* the caller's */
    int file;
    uint64_t data_begin; /* bytes from the start of the file */
    uint64_t data_bytes;
    cJSON *header;
    Tensor *tensor; /* [tensors], in the header's order */
    size_t tensors;
} Safetensors;

/* Opens a file and checks all of it but the tensors' values. Every Error of this and the next two
 * names the file. To be closed also after an error. */
Error safetensors_open(Safetensors *file, const char *path);
void safetensors_close(Safetensors *file);

/* The text that the metadata have for `key`; NULL: none. */
const char *safetensors_metadata(const Safetensors *file, const char *key);

/* A tensor by its name; NULL: there is none. */
const Tensor *safetensors_find(const Safetensors *file, const char *name);

/* Copies a tensor's values, `tensor->end - tensor->begin` bytes, to `memory`. */
Error safetensors_read(const Safetensors *file, const Tensor *tensor, void *memory);

/* "[10, 32]", as PyTorch writes it within torch.Size(...). */
const char *safetensors_shape(const Tensor *tensor, char *text, size_t size);

/* --- writing ------------------------------------------------------------------------------ */

/* A matrix [rows, columns] of floats to be written, or a vector [rows] where `columns` is 0. */
typedef struct FloatTensor {
    char name[64];
    int rows, columns;
    const float *values;
} FloatTensor;

/* Writes a file with these tensors, in this order, and these metadata (an object of strings, which
 * stays the caller's). Whoever is killed at whatever moment, under `path` there is the old file or
 * the new one, whole, and nothing beside it (see base/replace.h). Errors name the file. */
Error safetensors_write(const char *path, const FloatTensor *tensor, size_t tensors,
                        const cJSON *metadata);

#endif
