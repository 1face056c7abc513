/* replace.h: a file that is replaced whole or not at all. Whoever is killed at whatever moment,
 * under its name there is the old file or the new one, and nothing beside it.
 *
 * The new file is written without a name (O_TMPFILE), so that it vanishes with its writer; on the
 * disk, it gets a name beside the old one, FILE.partial-PID, and takes its place at once. As a link
 * cannot replace a file, there is a moment between the two. A partial file of which somebody died
 * in this moment, or on a file system without O_TMPFILE while writing, is removed by the next
 * replace_file or replace_clean: its writer held a lock on it, which died, too.
 */
#ifndef TRAINER_REPLACE_H
#define TRAINER_REPLACE_H

#include "base/error.h"

/* Writes the content to `file`. */
typedef Error ReplaceContent(int file, const void *context);

/* Replaces the file at `path`, or makes it, with what `content` writes, and returns when that is on
 * the disk. Where `path` is a symbolic link, the file that it points to is replaced. After an Error
 * (the reason alone: the caller names the file) the old file is there. */
Error replace_file(const char *path, ReplaceContent *content, const void *context);

/* Removes the partial files of `path` that dead writers left. */
void replace_clean(const char *path);

#endif
