/* option_values.c: reading the value of one option (see option_values.h). */
#include "option_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

Shown shown(const char *text)
{
    Shown copy;
    size_t room = sizeof copy.text - sizeof "...", length = strlen(text);
    bool cut = length > room;
    if (cut) {
        length = room;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--; /* not in the middle of a UTF-8 character */
    }
    for (size_t i = 0; i < length; i++)
        copy.text[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
    strcpy(copy.text + length, cut ? "..." : "");
    return copy;
}

/* --- numbers ------------------------------------------------------------------------------ */

Error parse_integer(const char *name, const char *text, int64_t least, int64_t most, int64_t *value)
{
    const char *digits = text + (*text == '-');
    if (!*digits || strspn(digits, "0123456789") != strlen(digits))
        return error_make("--%s=%s: not a whole number", name, shown(text).text);
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno == ERANGE || number < least || number > most)
        return error_make("--%s=%s: must lie between %lld and %lld", name, shown(text).text,
                          (long long)least, (long long)most);
    *value = number;
    return NULL;
}

Error parse_int(const char *name, const char *text, int least, int most, int *value)
{
    int64_t number = 0;
    TRY(parse_integer(name, text, least, most, &number));
    *value = (int)number;
    return NULL;
}

Error parse_real(const char *name, const char *text, double least, double most, double *value)
{
    /* strtod would also take blanks, hexadecimal, "nan" and "inf" */
    char *end;
    double number = strtod(text, &end);
    if (*end || end == text || strspn(text, "+-.0123456789eE") != strlen(text))
        return error_make("--%s=%s: not a number", name, shown(text).text);
    if (!isfinite(number) || number < least || number > most)
        return error_make("--%s=%s: must lie between %g and %g", name, shown(text).text, least,
                          most);
    *value = number;
    return NULL;
}

/* One size, up to a comma or the end, where `*end` is then; false if it is none. */
static bool parse_size(const char *text, char **end, size_t *bytes)
{
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *bytes = strtoul(text, end, 10);
    static const char units[] = "KMG";
    const char *unit = **end ? strchr(units, toupper((unsigned char)**end)) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (errno == ERANGE || *bytes > SIZE_MAX >> shift)
        *bytes = SIZE_MAX;
    else
        *bytes <<= shift;
    *end += unit != NULL;
    return **end == ',' || **end == '\0';
}

Error parse_sizes(const char *name, const char *text, size_t least, size_t most, size_t *from,
                  size_t *to)
{
    char *end = NULL;
    bool good = parse_size(text, &end, from);
    *to = *from;
    if (good && *end == ',')
        good = parse_size(end + 1, &end, to) && *end == '\0';
    if (!good)
        return error_make("--%s=%s: one size or two with a comma between them, such as 4K,64M",
                          name, shown(text).text);
    if (*from > *to)
        return error_make("--%s=%s: the smaller size comes first", name, shown(text).text);
    if (*from < least || *to > most)
        return error_make("--%s=%s: must lie between %zu and %zu bytes", name, shown(text).text,
                          least, most);
    return NULL;
}

Error parse_reals(const char *name, const char *text, double least, double most, double *values,
                  int room, int *count)
{
    *count = 0;
    for (const char *at = text;; at++) {
        char *end;
        double number = strtod(at, &end);
        size_t length = strspn(at, "+-.0123456789eE"); /* see parse_real */
        if (end == at || end != at + length || (*end != ',' && *end != '\0'))
            return error_make("--%s=%s: numbers with commas between them, such as 0,1,5.5", name,
                              shown(text).text);
        if (!isfinite(number) || number < least || number > most)
            return error_make("--%s=%s: %.*s must lie between %g and %g", name, shown(text).text,
                              (int)(length < 40 ? length : 40), at, least, most);
        if (*count == room)
            return error_make("--%s=%s: at most %d numbers", name, shown(text).text, room);
        values[(*count)++] = number;
        at = end;
        if (!*at)
            return NULL;
    }
}

Error parse_list(const char *name, const char *text, int least, int most, int *values, int room,
                 int *count)
{
    *count = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long number = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end != ',' && *end != '\0'))
            return error_make("--%s=%s: whole numbers with commas between them, such as 1,2,4",
                              name, shown(text).text);
        if (errno == ERANGE || number < least || number > most) {
            if (at == text && !*end)
                return error_make("--%s=%s: must lie between %d and %d", name, shown(text).text,
                                  least, most);
            return error_make("--%s=%s: %.*s must lie between %d and %d", name, shown(text).text,
                              (int)(end - at < 40 ? end - at : 40), at, least, most);
        }
        if (*count == room)
            return error_make("--%s=%s: at most %d numbers", name, shown(text).text, room);
        values[(*count)++] = (int)number;
        at = end;
        if (!*at)
            return NULL;
    }
}

/* --- names -------------------------------------------------------------------------------- */

int letters_between(const char *a, const char *b)
{
    enum { MOST = 24 };
    int d[MOST + 1][MOST + 1]; /* d[i][j]: between the first i letters of a and j of b */
    size_t m = strlen(a), n = strlen(b);
    if (m > MOST || n > MOST)
        return MOST;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (int)(i + j);
                continue;
            }
            int a1 = tolower((unsigned char)a[i - 1]), b1 = tolower((unsigned char)b[j - 1]);
            int least = d[i - 1][j - 1] + (a1 != b1);
            if (least > d[i - 1][j] + 1)
                least = d[i - 1][j] + 1;
            if (least > d[i][j - 1] + 1)
                least = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a1 == tolower((unsigned char)b[j - 2]) &&
                b1 == tolower((unsigned char)a[i - 2]) && least > d[i - 2][j - 2] + 1)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    return d[m][n];
}

/* The usual word for a value that other programs call differently, or the value itself. */
static const char *usual_value(const char *text)
{
    static const char *const words[][2] = {
        {"gpu", "cuda"},   {"dataparallel", "dp"}, {"distributeddataparallel", "ddp"},
        {"shared", "shm"}, {"yes", "on"},          {"no", "off"},
        {"true", "on"},    {"false", "off"},       {"1", "on"},
        {"0", "off"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

Error parse_choice(const char *name, const char *text, const char *const *names, int *value)
{
    const char *meant = usual_value(text);
    char list[200] = "", near[200] = "";
    int best = 1; /* more than one letter off is no slip */
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return NULL;
        }
        size_t used = strlen(list);
        const char *before = i == 0 ? "" : names[i + 1] ? ", " : " or ";
        snprintf(list + used, sizeof list - used, "%s%s", before, names[i]);

        int letters = letters_between(meant, names[i]);
        if (letters > best || letters >= (int)strlen(names[i]))
            continue;
        if (letters < best)
            *near = '\0';
        best = letters;
        used = strlen(near);
        snprintf(near + used, sizeof near - used, "%s--%s=%s", used ? " or " : "", name, names[i]);
    }
    if (*near)
        return error_make("--%s=%s: did you mean %s? (choose %s)", name, shown(text).text, near,
                          list);
    return error_make("--%s=%s: choose %s", name, shown(text).text, list);
}
