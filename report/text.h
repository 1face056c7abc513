/* text.h: lines of text that never grow wider than the terminal, and figures as a reader likes
 * them.
 *
 * A line is collected, coloured or not, and written by text_newline, so that colour codes never
 * count as width and no line ends in blanks. What does not fit is cut, with '>' in the last column
 * to say so. Text that comes from a file is shown, never obeyed: control characters become '?'.
 */
#ifndef TRAINER_TEXT_H
#define TRAINER_TEXT_H

#include <stdbool.h>
#include <stdio.h>

enum { TEXT_MOST_COLUMNS = 400, TEXT_LEAST_COLUMNS = 40 };

/* Blue is computing, orange is talking and waiting: two colours that colour-blind eyes tell apart.
 */
typedef enum { TEXT_PLAIN, TEXT_BOLD, TEXT_BLUE, TEXT_ORANGE, TEXT_GREY } TextColour;

typedef struct TextCell {
    char bytes[5]; /* one character in UTF-8 and its final 0 */
    TextColour colour;
} TextCell;

typedef struct Text {
    FILE *out;
    int columns;
    bool colour;
    bool utf8;
    TextColour pen; /* the colour of what comes next */
    int used;       /* columns of the line so far */
    bool cut;       /* the line did not fit */
    TextCell line[TEXT_MOST_COLUMNS];
} Text;

/* `columns` is held between the least and the most; 0 or less means 80. */
void text_open(Text *text, FILE *out, int columns, bool colour, bool utf8);

/* Adds to the line. */
void text_printf(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_in(Text *text, TextColour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds `string` so that it ends before column `end` (counted from 0), at least one blank after what
 * is there. */
void text_right(Text *text, int end, TextColour colour, const char *string);

/* Adds blanks up to `column`. */
void text_to(Text *text, int column);

/* Writes the line. */
void text_newline(Text *text);

/* Writes whole lines: words, wrapped; lines after the first are indented. Wide terminals are not
 * used to the full, as long lines are hard to read. */
void text_paragraph(Text *text, TextColour colour, int indent, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The columns that `string` takes. */
int text_width(const char *string);

/* --- figures ------------------------------------------------------------------------------ *
 * A figure that is not known (NAN) is a dash. The text lives until the end of the expression: use
 * it as `figure_ms(x, 1).text` in a call. */

typedef struct Figure {
    char text[40];
} Figure;

Figure figure_number(double value, int decimals); /* 13.40 */
Figure figure_count(double value);                /* 669,706 */
Figure figure_percent(double share);              /* 0.68 -> "68 %" */
Figure figure_bytes(double bytes);                /* "2.7 MB": powers of 1000 */
Figure figure_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Decimals that give times up to `largest_ms` at least `digits` significant digits. */
int figure_decimals(double largest_ms, int digits);

#endif
