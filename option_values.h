/* option_values.h: reading the value of one option, and guessing what was meant when it is wrong.
 *
 * Every Error names the option and the value as they were typed, and what would have been right:
 *     --batch=1e3: not a whole number
 *     --mode=dpp: did you mean --mode=dp or --mode=ddp? (choose compare, single, dp or ddp)
 */
#ifndef TRAINER_OPTION_VALUES_H
#define TRAINER_OPTION_VALUES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A whole number in decimal, at least `least` and at most `most`. */
Error parse_integer(const char *name, const char *text, int64_t least, int64_t most,
                    int64_t *value);
Error parse_int(const char *name, const char *text, int least, int most, int *value);

/* A decimal number, which may have a fraction and an exponent. */
Error parse_real(const char *name, const char *text, double least, double most, double *value);

/* Whole numbers with commas between them; `values` has room for `room`. */
Error parse_list(const char *name, const char *text, int least, int most, int *values, int room,
                 int *count);

/* Decimal numbers with commas between them; `values` has room for `room`. */
Error parse_reals(const char *name, const char *text, double least, double most, double *values,
                  int room, int *count);

/* Two numbers of bytes with a comma between them, or one that is both: "4K,64M" (K, M and G are
 * powers of 1024). */
Error parse_sizes(const char *name, const char *text, size_t least, size_t most, size_t *from,
                  size_t *to);

/* The index of `text` among `names`, which a NULL ends. */
Error parse_choice(const char *name, const char *text, const char *const *names, int *value);

/* How many letters must be changed, added, dropped or swapped with their neighbour to make `a` into
 * `b` (the Damerau-Levenshtein distance with adjacent swaps); capitals count as small letters. */
int letters_between(const char *a, const char *b);

/* Text from the command line as a message may show it: on one line, and not without end. */
typedef struct Shown {
    char text[200];
} Shown;
Shown shown(const char *text);

#endif
