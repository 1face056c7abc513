/* screen_bench.c: the tables of --mode=bench (see screen_bench.h). */
#include "report/screen_bench.h"

#include "report/screen.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* A string of the file, fit to be printed. */
typedef struct Printable {
    char text[72];
} Printable;

static Printable printable(const char *text)
{
    Printable copy;
    snprintf(copy.text, sizeof copy.text, "%s", text ? text : "unknown");
    for (char *c = copy.text; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return copy;
}

static Printable text_of(const cJSON *object, const char *name)
{
    return printable(json_string(object, name));
}

static Figure number_of(const cJSON *object, const char *name, int decimals)
{
    double number = json_number(object, name);
    return isfinite(number) ? figure_text("%.*f", decimals, number) : figure_text("-");
}

bool screen_bench_is(const cJSON *object)
{
    const char *mode = json_string(member(object, "config"), "mode");
    return mode && strcmp(mode, "bench") == 0 && json_number(object, "schema") == 1 &&
           cJSON_IsArray(member(object, "results"));
}

/* --- the head ----------------------------------------------------------------------------- */

typedef struct Library {
    const char *member, *name;
} Library;

/* A line of those that the file tells the version of, if there are any. */
static void print_libraries(FILE *out, const cJSON *libraries, const Library *known, size_t count)
{
    const char *before = "# with ";
    for (size_t i = 0; i < count; i++) {
        if (!json_string(libraries, known[i].member))
            continue;
        fprintf(out, "%s%s%s", before, known[i].name, text_of(libraries, known[i].member).text);
        before = ", ";
    }
    if (strcmp(before, ", ") == 0)
        fputc('\n', out);
}

void screen_bench_head(FILE *out, const cJSON *object)
{
    const cJSON *environment = member(object, "environment"), *config = member(object, "config");
    const cJSON *gpus = member(environment, "gpus");
    double ranks = json_number(config, "devices"), steps = json_number(config, "steps");
    double cores = json_number(environment, "physical_cores");
    int gpu_count = cJSON_GetArraySize(gpus);
    fprintf(out, "# collectives among %.0f rank%s, a process each\n", ranks, ranks == 1 ? "" : "s");
    for (int i = 0; i < gpu_count; i++)
        fprintf(out, "# GPU %d: %s\n", i,
                printable(cJSON_GetStringValue(cJSON_GetArrayItem(gpus, i))).text);
    fprintf(out, "# on %.0f core%s: %s\n", cores, cores == 1 ? "" : "s",
            text_of(environment, "cpu").text);
    if (gpu_count == 0 && ranks > cores)
        fprintf(out, "# more ranks than cores: they cannot all work at once\n");
    fprintf(out, "# trainer %s of %s, %s\n", text_of(environment, "revision").text,
            text_of(environment, "host").text, text_of(environment, "date").text);
    static const Library of_cpu[] = {{"blas", ""}, {"cjson", "cJSON "}, {"zlib", "zlib "}};
    static const Library of_gpu[] = {
        {"cuda_runtime", "CUDA "}, {"cuda_driver", "driver for CUDA "}, {"nccl", "NCCL "}};
    print_libraries(out, member(environment, "libraries"), of_cpu, 3);
    print_libraries(out, member(environment, "libraries"), of_gpu, 3);
    fprintf(out,
            "#\n# size    bytes of the buffer; where every rank has a part of it (all_gather,\n"
            "#         reduce_scatter) those of all parts, and count is one part's\n"
            "# time    mean of one operation, over all ranks and ");
    if (steps > 0)
        fprintf(out, "%.0f operations", steps);
    else
        fprintf(out, "as many as fit into %.1f s", json_number(config, "seconds_per_line"));
    fprintf(out,
            "\n# algbw   size / time      busbw   algbw x %s\n"
            "# #wrong  elements, over all ranks: every result is checked in full\n",
            "2(n-1)/n for all_reduce, 1 for\n"
            "#         broadcast, (n-1)/n for the others: what a link carries, at best");
}

/* --- a section ---------------------------------------------------------------------------- */

void screen_bench_section(FILE *out, const cJSON *result)
{
    bool chosen = json_string(result, "algorithm") != NULL;
    fprintf(out, "#\n# %s, %s%s%s\n#\n", text_of(result, "collective").text,
            text_of(result, "transport").text, chosen ? ", " : "",
            chosen ? text_of(result, "algorithm").text : "");
    fprintf(out, "#%11s%13s%9s%7s%11s%9s%9s%8s\n", "size", "count", "type", "redop", "time",
            "algbw", "busbw", "#wrong");
    fprintf(out, "#%11s%13s%9s%7s%11s%9s%9s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)",
            "(GB/s)");
}

void screen_bench_row(FILE *out, const cJSON *row)
{
    fprintf(out, "%12s%13s%9s%7s%11s%9s%9s%8s\n", number_of(row, "size_bytes", 0).text,
            number_of(row, "count", 0).text, text_of(row, "type").text, text_of(row, "redop").text,
            number_of(row, "time_us", 2).text, number_of(row, "algbw_gb_s", 2).text,
            number_of(row, "busbw_gb_s", 2).text, number_of(row, "wrong", 0).text);
}

double screen_bench_mean(const cJSON *result)
{
    const cJSON *row;
    double sum = 0, rows = 0;
    cJSON_ArrayForEach(row, member(result, "rows"))
    {
        sum += json_number(row, "busbw_gb_s");
        rows++;
    }
    return rows > 0 ? sum / rows : NAN;
}

void screen_bench_section_end(FILE *out, const cJSON *result)
{
    fprintf(out, "# Avg bus bandwidth: %.2f GB/s\n", screen_bench_mean(result));
}

/* --- the end ------------------------------------------------------------------------------ */

bool screen_bench_passed(const cJSON *object)
{
    const cJSON *result, *row;
    if (!cJSON_IsTrue(member(object, "complete")))
        return false;
    cJSON_ArrayForEach(result, member(object, "results"))
    {
        cJSON_ArrayForEach(row, member(result, "rows"))
        {
            if (!(json_number(row, "wrong") == 0))
                return false;
        }
    }
    return true;
}

void screen_bench_end(FILE *out, const cJSON *object)
{
    fprintf(out, "#\n%s\n", screen_bench_passed(object) ? "OK" : "FAILED");
}

void screen_bench(FILE *out, const cJSON *object)
{
    const cJSON *result, *row;
    screen_bench_head(out, object);
    cJSON_ArrayForEach(result, member(object, "results"))
    {
        screen_bench_section(out, result);
        cJSON_ArrayForEach(row, member(result, "rows"))
        {
            screen_bench_row(out, row);
        }
        screen_bench_section_end(out, result);
    }
    screen_bench_end(out, object);
}
