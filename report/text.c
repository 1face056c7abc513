/* text.c: lines that fit and figures that read well (see text.h). */
#include "report/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* Lines of running text are wrapped here at the latest. */
enum { READABLE_COLUMNS = 100 };

static const char *const colour_codes[] = {
    [TEXT_PLAIN] = "\033[0m",         [TEXT_BOLD] = "\033[0;1m",
    [TEXT_BLUE] = "\033[0;38;5;33m",  [TEXT_ORANGE] = "\033[0;38;5;208m",
    [TEXT_GREY] = "\033[0;38;5;244m",
};

void text_open(Text *text, FILE *out, int columns, bool colour, bool utf8)
{
    if (columns <= 0)
        columns = 80;
    if (columns < TEXT_LEAST_COLUMNS)
        columns = TEXT_LEAST_COLUMNS;
    if (columns > TEXT_MOST_COLUMNS)
        columns = TEXT_MOST_COLUMNS;
    *text = (Text){.out = out, .columns = columns, .colour = colour, .utf8 = utf8};
}

/* Length in bytes of the UTF-8 sequence that begins at `bytes`; 0 if it is not a whole one. */
static int sequence_length(const char *bytes)
{
    unsigned char first = (unsigned char)bytes[0];
    int length = first < 0x80   ? 1
                 : first < 0xc2 ? 0
                 : first < 0xe0 ? 2
                 : first < 0xf0 ? 3
                 : first < 0xf5 ? 4
                                : 0;
    for (int i = 1; i < length; i++) {
        if (((unsigned char)bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    return length;
}

/* Can it be shown as it is, in one column? Control characters cannot, nor can what may be two
 * columns wide: from U+1100 on, which UTF-8 writes in three bytes or more beginning with E1 84. */
static bool is_plain(const Text *text, const char *bytes, int length)
{
    unsigned char first = (unsigned char)bytes[0];
    if (length == 1)
        return first >= 0x20 && first != 0x7f;
    bool control = first == 0xc2 && (unsigned char)bytes[1] < 0xa0;
    return text->utf8 && length == 2 && !control;
}

static void add_string(Text *text, TextColour colour, const char *string)
{
    while (*string) {
        int length = sequence_length(string);
        bool plain = length > 0 && is_plain(text, string, length);
        if (length == 0)
            length = 1;
        if (text->used >= text->columns) {
            /* Blanks at the end are no loss. */
            if (*string != ' ')
                text->cut = true;
        } else {
            TextCell *cell = &text->line[text->used++];
            *cell = (TextCell){.bytes = "?", .colour = colour};
            if (plain)
                memcpy(cell->bytes, string, (size_t)length);
        }
        string += length;
    }
}

static void add_formatted(Text *text, TextColour colour, const char *format, va_list arguments)
{
    char buffer[2048];
    vsnprintf(buffer, sizeof buffer, format, arguments);
    add_string(text, colour, buffer);
}

void text_printf(Text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_formatted(text, text->pen, format, arguments);
    va_end(arguments);
}

void text_in(Text *text, TextColour colour, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_formatted(text, colour, format, arguments);
    va_end(arguments);
}

void text_to(Text *text, int column)
{
    while (text->used < column && text->used < text->columns)
        add_string(text, TEXT_PLAIN, " ");
}

void text_right(Text *text, int end, TextColour colour, const char *string)
{
    int start = end - text_width(string);
    if (text->used > 0 && start <= text->used)
        start = text->used + 1;
    text_to(text, start);
    add_string(text, colour, string);
}

void text_newline(Text *text)
{
    if (text->cut)
        text->line[text->columns - 1] = (TextCell){.bytes = ">", .colour = TEXT_PLAIN};
    while (text->used > 0 && strcmp(text->line[text->used - 1].bytes, " ") == 0)
        text->used--;
    TextColour colour = TEXT_PLAIN;
    for (int i = 0; i < text->used; i++) {
        const TextCell *cell = &text->line[i];
        if (text->colour && cell->colour != colour) {
            colour = cell->colour;
            fputs(colour_codes[colour], text->out);
        }
        fputs(cell->bytes, text->out);
    }
    if (colour != TEXT_PLAIN)
        fputs(colour_codes[TEXT_PLAIN], text->out);
    fputc('\n', text->out);
    text->used = 0;
    text->cut = false;
}

void text_paragraph(Text *text, TextColour colour, int indent, const char *format, ...)
{
    char buffer[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);

    int columns = text->columns < READABLE_COLUMNS ? text->columns : READABLE_COLUMNS;
    bool first_word = true;
    char *rest = NULL;
    for (char *word = strtok_r(buffer, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (!first_word && text->used + 1 + text_width(word) > columns) {
            text_newline(text);
            text_to(text, indent);
            first_word = true;
        }
        if (!first_word)
            add_string(text, colour, " ");
        add_string(text, colour, word);
        first_word = false;
    }
    text_newline(text);
}

int text_width(const char *string)
{
    int width = 0;
    while (*string) {
        int length = sequence_length(string);
        string += length ? length : 1;
        width++;
    }
    return width;
}

/* --- figures ------------------------------------------------------------------------------ */

Figure figure_text(const char *format, ...)
{
    Figure figure;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(figure.text, sizeof figure.text, format, arguments);
    va_end(arguments);
    return figure;
}

Figure figure_number(double value, int decimals)
{
    if (!isfinite(value))
        return figure_text("-");
    if (fabs(value) >= 1e9)
        return figure_text("%.3g", value);
    return figure_text("%.*f", decimals, value);
}

Figure figure_count(double value)
{
    if (!isfinite(value))
        return figure_text("-");
    if (fabs(value) >= 1e15)
        return figure_text("%.3g", value);
    Figure plain = figure_text("%.0f", fabs(value));
    Figure figure = figure_text(value <= -0.5 ? "-" : "");
    size_t length = strlen(plain.text), to = strlen(figure.text);
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            figure.text[to++] = ',';
        figure.text[to++] = plain.text[i];
    }
    figure.text[to] = 0;
    return figure;
}

Figure figure_percent(double share)
{
    return isfinite(share) ? figure_text("%s %%", figure_number(100 * share, 0).text)
                           : figure_text("-");
}

Figure figure_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    if (!isfinite(bytes))
        return figure_text("-");
    if (bytes == 0)
        return figure_text("0");
    size_t unit = 0;
    /* 999.95 kB would be printed as 1000.0 kB. */
    while (fabs(bytes) >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    return figure_text("%s %s", figure_number(bytes, unit > 0).text, units[unit]);
}

int figure_decimals(double largest_ms, int digits)
{
    if (!isfinite(largest_ms) || largest_ms <= 0)
        return 1;
    int decimals = digits - 1 - (int)floor(log10(largest_ms));
    return decimals < 0 ? 0 : decimals > 4 ? 4 : decimals;
}
