/* pty.c: runs a command in a terminal of a given size and prints what that terminal shows.
 *
 *     pty ROWS COLUMNS [KIND=VALUE@TEXT]... -- COMMAND ARGUMENT...
 *
 * One after the other, as soon as the screen shows TEXT: key=X types a character (^C is Ctrl-C),
 * signal=N sends a signal, size=RxC changes the terminal's size. SIGCONT is sent when the command
 * has stopped, as a shell does: before, it would have no effect. Printed are the screens, each
 * after a line "--- screen", and at the end
 *
 *     --- end: status 0, beyond 0, alternate 0, hidden 0, unwrapped 0, raw 0
 *
 * where "beyond" counts characters written outside the screen, and the rest says what the command
 * has left behind. It knows the escape sequences that report/playback.c writes, and stops at
 * others.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { MOST_ROWS = 500, MOST_COLUMNS = 400 };

static char screen[MOST_ROWS][MOST_COLUMNS];
static int rows, columns, row, column, beyond;
static bool alternate, hidden, unwrapped;
static int terminal;
static pid_t child;

static void die(const char *what)
{
    fprintf(stderr, "pty: %s\n", what);
    kill(child, SIGKILL);
    exit(99);
}

/* --- the screen --------------------------------------------------------------------------- */

static void put(char c)
{
    if (((unsigned char)c & 0xc0) == 0x80)
        return; /* the rest of a character in UTF-8 */
    if (c == '\r') {
        column = 0;
    } else if (c == '\n') {
        row++;
        if (row == rows && !alternate) { /* scrolls */
            memmove(screen[0], screen[1], sizeof screen[0] * (size_t)(rows - 1));
            row--;
            memset(screen[row], ' ', MOST_COLUMNS);
        }
    } else if (row >= rows || column >= columns) {
        beyond++;
    } else {
        screen[row][column++] = c;
    }
}

static void set_mode(const char *digits, bool on)
{
    if (strcmp(digits, "?1049") == 0)
        alternate = on;
    else if (strcmp(digits, "?25") == 0)
        hidden = !on;
    else if (strcmp(digits, "?7") == 0)
        unwrapped = !on;
    else
        die(digits);
}

/* ESC [ digits letter */
static void obey(const char *digits, char letter)
{
    if (letter == 'H') {
        row = atoi(digits) - 1;
        column = 0;
    } else if (letter == 'K') {
        memset(&screen[row][column], ' ', (size_t)(MOST_COLUMNS - column));
    } else if (letter == 'J') {
        memset(screen, ' ', sizeof screen);
    } else if (letter == 'h' || letter == 'l') {
        set_mode(digits, letter == 'h');
    } else if (letter != 'm') {
        die("an escape sequence that is not known");
    }
}

static void take(char c)
{
    static char digits[32];
    static size_t state; /* 0: text; 1: after ESC; 2 and more: within the sequence */
    if (state == 0 && c != '\033') {
        put(c);
    } else if (state == 0) {
        state = 1;
    } else if (state == 1) {
        state = 2;
        digits[0] = '\0';
    } else if (strchr("0123456789;?", c) && state < sizeof digits) {
        digits[state - 2] = c;
        digits[state - 1] = '\0';
        state++;
    } else {
        obey(digits, c);
        state = 0;
    }
}

/* The screen as text, without blanks at the ends of lines. */
static void copy_screen(char *text)
{
    for (int r = 0; r < rows; r++) {
        int length = columns;
        while (length > 0 && screen[r][length - 1] == ' ')
            length--;
        memcpy(text, screen[r], (size_t)length);
        text += length;
        *text++ = '\n';
    }
    *text = '\0';
}

/* --- events ------------------------------------------------------------------------------- */

static void resize(int new_rows, int new_columns)
{
    rows = new_rows;
    columns = new_columns;
    if (rows < 1 || rows > MOST_ROWS || columns < 1 || columns > MOST_COLUMNS)
        die("no such size");
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    ioctl(terminal, TIOCSWINSZ, &size);
}

static bool has_stopped(void)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == child;
}

/* Does what "KIND=VALUE@TEXT" says if the screen shows the text. */
static bool happens(const char *event, const char *text)
{
    const char *value = strchr(event, '='), *at = strchr(event, '@');
    if (!value || !at)
        die("an event is KIND=VALUE@TEXT");
    if (!strstr(text, at + 1))
        return false;
    value++;
    int r, c;
    if (strncmp(event, "key=", 4) == 0) {
        char key = *value == '^' ? (char)(value[1] & 31) : *value;
        if (write(terminal, &key, 1) != 1)
            die("the key cannot be typed");
    } else if (strncmp(event, "signal=", 7) == 0) {
        if (atoi(value) == SIGCONT && !has_stopped())
            return false;
        kill(child, atoi(value));
    } else if (sscanf(value, "%dx%d", &r, &c) == 2) {
        resize(r, c);
    } else {
        die(event);
    }
    return true;
}

static void start(char **command)
{
    terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        die("no terminal to be had");
    const char *name = ptsname(terminal);
    /* Kept open here, so that its settings can be read when the command has ended. */
    if (open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) < 0)
        die(name);
    resize(rows, columns);
    child = fork();
    if (child == 0) {
        setsid();
        int side = open(name, O_RDWR);
        ioctl(side, TIOCSCTTY, 0);
        for (int i = 0; i < 3; i++)
            dup2(side, i);
        execvp(command[0], command);
        _exit(127);
    }
}

/* Follows the command to its end; returns its status as a shell counts it. */
static int follow(int events, char **event)
{
    static char text[MOST_ROWS * (MOST_COLUMNS + 1) + 1], before[sizeof text];
    int status, happened = 0;
    bool ended = false;
    while (true) {
        struct pollfd file = {.fd = terminal, .events = POLLIN};
        char bytes[1 << 16];
        /* What follows within a moment belongs to the same screen. */
        if (poll(&file, 1, ended ? 0 : 10) > 0) {
            ssize_t got = read(terminal, bytes, sizeof bytes);
            for (ssize_t i = 0; i < got; i++)
                take(bytes[i]);
            if (got > 0)
                continue;
        }
        copy_screen(text);
        if (strcmp(text, before) != 0)
            printf("--- screen\n%s", text);
        strcpy(before, text);
        while (!ended && happened < events && happens(event[happened], text))
            happened++;
        if (ended)
            break;
        ended = waitpid(child, &status, WNOHANG) == child;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    int separator = 3;
    while (separator < argc && strcmp(argv[separator], "--") != 0)
        separator++;
    if (separator + 1 >= argc)
        die("usage: pty ROWS COLUMNS [KIND=VALUE@TEXT]... -- COMMAND ARGUMENT...");
    rows = atoi(argv[1]);
    columns = atoi(argv[2]);
    memset(screen, ' ', sizeof screen);
    start(argv + separator + 1);
    int status = follow(separator - 3, argv + 3);
    struct termios settings;
    tcgetattr(terminal, &settings);
    bool raw = !(settings.c_lflag & ICANON) || !(settings.c_lflag & ECHO);
    printf("--- end: status %d, beyond %d, alternate %d, hidden %d, unwrapped %d, raw %d\n", status,
           beyond, alternate, hidden, unwrapped, raw);
    return 0;
}
