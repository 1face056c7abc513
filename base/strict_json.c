/* strict_json.c: reading a JSON file that people write (see strict_json.h). */
#include "base/strict_json.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_FILE_BYTES (4 << 20)

/* --- files -------------------------------------------------------------------------------- */

static Error read_text(const char *path, char **text)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_make("%s: cannot be opened: %s", path, strerror(errno));
    *text = malloc(MOST_FILE_BYTES + 1);
    size_t size = *text ? fread(*text, 1, MOST_FILE_BYTES, file) : 0;
    bool failed = ferror(file) != 0, whole = !failed && feof(file) != 0;
    int number = errno;
    fclose(file);
    if (!*text)
        return error_make("%s: no memory to read it", path);
    (*text)[size] = '\0';
    if (whole)
        return NULL;
    free(*text);
    *text = NULL;
    return failed ? error_make("%s: cannot be read: %s", path, strerror(number))
                  : error_make("%s: is larger than 4 MiB, and so no such file", path);
}

Error strict_open(StrictJson *json, const char *path)
{
    *json = (StrictJson){0};
    snprintf(json->path, sizeof json->path, "%s", path);
    char *text = NULL;
    TRY(read_text(path, &text));
    const char *end = NULL;
    json->root = cJSON_ParseWithOpts(text, &end, true);
    int line = 1;
    for (const char *c = text; end && c < end; c++)
        line += *c == '\n';
    free(text);
    if (!json->root)
        return error_make("%s: is not JSON: line %d", path, line);
    json->known = cJSON_CreateObject();
    if (cJSON_IsObject(json->root) && json->known)
        return NULL;
    strict_close(json);
    return error_make("%s: must be a JSON object", path);
}

/* The folder `folder` of the working directory, or of the program's. */
static bool folder_path(const char *folder, bool beside_program, char *path, size_t size)
{
    if (!beside_program) {
        snprintf(path, size, "%s", folder);
        return true;
    }
    char program[512];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return snprintf(path, size, "%s/%s", program, folder) < (int)size;
}

static bool ends_in_json(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

bool strict_find(const char *folder, const char *name, char *path, size_t size)
{
    if (strchr(name, '/') || ends_in_json(name)) {
        snprintf(path, size, "%s", name);
        return true;
    }
    for (int beside = 0; beside < 2; beside++) {
        char place[600];
        if (!folder_path(folder, beside, place, sizeof place))
            continue;
        if (snprintf(path, size, "%s/%s.json", place, name) < (int)size && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static int is_json(const struct dirent *entry)
{
    return ends_in_json(entry->d_name);
}

void strict_names(const char *folder, char *text, size_t size)
{
    *text = '\0';
    for (int beside = 0; beside < 2 && !*text; beside++) {
        char place[600];
        struct dirent **entries;
        int count = folder_path(folder, beside, place, sizeof place)
                        ? scandir(place, &entries, is_json, alphasort)
                        : -1;
        for (int i = 0; i < count; i++) {
            size_t used = strlen(text), length = strlen(entries[i]->d_name) - 5;
            if (used + length + 3 < size)
                snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)length,
                         entries[i]->d_name);
            free(entries[i]);
        }
        if (count >= 0)
            free(entries);
    }
}

/* --- fields ------------------------------------------------------------------------------- */

void strict_fail(StrictJson *json, const char *field, const char *why)
{
    if (!json->error)
        json->error = error_make("%s: %s: %s", json->path, field, why);
}

/* "layers[3].name" as "layers[].name": what is known of one element is known of all. */
static void without_numbers(const char *field, size_t length, char *known, size_t size)
{
    size_t used = 0;
    bool inside = false;
    for (size_t i = 0; i < length && used + 1 < size; i++) {
        inside = field[i] == '[' || (inside && field[i] != ']');
        if (!inside || field[i] == '[')
            known[used++] = field[i];
    }
    known[used] = '\0';
}

/* Follows a path; notes that it, and everything on the way to it, is known. */
static const cJSON *find(StrictJson *json, const char *field)
{
    const cJSON *item = json->root;
    char name[64];
    for (const char *at = field; *at && item;) {
        if (*at == '[') {
            item = cJSON_GetArrayItem(item, atoi(at + 1));
            at += strcspn(at, "]") + 1;
        } else {
            size_t length = strcspn(at, ".[");
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            item = cJSON_GetObjectItemCaseSensitive(item, name);
            at += length;
        }
        char known[256];
        without_numbers(field, (size_t)(at - field), known, sizeof known);
        if (item && !cJSON_HasObjectItem(json->known, known))
            cJSON_AddTrueToObject(json->known, known);
        at += *at == '.';
    }
    return item;
}

static const cJSON *need(StrictJson *json, const char *field)
{
    const cJSON *item = find(json, field);
    if (!item)
        strict_fail(json, field, "is missing");
    return item;
}

bool strict_has(StrictJson *json, const char *field)
{
    const cJSON *item = find(json, field);
    return item && !cJSON_IsNull(item);
}

bool strict_null(StrictJson *json, const char *field)
{
    return cJSON_IsNull(need(json, field));
}

bool strict_number(StrictJson *json, const char *field, double least, double most, double *value)
{
    const cJSON *item = need(json, field);
    if (!item)
        return false;
    char why[128];
    snprintf(why, sizeof why, "must be a number from %g to %g", least, most);
    bool right = cJSON_IsNumber(item) && item->valuedouble >= least && item->valuedouble <= most;
    if (right)
        *value = item->valuedouble;
    else
        strict_fail(json, field, why);
    return right;
}

bool strict_whole(StrictJson *json, const char *field, int least, int most, int *value)
{
    double number;
    if (!strict_number(json, field, least, most, &number))
        return false;
    if (number != floor(number)) {
        strict_fail(json, field, "must be a whole number");
        return false;
    }
    *value = (int)number;
    return true;
}

bool strict_flag(StrictJson *json, const char *field, bool *value)
{
    const cJSON *item = need(json, field);
    if (!item)
        return false;
    if (!cJSON_IsBool(item))
        strict_fail(json, field, "must be true or false");
    *value = cJSON_IsTrue(item);
    return cJSON_IsBool(item);
}

bool strict_text(StrictJson *json, const char *field, char *text, size_t size)
{
    const cJSON *item = need(json, field);
    if (!item)
        return false;
    if (!cJSON_IsString(item) || !*item->valuestring) {
        strict_fail(json, field, "must be a text");
        return false;
    }
    snprintf(text, size, "%s", item->valuestring);
    return true;
}

int strict_list(StrictJson *json, const char *field)
{
    const cJSON *item = need(json, field);
    if (item && cJSON_IsArray(item))
        return cJSON_GetArraySize(item);
    if (item)
        strict_fail(json, field, "must be a list");
    return -1;
}

int strict_pairs(StrictJson *json, const char *field, double *x, double *y, int most)
{
    int count = strict_list(json, field);
    if (count < 0)
        return 0;
    char why[128];
    snprintf(why, sizeof why, "must have 1 to %d pairs of numbers", most);
    if (count < 1 || count > most) {
        strict_fail(json, field, why);
        return 0;
    }
    int i = 0;
    const cJSON *pair;
    cJSON_ArrayForEach(pair, find(json, field))
    {
        const cJSON *first = cJSON_GetArrayItem(pair, 0), *second = cJSON_GetArrayItem(pair, 1);
        if (cJSON_GetArraySize(pair) != 2 || !cJSON_IsNumber(first) || !cJSON_IsNumber(second) ||
            !(first->valuedouble > 0) || !(second->valuedouble > 0) ||
            (i > 0 && first->valuedouble <= x[i - 1])) {
            strict_fail(json, field,
                        "must be pairs of numbers above zero, the first ones ascending");
            return 0;
        }
        x[i] = first->valuedouble;
        y[i++] = second->valuedouble;
    }
    return count;
}

void strict_any(StrictJson *json, const char *field)
{
    if (need(json, field)) /* false: known, and nothing in it is looked at */
        cJSON_ReplaceItemInObject(json->known, field, cJSON_CreateFalse());
}

/* --- closing ------------------------------------------------------------------------------ */

/* Complains about the first field that nobody asked for. */
static void check_known(StrictJson *json, const cJSON *object, const char *path)
{
    int i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        char field[256], name[256];
        if (cJSON_IsArray(object))
            snprintf(field, sizeof field, "%s[%d]", path, i++);
        else
            snprintf(field, sizeof field, "%s%s%s", path, *path ? "." : "", item->string);
        without_numbers(field, strlen(field), name, sizeof name);
        const cJSON *known = cJSON_GetObjectItem(json->known, name);
        if (!known && cJSON_IsArray(object))
            return; /* a list that was read as a whole */
        if (!known)
            strict_fail(json, field, "no such field");
        else if (cJSON_IsTrue(known) && (cJSON_IsObject(item) || cJSON_IsArray(item)))
            check_known(json, item, field);
    }
}

Error strict_close(StrictJson *json)
{
    if (!json->error && json->root)
        check_known(json, json->root, "");
    cJSON_Delete(json->root);
    cJSON_Delete(json->known);
    return json->error;
}
