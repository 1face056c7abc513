/* error.c: sentences that say what failed (see error.h). */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Two buffers in turn, so that an error may quote the one it was made from. */
static _Thread_local char buffers[2][1024];
static _Thread_local int next_buffer;

static char *take_buffer(void)
{
    next_buffer = !next_buffer;
    return buffers[next_buffer];
}

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof buffers[0] - used, format, arguments);
    va_end(arguments);
}

Error error_make(const char *format, ...)
{
    char *text = take_buffer();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof buffers[0], format, arguments);
    va_end(arguments);
    return text;
}

Error error_make_at(const char *file, int line, const char *format, ...)
{
    char *text = take_buffer();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof buffers[0], format, arguments);
    va_end(arguments);
    append(text, " (%s:%d)", file, line);
    return text;
}

Error error_system(const char *file, int line, const char *format, ...)
{
    int number = errno;
    char *text = take_buffer();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof buffers[0], format, arguments);
    va_end(arguments);
    append(text, ": %s (%s:%d)", strerror(number), file, line);
    return text;
}
