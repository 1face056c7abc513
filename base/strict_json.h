/* strict_json.h: reading a JSON file that a person wrote, so that no mistake in it goes unnoticed.
 *
 *     StrictFile file;
 *     StrictObject root = strict_open(&file, "profiles/x.json");
 *     StrictObject devices = strict_object(&root, "devices");
 *     memory_bytes = 1e9 * strict_positive(&devices, "memory_gb");
 *     strict_close(&devices);
 *     strict_close(&root);
 *     return strict_end(&file);
 *
 * The first mistake is kept; from then on every read gives 0, "" or an object without fields, and
 * strict_end says what was wrong, with file and field: "x.json: devices.per_node: -1 must be a
 * whole number of at least 1". An object knows the fields that it was asked for; strict_close
 * complains about all others, and about those that are missing. Elements are counted from 0, as in
 * Python: "layers[0].name".
 */
#ifndef TRAINER_STRICT_JSON_H
#define TRAINER_STRICT_JSON_H

#include "base/error.h"

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stddef.h>

#define STRICT_MOST_FIELDS 16

typedef struct StrictFile {
    char name[256];  /* for messages */
    char error[768]; /* the first mistake; empty: none so far */
    cJSON *json;
} StrictFile;

typedef struct StrictObject {
    StrictFile *file;
    const cJSON *json; /* NULL: not there, so that there is nothing to complain about */
    char path[96];     /* what stands before its fields: "", "devices." */
    const char *asked[STRICT_MOST_FIELDS];
    int fields;
    const char *missing; /* the first field that was asked for and is not there */
} StrictObject;

/* Reads a file and returns the object that it must consist of. Pair it with strict_end, whether it
 * succeeded or not. */
StrictObject strict_open(StrictFile *file, const char *path);

/* Complains about the fields of `object` that nobody asked for, that stand there twice, or that are
 * missing. */
void strict_close(StrictObject *object);

/* Frees what the file held, and returns the first mistake, or NULL. */
Error strict_end(StrictFile *file);

/* Reports a mistake in a field that only the caller can see: a printf format for what follows
 * "file: field: ". */
void strict_mistake(const StrictObject *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True if the field is there (null, too): makes an optional field of one. */
bool strict_has(StrictObject *object, const char *key);

/* True if the field is null. */
bool strict_is_null(StrictObject *object, const char *key);

/* A text of 1 to size - 1 bytes. */
void strict_text(StrictObject *object, const char *key, char *text, size_t size);

bool strict_flag(StrictObject *object, const char *key);

/* Numbers: whole from `least` to `most`; above 0; at least 0; from 0 to 1. None may exceed
 * 10^18. */
double strict_whole(StrictObject *object, const char *key, double least, double most);
double strict_positive(StrictObject *object, const char *key);
double strict_amount(StrictObject *object, const char *key);
double strict_fraction(StrictObject *object, const char *key);

/* A list of at most `most` whole numbers of at least 1, which may be empty. Returns how many. */
int strict_counts(StrictObject *object, const char *key, int most, size_t *counts);

/* A list of 1 to `most` numbers above 0. Returns how many. */
int strict_positives(StrictObject *object, const char *key, int most, double *values);

/* A list of 1 to `most` pairs [x, y] of numbers above 0, x ascending. Returns how many. */
int strict_pairs(StrictObject *object, const char *key, int most, double *x, double *y);

/* A list of texts, or an object whose fields are texts, whatever they are. */
void strict_text_list(StrictObject *object, const char *key);
void strict_text_object(StrictObject *object, const char *key);

/* The object in a field. Pair it with strict_close. */
StrictObject strict_object(StrictObject *object, const char *key);

/* A list of 1 to `most` objects: how many, and one of them, to be paired with strict_close. */
int strict_objects(StrictObject *object, const char *key, int most);
StrictObject strict_element(StrictObject *object, const char *key, int index);

#endif
