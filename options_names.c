/* options_names.c: the words of a command line before they are parsed: is each the name of an
 * option, and if not, what was meant (see options_table.h).
 */
#include "options_table.h"

#include "option_values.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option *find_option(const char *name)
{
    for (const struct argp_option *option = options_table; option->name || option->doc; option++)
        if (option->name && strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

/* What other programs call our options. */
static const char *usual_name(const char *name)
{
    static const char *const names[][2] = {
        {"batch-size", "batch"}, {"learning-rate", "lr"}, {"wd", "weight-decay"},
        {"gpus", "devices"},     {"ranks", "devices"},    {"world-size", "devices"},
        {"dataset", "data"},     {"hidden", "layers"},    {"backend", "comm"},
        {"output", "json"},      {"usage", "help"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

/* `value` is empty or begins with the equals sign. */
static Error unknown_option(const char *name, const char *value)
{
    const char *usual = usual_name(name);
    if (usual)
        return error_make("--%s: no such option; did you mean --%s%s?", name, usual,
                          shown(value).text);
    if (strcmp(name, "no-overlap") == 0)
        return error_make("--no-overlap: no such option; did you mean --overlap=off?");
    char near[200] = "";
    int best = 2, length = (int)strlen(name); /* more than two letters off is no slip */
    for (const struct argp_option *option = options_table; option->name || option->doc; option++) {
        if (!option->name)
            continue;
        int letters = letters_between(name, option->name);
        if (length > 1 && letters > 1 && strncmp(option->name, name, (size_t)length) == 0)
            letters = 1; /* the beginning of a name is as near as a letter */
        if (letters > best || letters >= length)
            continue;
        if (letters < best)
            *near = '\0';
        best = letters;
        size_t used = strlen(near);
        snprintf(near + used, sizeof near - used, "%s--%s%.40s", used ? " or " : "", option->name,
                 shown(value).text);
    }
    if (*near)
        return error_make("--%s: no such option; did you mean %s?", shown(name).text, near);
    return error_make("--%s: no such option; --help lists them", shown(name).text);
}

/* A word that is neither an option nor an option's value. */
static Error stray_word(const char *word)
{
    for (int i = 0; options_mode_names[i]; i++)
        if (strcmp(word, options_mode_names[i]) == 0)
            return error_make("%s: did you mean --mode=%s?", word, word);
    if (strcmp(word, "-h") == 0 || strcmp(word, "-?") == 0)
        return error_make("%s: did you mean --help?", word);

    /* one dash or none before the name of an option */
    const char *rest = word + (*word == '-');
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "="), rest);
    if (find_option(name))
        return error_make("%s: did you mean --%s?", shown(word).text, shown(rest).text);
    if (*word == '-')
        return error_make("%s: options begin with two dashes; --help lists them", shown(word).text);
    return error_make("\"%s\": not an option; --help lists them", shown(word).text);
}

Error options_check_names(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2] || argv[i][2] == '=')
            return stray_word(argv[i]);
        char name[64];
        size_t length = strcspn(argv[i] + 2, "=");
        const char *value = argv[i] + 2 + length;
        snprintf(name, sizeof name, "%.*s", (int)length, argv[i] + 2);
        const struct argp_option *option = find_option(name);
        if (!option)
            return unknown_option(name, value);
        if (!option->arg && *value)
            return error_make("--%s: takes no value", name);
        if (option->arg && !*value) {
            if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
                return error_make("--%s: needs a value: --%s=%s", name, name, option->arg);
            i++; /* the value is the next word */
        }
    }
    return NULL;
}

char *options_join(int argc, char **argv)
{
    char *line = NULL;
    size_t size;
    FILE *out = open_memstream(&line, &size);
    if (!out)
        return NULL;
    for (int i = 0; i < argc; i++) {
        bool plain = *argv[i] != '\0';
        for (const char *c = argv[i]; *c; c++)
            plain = plain && (isalnum((unsigned char)*c) || strchr("-_=.,:/+@%", *c));
        fputs(i ? " " : "", out);
        if (plain) {
            fputs(argv[i], out);
            continue;
        }
        fputc('\'', out);
        for (const char *c = argv[i]; *c; c++)
            fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, out);
        fputc('\'', out);
    }
    if (fclose(out) != 0) {
        free(line);
        return NULL;
    }
    return line;
}
