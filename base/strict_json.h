/* strict_json.h: reading a JSON file that people write: a field that is unknown, missing or
 * impossible is an error that names file and field.
 *
 *     StrictJson json;
 *     TRY(strict_open(&json, path));
 *     strict_number(&json, json.root, "devices.per_node", 1, 4096, true, &number);
 *     ...                                     every field once; the first error is kept
 *     return strict_close(&json);             also complains about fields that nobody asked for
 */
#ifndef TRAINER_STRICT_JSON_H
#define TRAINER_STRICT_JSON_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct StrictJson {
    char path[512];
    cJSON *root;
    cJSON *known; /* the paths that were asked for, as an object */
    Error error;  /* the first one */
} StrictJson;

/* Reads and parses the file. */
Error strict_open(StrictJson *json, const char *path);

/* Fields by their path from the root, as "links.peer.gb_per_s"; in a list "layers[3].name". Each
 * returns false, and leaves the value alone, when the field is not there or wrong; that is an error
 * unless the field is optional. */
bool strict_number(StrictJson *json, const char *field, double least, double most, double *value);
bool strict_whole(StrictJson *json, const char *field, int least, int most, int *value);
bool strict_flag(StrictJson *json, const char *field, bool *value);
bool strict_text(StrictJson *json, const char *field, char *text, size_t size);

/* Pairs of numbers, the first ones ascending and all above zero: at most `most`. Returns how many.
 */
int strict_pairs(StrictJson *json, const char *field, double *x, double *y, int most);

/* Elements of a list; -1 and an error when it is none. */
int strict_list(StrictJson *json, const char *field);

/* Whether the field is there; null counts as there only for `strict_null`. Asking makes it known.
 */
bool strict_has(StrictJson *json, const char *field);
bool strict_null(StrictJson *json, const char *field);

/* Any value will do, with everything in it, but it must be there. */
void strict_any(StrictJson *json, const char *field);

/* Keeps an error about a field, if it is the first. `why`: "must be ...". */
void strict_fail(StrictJson *json, const char *field, const char *why);

/* The first error, or one about a field that nobody asked for. Frees everything. */
Error strict_close(StrictJson *json);

/* A file by its name: `name` itself if it has a slash or ends in .json; else `folder`/name.json in
 * the working directory, or beside the program. False when there is none. */
bool strict_find(const char *folder, const char *name, char *path, size_t size);

/* The names that strict_find knows in a folder, with commas between them. */
void strict_names(const char *folder, char *text, size_t size);

#endif
