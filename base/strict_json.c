/* strict_json.c: reading a JSON file that a person wrote (see strict_json.h). */
#include "base/strict_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FILE_BYTES (16 << 20)
#define MOST_NUMBER     1e18

/* --- mistakes ------------------------------------------------------------------------------ */

static void keep_mistake(StrictFile *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keeps the first mistake. What was read from the file must not steer the terminal. */
static void keep_mistake(StrictFile *file, const char *format, ...)
{
    if (*file->error)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(file->error, sizeof file->error, format, arguments);
    va_end(arguments);
    for (char *c = file->error; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
}

void strict_mistake(const StrictObject *object, const char *key, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    keep_mistake(object->file, "%s: %s%s: %s", object->file->name, object->path, key, text);
}

/* A value of the file, as the sentences show it. */
typedef struct ShownJson {
    char text[48];
} ShownJson;

static ShownJson shown_json(const cJSON *json)
{
    ShownJson shown = {""};
    char *text = cJSON_IsNumber(json) && !isfinite(json->valuedouble)
                     ? strdup("so large a number")
                     : cJSON_PrintUnformatted(json);
    if (text)
        snprintf(shown.text, sizeof shown.text, strlen(text) < 40 ? "%s" : "%.36s...", text);
    free(text);
    return shown;
}

static void wrong_value(const StrictObject *object, const char *key, const cJSON *json,
                        const char *must_be)
{
    strict_mistake(object, key, "%s must be %s", shown_json(json).text, must_be);
}

/* --- the file ------------------------------------------------------------------------------ */

/* The whole file, with a 0 behind it; the caller frees it. NULL after a mistake. */
static char *read_text(StrictFile *file, const char *path)
{
    FILE *stream = fopen(path, "r");
    char *text = stream ? malloc(MOST_FILE_BYTES + 1) : NULL;
    size_t bytes = text ? fread(text, 1, MOST_FILE_BYTES + 1, stream) : 0;
    if (!text || ferror(stream)) {
        keep_mistake(file, "%s: %s", file->name, strerror(errno));
    } else if (bytes > MOST_FILE_BYTES) {
        keep_mistake(file, "%s: larger than %d MiB", file->name, MOST_FILE_BYTES >> 20);
    } else {
        text[bytes] = '\0';
        if (strlen(text) < bytes)
            keep_mistake(file, "%s: not a text file", file->name);
    }
    if (stream)
        fclose(stream);
    if (*file->error) {
        free(text);
        text = NULL;
    }
    return text;
}

StrictObject strict_open(StrictFile *file, const char *path)
{
    *file = (StrictFile){0};
    snprintf(file->name, sizeof file->name, "%s", path);
    StrictObject root = {.file = file};
    char *text = read_text(file, path);
    if (!text)
        return root;
    const char *end = text;
    file->json = cJSON_ParseWithOpts(text, &end, true);
    if (!file->json) {
        int line = 1;
        for (const char *c = text; c < end; c++)
            line += *c == '\n';
        keep_mistake(file, "%s: line %d is not JSON", file->name, line);
    } else if (!cJSON_IsObject(file->json)) {
        keep_mistake(file, "%s: must be one JSON object, in braces", file->name);
    } else {
        root.json = file->json;
    }
    free(text);
    return root;
}

Error strict_end(StrictFile *file)
{
    cJSON_Delete(file->json);
    file->json = NULL;
    return *file->error ? error_make("%s", file->error) : NULL;
}

/* --- fields -------------------------------------------------------------------------------- */

static bool was_asked(const StrictObject *object, const char *key)
{
    for (int i = 0; i < object->fields; i++)
        if (strcmp(object->asked[i], key) == 0)
            return true;
    return false;
}

static const cJSON *look(StrictObject *object, const char *key)
{
    if (!was_asked(object, key) && object->fields < STRICT_MOST_FIELDS)
        object->asked[object->fields++] = key;
    return cJSON_GetObjectItemCaseSensitive(object->json, key);
}

/* The field's value; NULL, and something for strict_close to say, if there is none. */
static const cJSON *need(StrictObject *object, const char *key)
{
    const cJSON *json = look(object, key);
    if (!json && !object->missing)
        object->missing = key;
    return json;
}

bool strict_has(StrictObject *object, const char *key)
{
    return look(object, key);
}

bool strict_is_null(StrictObject *object, const char *key)
{
    return cJSON_IsNull(need(object, key));
}

/* How many letters must be inserted, deleted or replaced to make `b` of `a` (Levenshtein 1966);
 * both are cut to 24. */
static int letters_apart(const char *a, const char *b)
{
    enum { MOST = 24 };
    size_t m = strnlen(a, MOST), n = strnlen(b, MOST);
    int row[MOST + 1]; /* row[j]: between the first i letters of a and the first j of b */
    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= m; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            int least = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (least > row[j] + 1)
                least = row[j] + 1;
            if (least > row[j - 1] + 1)
                least = row[j - 1] + 1;
            row[j] = least;
        }
    }
    return row[n];
}

/* Names the field that was probably meant, or else all that there are. */
static void unknown_field(const StrictObject *object, const char *key)
{
    const char *near = NULL;
    int best = 4; /* more letters than this are no slip of the keyboard */
    char list[256] = "";
    for (int i = 0; i < object->fields; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", object->asked[i]);
        int letters = letters_apart(key, object->asked[i]);
        bool there = cJSON_GetObjectItemCaseSensitive(object->json, object->asked[i]);
        if (!there && letters < best && letters < (int)strlen(object->asked[i])) {
            best = letters;
            near = object->asked[i];
        }
    }
    char name[64];
    snprintf(name, sizeof name, "%s", key);
    if (near)
        strict_mistake(object, name, "no such field; did you mean %s%s?", object->path, near);
    else
        strict_mistake(object, name, "no such field (choose %s)", list);
}

void strict_close(StrictObject *object)
{
    const cJSON *field;
    cJSON_ArrayForEach(field, object->json)
    {
        if (!was_asked(object, field->string))
            unknown_field(object, field->string);
        else if (cJSON_GetObjectItemCaseSensitive(object->json, field->string) != field)
            strict_mistake(object, field->string, "stands there twice");
    }
    if (object->json && object->missing)
        strict_mistake(object, object->missing, "is missing");
}

/* --- values -------------------------------------------------------------------------------- */

void strict_text(StrictObject *object, const char *key, char *text, size_t size)
{
    *text = '\0';
    const cJSON *json = need(object, key);
    if (!json)
        return;
    const char *value = cJSON_GetStringValue(json);
    if (!value || !*value)
        wrong_value(object, key, json, "a text of at least one letter");
    else if (strlen(value) >= size)
        strict_mistake(object, key, "has %zu bytes; at most %zu", strlen(value), size - 1);
    else
        strcpy(text, value);
}

bool strict_flag(StrictObject *object, const char *key)
{
    const cJSON *json = need(object, key);
    if (json && !cJSON_IsBool(json))
        wrong_value(object, key, json, "true or false");
    return cJSON_IsTrue(json);
}

/* A number, whole or not, from `least` to `most`; 0 after a mistake. */
static double number(const StrictObject *object, const char *key, const cJSON *json, bool whole,
                     double least, double most)
{
    if (!json)
        return 0;
    const char *kind = whole ? "whole number" : "number";
    double value = json->valuedouble;
    if (cJSON_IsNumber(json) && value > most)
        strict_mistake(object, key, "%s must be a %s of at most %.15g", shown_json(json).text, kind,
                       most);
    else if (!cJSON_IsNumber(json) || !(value >= least) || (whole && value != floor(value)))
        strict_mistake(object, key, "%s must be a %s of at least %.15g", shown_json(json).text,
                       kind, least);
    else
        return value;
    return 0;
}

/* A number above 0; 0 after a mistake. */
static double positive(const StrictObject *object, const char *key, const cJSON *json)
{
    if (cJSON_IsNumber(json) && json->valuedouble > 0)
        return number(object, key, json, false, 0, MOST_NUMBER);
    if (json)
        wrong_value(object, key, json, "a number above 0");
    return 0;
}

double strict_whole(StrictObject *object, const char *key, double least, double most)
{
    return number(object, key, need(object, key), true, least, most);
}

double strict_positive(StrictObject *object, const char *key)
{
    return positive(object, key, need(object, key));
}

double strict_amount(StrictObject *object, const char *key)
{
    return number(object, key, need(object, key), false, 0, MOST_NUMBER);
}

double strict_fraction(StrictObject *object, const char *key)
{
    return number(object, key, need(object, key), false, 0, 1);
}

/* --- lists --------------------------------------------------------------------------------- */

/* A list of `least` to `most` elements; NULL after a mistake. */
static const cJSON *list(StrictObject *object, const char *key, int least, int most,
                         const char *what)
{
    const cJSON *json = need(object, key);
    if (!json)
        return NULL;
    int length = cJSON_GetArraySize(json);
    if (cJSON_IsArray(json) && length >= least && length <= most)
        return json;
    if (cJSON_IsArray(json) && length > most)
        strict_mistake(object, key, "%d %s; at most %d", length, what, most);
    else
        strict_mistake(object, key, "%s must be a list of %s", shown_json(json).text, what);
    return NULL;
}

/* "products[2]", for messages. */
typedef struct ElementKey {
    char text[40];
} ElementKey;

static ElementKey element_key(const char *key, int index)
{
    ElementKey result;
    snprintf(result.text, sizeof result.text, "%.24s[%d]", key, index);
    return result;
}

int strict_counts(StrictObject *object, const char *key, int most, size_t *counts)
{
    int length = 0;
    const cJSON *elements = list(object, key, 0, most, "whole numbers"), *element;
    cJSON_ArrayForEach(element, elements)
    {
        counts[length] =
            (size_t)number(object, element_key(key, length).text, element, true, 1, MOST_NUMBER);
        length++;
    }
    return length;
}

int strict_positives(StrictObject *object, const char *key, int most, double *values)
{
    int length = 0;
    const cJSON *elements = list(object, key, 1, most, "numbers"), *element;
    cJSON_ArrayForEach(element, elements)
    {
        values[length] = positive(object, element_key(key, length).text, element);
        length++;
    }
    return length;
}

int strict_pairs(StrictObject *object, const char *key, int most, double *x, double *y)
{
    int length = 0;
    const cJSON *pairs = list(object, key, 1, most, "pairs [size, value]"), *pair;
    cJSON_ArrayForEach(pair, pairs)
    {
        ElementKey at = element_key(key, length);
        if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2) {
            wrong_value(object, at.text, pair, "a pair [size, value]");
            return 0;
        }
        x[length] = positive(object, at.text, cJSON_GetArrayItem(pair, 0));
        y[length] = positive(object, at.text, cJSON_GetArrayItem(pair, 1));
        if (length > 0 && !(x[length] > x[length - 1]))
            strict_mistake(object, at.text, "sizes must ascend, but %.15g follows %.15g", x[length],
                           x[length - 1]);
        length++;
    }
    return length;
}

void strict_text_list(StrictObject *object, const char *key)
{
    const cJSON *json = need(object, key), *element;
    if (json && !cJSON_IsArray(json))
        wrong_value(object, key, json, "a list of texts");
    int index = 0;
    cJSON_ArrayForEach(element, json)
    {
        if (!cJSON_IsString(element))
            wrong_value(object, element_key(key, index).text, element, "a text");
        index++;
    }
}

void strict_text_object(StrictObject *object, const char *key)
{
    const cJSON *json = need(object, key), *field;
    if (json && !cJSON_IsObject(json))
        wrong_value(object, key, json, "an object of texts, in braces");
    cJSON_ArrayForEach(field, json)
    {
        if (!cJSON_IsString(field))
            strict_mistake(object, key, "%.64s: %s must be a text", field->string,
                           shown_json(field).text);
    }
}

/* --- objects ------------------------------------------------------------------------------- */

/* `json`, which stands at `key` of `object`, as an object. */
static StrictObject inner(const StrictObject *object, const char *key, const cJSON *json)
{
    StrictObject result = {.file = object->file};
    snprintf(result.path, sizeof result.path, "%.50s%.40s.", object->path, key);
    if (cJSON_IsObject(json))
        result.json = json;
    else if (json)
        wrong_value(object, key, json, "an object, in braces");
    return result;
}

StrictObject strict_object(StrictObject *object, const char *key)
{
    return inner(object, key, need(object, key));
}

int strict_objects(StrictObject *object, const char *key, int most)
{
    return cJSON_GetArraySize(list(object, key, 1, most, "objects"));
}

StrictObject strict_element(StrictObject *object, const char *key, int index)
{
    return inner(object, element_key(key, index).text,
                 cJSON_GetArrayItem(look(object, key), index));
}
