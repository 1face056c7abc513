/* table.h: the tables, printed from the JSON object alone (DESIGN.md, "Command line"), so that the
 * screen and the file cannot disagree and an old run can be printed again.
 *
 *     TRY(table_print(stdout, object, TABLE_BEGINNER, table_style(stdout)));
 */
#ifndef TRAINER_TABLE_H
#define TRAINER_TABLE_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* How much is said; each depth shows all of the one before it. */
typedef enum { TABLE_BEGINNER, TABLE_DEVELOPER, TABLE_RESEARCHER } TableDepth;

typedef struct TableStyle {
    int columns; /* no line is wider; kept between 40 and 400 */
    bool colour; /* blue for computing, orange for talking and waiting; letters say the same */
    bool utf8;   /* names may keep their accents; everything else is ASCII anyway */
} TableStyle;

/* What suits `out`. Columns: the environment's COLUMNS, else the terminal's width, else 80. Colour:
 * only on a terminal, never with NO_COLOR set (no-color.org), never where TERM is unset or "dumb".
 * UTF-8: when LC_ALL, LC_CTYPE or LANG, the first that is set, says so. */
TableStyle table_style(FILE *out);

/* Prints one screen for a comparison or for a single run, and more blocks below it for the deeper
 * depths. A field that is missing or null shows as a dash or leaves its line out. The object stays
 * the caller's and is not changed. Fails with a sentence if the object is not one of ours (no
 * schema 1, no results) or if `out` cannot be written. */
Error table_print(FILE *out, const cJSON *object, TableDepth depth, TableStyle style);

#endif
