/* error.h: the one way in which a function of this program fails.
 *
 * A function that can fail returns an Error: NULL when it succeeded, otherwise a sentence for the
 * user. A function that returns something else takes an `Error *` as its last argument.
 *
 *     Error device_sync(Device *device);
 *     TRY(device_sync(device));                hands a failure on to the caller
 */
#ifndef TRAINER_ERROR_H
#define TRAINER_ERROR_H

/* A sentence without a final newline. It belongs to the thread that made it and stays readable
 * until that thread makes its next one, so it can be compared with NULL, printed, copied, or handed
 * up. */
typedef const char *Error;

/* Makes an error from a printf format: "%s: 3 labels for 4 images". */
Error error_make(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, followed by the place in the source where it arose: for failures that are not the
 * user's. */
Error error_make_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns from the calling function if `call` fails. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        Error try_error = (call);                                                                  \
        if (try_error)                                                                             \
            return try_error;                                                                      \
    } while (0)

/* Returns from the calling function if `condition`, the success of a system call that sets errno,
 * does not hold. The rest is a printf format for what was being done: "mapping %zu bytes". */
#define TRY_SYSTEM(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return error_system(__FILE__, __LINE__, __VA_ARGS__);                                  \
    } while (0)

/* What TRY_SYSTEM makes: "mapping 64 bytes: Cannot allocate memory (comm/shm.c:88)". */
Error error_system(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
