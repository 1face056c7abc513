/* named_file.h: files that come with the program and are called by name: "8x-a100-nvswitch" is
 * profiles/8x-a100-nvswitch.json in the working directory, or else beside the program.
 */
#ifndef TRAINER_NAMED_FILE_H
#define TRAINER_NAMED_FILE_H

#include "base/error.h"

#include <stddef.h>

/* Writes into `path` which file `name` means: itself, if it has a slash in it, ends in ".json" or
 * is a file that exists; otherwise one of `folder` ("profiles"). `what`, "profile", and the names
 * that are there are for the message when there is none of that name. */
Error named_file(const char *folder, const char *what, const char *name, char *path, size_t size);

/* The names of the files in `folder`, of the working directory and beside the program, in order of
 * the alphabet with commas between them; "none" if there are none. Cut where `text` ends. */
void named_file_list(const char *folder, char *text, size_t size);

#endif
