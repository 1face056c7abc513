/* replace.c: a file that is replaced whole or not at all (see replace.h). */
#include "base/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTIAL ".partial-"

/* The names that belong to one file. */
typedef struct Names {
    char target[PATH_MAX];       /* no symbolic link */
    char partial[PATH_MAX + 32]; /* beside it */
    char directory[PATH_MAX];    /* of both */
    const char *base;            /* the target's name in the directory */
} Names;

static Error find_names(const char *path, Names *names)
{
    if (strlen(path) >= sizeof names->target)
        return error_make("its name is too long");
    if (!realpath(path, names->target))
        snprintf(names->target, sizeof names->target, "%s", path); /* new: nothing to follow */
    snprintf(names->partial, sizeof names->partial, "%s" PARTIAL "%d", names->target,
             (int)getpid());
    const char *slash = strrchr(names->target, '/');
    names->base = slash ? slash + 1 : names->target;
    int length = !slash || slash == names->target ? 1 : (int)(slash - names->target);
    snprintf(names->directory, sizeof names->directory, "%.*s", length,
             slash ? names->target : ".");
    return NULL;
}

/* --- what the dead left ------------------------------------------------------------------- */

/* "model.safetensors.partial-123" */
static bool is_partial(const Names *names, const char *entry)
{
    /* clang-tidy supposes that error_make may return NULL, and so that find_names has failed here.
     * NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
    size_t length = strlen(names->base);
    if (strncmp(entry, names->base, length) != 0 ||
        strncmp(entry + length, PARTIAL, strlen(PARTIAL)) != 0)
        return false;
    const char *digits = entry + length + strlen(PARTIAL);
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

static void clean(const Names *names)
{
    DIR *directory = opendir(names->directory);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!is_partial(names, entry->d_name))
            continue;
        int file =
            openat(dirfd(directory), entry->d_name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            continue;
        struct stat status;
        if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
            flock(file, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
        close(file);
    }
    closedir(directory);
}

void replace_clean(const char *path)
{
    Names names;
    if (!find_names(path, &names))
        clean(&names);
}

/* --- the new file ------------------------------------------------------------------------- */

static Error reason(void)
{
    return error_make("%s", strerror(errno));
}

/* A locked file without a name, or -1 where the file system has none. */
static int open_nameless(const Names *names)
{
    int file = open(names->directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0)
        flock(file, LOCK_EX | LOCK_NB);
    return file;
}

/* A locked file with the partial name. Between its making and its lock somebody who cleans may have
 * removed it: then once more. */
static Error open_named(const Names *names, int *opened)
{
    struct stat status;
    do {
        *opened = open(names->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*opened < 0)
            return reason();
        flock(*opened, LOCK_EX | LOCK_NB);
        if (fstat(*opened, &status) == 0 && status.st_nlink > 0)
            return NULL;
        close(*opened);
    } while (true);
}

/* Gives a nameless file the partial name. open(2) shows this way, which needs no privileges. */
static bool give_name(int file, const Names *names)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, link, AT_FDCWD, names->partial, AT_SYMLINK_FOLLOW) == 0;
}

static Error fill(int file, ReplaceContent *content, const void *context)
{
    TRY(content(file, context));
    return fsync(file) == 0 ? NULL : reason();
}

/* Makes the whole new file under its partial name. */
static Error make_partial(const Names *names, ReplaceContent *content, const void *context,
                          int *file)
{
    *file = open_nameless(names);
    if (*file >= 0) {
        TRY(fill(*file, content, context));
        if (give_name(*file, names))
            return NULL;
        close(*file); /* without /proc, or on a file system that cannot link: under a name */
        *file = -1;
    }
    TRY(open_named(names, file));
    Error error = fill(*file, content, context);
    if (error)
        unlink(names->partial);
    return error;
}

/* A new name is on the disk when its directory is. Some file systems have no fsync for those, and
 * say so with EINVAL. */
static Error sync_directory(const Names *names)
{
    int file = open(names->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return error_make("its directory: %s", strerror(errno));
    bool synced = fsync(file) == 0 || errno == EINVAL;
    Error error = synced ? NULL : error_make("its directory: %s", strerror(errno));
    close(file);
    return error;
}

Error replace_file(const char *path, ReplaceContent *content, const void *context)
{
    Names names;
    TRY(find_names(path, &names));
    clean(&names);
    int file = -1;
    Error error = make_partial(&names, content, context, &file);
    if (!error && rename(names.partial, names.target) != 0) {
        error = reason();
        unlink(names.partial);
    }
    /* The lock goes with it, after the partial name has. */
    if (file >= 0 && close(file) != 0 && !error)
        error = reason();
    return error ? error : sync_directory(&names);
}
