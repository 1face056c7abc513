/* jsonget.c: prints a value of a JSON file, for the test scripts.
 *
 *     jsonget FILE PATH...
 *
 * prints one line for each path, with whatever lies there: strings bare, all else as JSON. A path
 * is names and numbers with dots between them: config.layers.0; `name=value` (several, with &
 * between them) is the first entry of a list with these values: results.mode=dp&devices=2.loss; `#`
 * is the number of entries. Exit status 1: nothing lies there; 2: the file is not one JSON value.
 */
#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(FILE *file)
{
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    while (text) {
        used += fread(text + used, 1, room - used, file);
        if (used < room) {
            text[used] = '\0';
            return text;
        }
        room *= 2;
        char *larger = realloc(text, room + 1);
        if (!larger)
            free(text);
        text = larger;
    }
    return NULL;
}

/* Whether an object has the values of `wanted`, "name=value&name=value", which is cut up. */
static bool fits(const cJSON *object, const char *wanted)
{
    char copy[256], *rest;
    snprintf(copy, sizeof copy, "%s", wanted);
    for (char *pair = strtok_r(copy, "&", &rest); pair; pair = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(pair, '=');
        *value++ = '\0';
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, pair);
        bool same = cJSON_IsString(item)   ? strcmp(item->valuestring, value) == 0
                    : cJSON_IsNumber(item) ? item->valuedouble == strtod(value, NULL)
                                           : false;
        if (!same)
            return false;
    }
    return true;
}

static const cJSON *go(const cJSON *from, const char *part)
{
    if (!strchr(part, '='))
        return cJSON_IsArray(from) ? cJSON_GetArrayItem(from, atoi(part))
                                   : cJSON_GetObjectItemCaseSensitive(from, part);
    const cJSON *item;
    cJSON_ArrayForEach(item, from)
    {
        if (fits(item, part))
            return item;
    }
    return NULL;
}

static bool print(const cJSON *item, const char *path)
{
    char copy[256], *rest;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok_r(copy, ".", &rest); part; part = strtok_r(NULL, ".", &rest)) {
        if (strcmp(part, "#") == 0) {
            printf("%d\n", cJSON_GetArraySize(item));
            return true;
        }
        item = go(item, part);
        if (!item)
            return false;
    }
    char *text = cJSON_IsString(item) ? strdup(item->valuestring) : cJSON_PrintUnformatted(item);
    printf("%s\n", text ? text : "");
    free(text);
    return text != NULL;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    char *text = file ? read_all(file) : NULL;
    if (file)
        fclose(file);
    cJSON *object = text ? cJSON_ParseWithOpts(text, NULL, true) : NULL;
    free(text);
    if (!object) {
        fprintf(stderr, "jsonget: %s: not one JSON value\n", argc > 1 ? argv[1] : "?");
        return 2;
    }
    int status = 0;
    for (int i = 2; i < argc; i++)
        if (!print(object, argv[i])) {
            fprintf(stderr, "jsonget: %s: no %s\n", argv[1], argv[i]);
            status = 1;
        }
    cJSON_Delete(object);
    return status;
}
