/* named_file.c: finding the files that come with the program (see named_file.h). */
#include "base/named_file.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder is looked for in these, in this order. */
enum { HERE, BESIDE_PROGRAM, PLACES };

typedef struct Folder {
    char path[PATH_MAX];
} Folder;

static Folder folder_at(const char *folder, int place)
{
    Folder result = {""};
    if (place == HERE) {
        snprintf(result.path, sizeof result.path, "%s", folder);
        return result;
    }
    char program[PATH_MAX / 2];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    snprintf(result.path, sizeof result.path, "%s/%s", program, folder);
    return result;
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool ends_in_json(const char *name)
{
    size_t length = strlen(name);
    return length > strlen(".json") && strcmp(name + length - strlen(".json"), ".json") == 0;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && ends_in_json(entry->d_name);
}

/* --- the names ------------------------------------------------------------------------------ */

static int by_alphabet(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a name to the list, or as much of it as there is room for. */
static void add_name(const char *name, char *text, size_t size)
{
    size_t used = strlen(text);
    int letters = (int)(strlen(name) - strlen(".json"));
    snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", letters, name);
}

void named_file_list(const char *folder, char *text, size_t size)
{
    enum { MOST_NAMES = 512 };
    char *names[MOST_NAMES] = {NULL};
    int count = 0;
    for (int place = 0; place < PLACES; place++) {
        struct dirent **entries = NULL;
        int found = scandir(folder_at(folder, place).path, &entries, is_shown, NULL);
        for (int i = 0; i < found; i++) {
            char *name = count < MOST_NAMES ? strdup(entries[i]->d_name) : NULL;
            if (name)
                names[count++] = name;
            free(entries[i]);
        }
        free(entries);
    }
    qsort(names, (size_t)count, sizeof *names, by_alphabet);
    *text = '\0';
    for (int i = 0; i < count; i++)
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0)
            add_name(names[i], text, size);
    for (int i = 0; i < count; i++)
        free(names[i]);
    if (!*text)
        snprintf(text, size, "none");
}

/* --- the file ------------------------------------------------------------------------------- */

Error named_file(const char *folder, const char *what, const char *name, char *path, size_t size)
{
    if (strlen(name) >= NAME_MAX && !strchr(name, '/'))
        return error_make("%.40s...: the name of a %s is not that long", name, what);
    if (strlen(name) >= size)
        return error_make("%.40s...: too long for the path of a %s", name, what);
    if (strchr(name, '/') || ends_in_json(name) || is_file(name)) {
        snprintf(path, size, "%s", name);
        return NULL;
    }
    for (int place = 0; place < PLACES; place++) {
        int length = snprintf(path, size, "%s/%s.json", folder_at(folder, place).path, name);
        if (length >= 0 && (size_t)length < size && is_file(path))
            return NULL;
    }
    char names[700];
    named_file_list(folder, names, sizeof names);
    return error_make("%.64s: no such %s, and no such file; choose %s", name, what, names);
}
