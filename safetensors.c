/* safetensors.c: reading files of tensors, with every check, and writing them (see
 * safetensors.h).
 */
#include "safetensors.h"

#include "base/replace.h"
#include "option_values.h" /* shown: a name from a file may hold anything */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's byte order is the memory's");

#define METADATA "__metadata__"

/* Python's library refuses longer headers, too. */
#define MOST_HEADER_BYTES 100000000u

/* --- reading: the header as text ---------------------------------------------------------- */

static Error read_at(const Safetensors *file, void *memory, size_t bytes, uint64_t offset)
{
    unsigned char *to = memory;
    while (bytes > 0) {
        ssize_t got = pread(file->file, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_make("cannot be read: %s", strerror(errno));
        if (got == 0)
            return error_make("became shorter while it was read");
        to += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return NULL;
}

/* Bytes of the character at `text` in UTF-8; 0 if it is none. No character has two forms: longer
 * ones than necessary are refused, as are the halves of UTF-16's pairs. */
static size_t utf8_length(const unsigned char *text, size_t left)
{
    if (text[0] < 0x80)
        return 1;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    bool longer = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool half = text[0] == 0xed && text[1] > 0x9f;
    bool beyond = text[0] == 0xf4 && text[1] > 0x8f;
    return longer || half || beyond ? 0 : length;
}

/* What cJSON would let pass. */
static Error check_text(const char *text, size_t bytes)
{
    if (text[0] != '{')
        return error_make("its header does not begin with {");
    for (size_t i = 0; i < bytes;) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ' && c != '\t' && c != '\n' && c != '\r')
            return error_make("its header has a control character at byte %zu", i);
        size_t length = utf8_length((const unsigned char *)text + i, bytes - i);
        if (length == 0)
            return error_make("its header is not UTF-8 at byte %zu", i);
        i += length;
    }
    if (strstr(text, "\\u0000"))
        return error_make("its header has a name or text with a zero in it");
    return NULL;
}

static Error parse_text(Safetensors *file, const char *text, size_t bytes)
{
    TRY(check_text(text, bytes));
    const char *end = text;
    file->header = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
    if (!file->header)
        return error_make("its header is not JSON: an error at byte %zu", (size_t)(end - text));
    for (; end < text + bytes; end++)
        if (!strchr(" \t\n\r", *end))
            return error_make("its header goes on after the closing brace, at byte %zu",
                              (size_t)(end - text));
    return NULL;
}

/* --- reading: what the header says -------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* JSON lets a key come twice, and readers then disagree on what it means. */
static Error check_keys_differ(const cJSON *object, const char *where)
{
    size_t count = (size_t)cJSON_GetArraySize(object);
    const cJSON **member = malloc(sizeof(const cJSON *) * (count + 1));
    if (!member)
        return error_make("no memory for %zu names", count);
    size_t i = 0;
    const cJSON *each;
    cJSON_ArrayForEach(each, object)
    {
        member[i++] = each;
    }
    qsort(member, count, sizeof(const cJSON *), compare_names);
    Error error = NULL;
    for (i = 1; i < count && !error; i++)
        if (strcmp(member[i]->string, member[i - 1]->string) == 0)
            error = error_make("%s %s twice", where, shown(member[i]->string).text);
    free(member);
    return error;
}

static Error check_metadata(const cJSON *metadata)
{
    if (!cJSON_IsObject(metadata))
        return error_make(METADATA " is not an object");
    TRY(check_keys_differ(metadata, METADATA " has"));
    const cJSON *each;
    cJSON_ArrayForEach(each, metadata)
    {
        if (!cJSON_IsString(each))
            return error_make(METADATA ": %s is not a string", shown(each->string).text);
    }
    return NULL;
}

/* Doubles hold whole numbers up to 2^53, which is 9 petabytes. */
static bool read_whole(const cJSON *number, uint64_t *value)
{
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 0) ||
        number->valuedouble > 9007199254740992.0 ||
        floor(number->valuedouble) != number->valuedouble)
        return false;
    *value = (uint64_t)number->valuedouble;
    return true;
}

/* Bits of a number of this type; 0: there is no such type. */
static unsigned dtype_bits(const char *dtype)
{
    static const struct {
        const char *name;
        unsigned bits;
    } dtypes[] = {
        {"F32", 32},    {"F64", 64}, {"F16", 16},    {"BF16", 16},   {"F8_E4M3", 8},
        {"F8_E5M2", 8}, {"I64", 64}, {"I32", 32},    {"I16", 16},    {"I8", 8},
        {"U64", 64},    {"U32", 32}, {"U16", 16},    {"U8", 8},      {"BOOL", 8},
        {"C64", 64},    {"F4", 4},   {"F6_E2M3", 6}, {"F8_E8M0", 8}, {"F6_E3M2", 6},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0)
            return dtypes[i].bits;
    return 0;
}

/* Bytes of a tensor of this shape and type. */
static Error expected_bytes(const cJSON *shape, const char *dtype, uint64_t *bytes)
{
    unsigned bits = dtype_bits(dtype);
    if (bits == 0)
        return error_make("has an unknown dtype, %s", shown(dtype).text);
    uint64_t total = bits;
    const cJSON *each;
    cJSON_ArrayForEach(each, shape)
    {
        uint64_t extent;
        if (!read_whole(each, &extent))
            return error_make("has a shape of something else than whole numbers from 0 up");
        if (extent != 0 && total > UINT64_MAX / extent)
            return error_make("has a shape of more bytes than can be counted");
        total *= extent;
    }
    if (total % 8 != 0)
        return error_make("has numbers that do not fill whole bytes");
    *bytes = total / 8;
    return NULL;
}

static Error read_tensor(const cJSON *entry, Tensor *tensor)
{
    if (!cJSON_IsObject(entry))
        return error_make("is not described by an object");
    TRY(check_keys_differ(entry, "has"));
    const cJSON *each;
    cJSON_ArrayForEach(each, entry)
    {
        const char *key = each->string;
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0)
            return error_make("has %s, which is none of dtype, shape and data_offsets",
                              shown(key).text);
    }
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    if (!cJSON_IsString(dtype))
        return error_make("has no dtype");
    if (!cJSON_IsArray(shape))
        return error_make("has no shape");
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_whole(cJSON_GetArrayItem(offsets, 0), &tensor->begin) ||
        !read_whole(cJSON_GetArrayItem(offsets, 1), &tensor->end))
        return error_make("has no data_offsets: two whole numbers, where it begins and ends");
    if (tensor->begin > tensor->end)
        return error_make("ends at byte %llu, before it begins at byte %llu",
                          (unsigned long long)tensor->end, (unsigned long long)tensor->begin);
    tensor->name = entry->string;
    tensor->dtype = dtype->valuestring;
    tensor->shape = shape;
    uint64_t bytes = 0;
    TRY(expected_bytes(shape, dtype->valuestring, &bytes));
    if (bytes != tensor->end - tensor->begin) {
        char text[128];
        return error_make("%s of shape %s is %llu bytes, but its data_offsets are %llu apart",
                          tensor->dtype, safetensors_shape(tensor, text, sizeof text),
                          (unsigned long long)bytes,
                          (unsigned long long)(tensor->end - tensor->begin));
    }
    return NULL;
}

static int compare_places(const void *a, const void *b)
{
    const Tensor *one = *(const Tensor *const *)a, *other = *(const Tensor *const *)b;
    if (one->begin != other->begin)
        return one->begin < other->begin ? -1 : 1;
    return (one->end > other->end) - (one->end < other->end); /* empty ones first */
}

/* Every byte of the data is some tensor's, and only one's. `by_place` has room for all. */
static Error check_places(const Safetensors *file, const Tensor **by_place)
{
    for (size_t i = 0; i < file->tensors; i++)
        by_place[i] = &file->tensor[i];
    qsort(by_place, file->tensors, sizeof *by_place, compare_places);
    uint64_t end = 0;
    for (size_t i = 0; i < file->tensors; i++) {
        const Tensor *tensor = by_place[i];
        if (tensor->begin < end)
            return error_make("%s begins at byte %llu of the data, within %s, which ends at byte "
                              "%llu",
                              shown(tensor->name).text, (unsigned long long)tensor->begin,
                              shown(by_place[i - 1]->name).text, (unsigned long long)end);
        if (tensor->begin > end)
            return error_make("a hole in the data: bytes %llu to %llu, before %s, are no tensor's",
                              (unsigned long long)end, (unsigned long long)tensor->begin - 1,
                              shown(tensor->name).text);
        end = tensor->end;
    }
    if (end > file->data_bytes)
        return error_make("cut short: its data end at byte %llu, its tensors at byte %llu",
                          (unsigned long long)file->data_bytes, (unsigned long long)end);
    if (end < file->data_bytes)
        return error_make("its tensors end at byte %llu of the data, but %llu bytes are there",
                          (unsigned long long)end, (unsigned long long)file->data_bytes);
    return NULL;
}

static Error read_tensors(Safetensors *file)
{
    if (!cJSON_IsObject(file->header))
        return error_make("its header is not an object");
    TRY(check_keys_differ(file->header, "its header has"));
    file->tensor = calloc((size_t)cJSON_GetArraySize(file->header) + 1, sizeof *file->tensor);
    if (!file->tensor)
        return error_make("no memory for its header");
    const cJSON *each;
    cJSON_ArrayForEach(each, file->header)
    {
        if (strcmp(each->string, METADATA) == 0) {
            TRY(check_metadata(each));
            continue;
        }
        Error error = read_tensor(each, &file->tensor[file->tensors]);
        if (error)
            return error_make("%s %s", shown(each->string).text, error);
        file->tensors++;
    }
    const Tensor **by_place = malloc(sizeof *by_place * (file->tensors + 1));
    if (!by_place)
        return error_make("no memory for its header");
    Error error = check_places(file, by_place);
    free(by_place);
    return error;
}

/* --- reading: a file ---------------------------------------------------------------------- */

static Error read_header(Safetensors *file, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (!text)
        return error_make("no memory for its header of %zu bytes", bytes);
    Error error = read_at(file, text, bytes, 8);
    text[bytes] = '\0';
    if (!error)
        error = parse_text(file, text, bytes);
    free(text);
    return error ? error : read_tensors(file);
}

static Error open_file(Safetensors *file)
{
    file->file = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->file < 0)
        return error_make("cannot be opened: %s", strerror(errno));
    struct stat status;
    if (fstat(file->file, &status) != 0)
        return error_make("cannot be looked at: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_make("is not a file");
    uint64_t bytes = (uint64_t)status.st_size;
    if (bytes < 8)
        return error_make("not a safetensors file: %llu bytes, and the header's length alone "
                          "takes 8",
                          (unsigned long long)bytes);
    uint64_t header_bytes;
    TRY(read_at(file, &header_bytes, sizeof header_bytes, 0));
    if (header_bytes > bytes - 8)
        return error_make("not a safetensors file, or cut short: its first 8 bytes say that a "
                          "header of %llu bytes follows, but %llu do",
                          (unsigned long long)header_bytes, (unsigned long long)(bytes - 8));
    if (header_bytes > MOST_HEADER_BYTES)
        return error_make("its header of %llu bytes is longer than the %u that are allowed",
                          (unsigned long long)header_bytes, MOST_HEADER_BYTES);
    if (header_bytes < 2)
        return error_make("its header of %llu bytes is too short to be JSON",
                          (unsigned long long)header_bytes);
    file->data_begin = 8 + header_bytes;
    file->data_bytes = bytes - file->data_begin;
    return read_header(file, (size_t)header_bytes);
}

static Error name_file(const char *path, Error error)
{
    return error ? error_make("%s: %s", shown(path).text, error) : NULL;
}

Error safetensors_open(Safetensors *file, const char *path)
{
    *file = (Safetensors){.path = path, .file = -1};
    return name_file(path, open_file(file));
}

void safetensors_close(Safetensors *file)
{
    if (file->file >= 0)
        close(file->file);
    cJSON_Delete(file->header);
    free(file->tensor);
    *file = (Safetensors){.file = -1};
}

const char *safetensors_metadata(const Safetensors *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, METADATA);
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}

const Tensor *safetensors_find(const Safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

Error safetensors_read(const Safetensors *file, const Tensor *tensor, void *memory)
{
    return name_file(file->path, read_at(file, memory, (size_t)(tensor->end - tensor->begin),
                                         file->data_begin + tensor->begin));
}

const char *safetensors_shape(const Tensor *tensor, char *text, size_t size)
{
    size_t used = 0;
    const char *before = "[";
    const cJSON *each;
    snprintf(text, size, "[");
    cJSON_ArrayForEach(each, tensor->shape)
    {
        int length = snprintf(text + used, size - used, "%s%.0f", before, each->valuedouble);
        used += length > 0 ? (size_t)length : 0;
        if (used + 5 > size) { /* of a shape with very many dimensions, the first will do */
            snprintf(text + size - 5, 5, "...]");
            return text;
        }
        before = ", ";
    }
    snprintf(text + (used ? used : 1), size - (used ? used : 1), "]");
    return text;
}

/* --- writing ------------------------------------------------------------------------------ */

static size_t float_tensor_bytes(const FloatTensor *tensor)
{
    return sizeof(float) * (size_t)tensor->rows *
           (tensor->columns > 0 ? (size_t)tensor->columns : 1);
}

/* The header as text, which the caller frees; NULL: no memory. The data begin on a multiple of 8
 * bytes, with blanks before them, as Python's library does it. */
static char *header_text(const FloatTensor *tensor, size_t tensors, const cJSON *metadata)
{
    cJSON *header = cJSON_CreateObject();
    double begin = 0;
    bool complete = cJSON_AddItemToObject(header, METADATA, cJSON_Duplicate(metadata, true));
    for (size_t i = 0; i < tensors && complete; i++) {
        cJSON *entry = cJSON_AddObjectToObject(header, tensor[i].name);
        double end = begin + (double)float_tensor_bytes(&tensor[i]);
        int shape[] = {tensor[i].rows, tensor[i].columns};
        complete =
            cJSON_AddStringToObject(entry, "dtype", "F32") &&
            cJSON_AddItemToObject(entry, "shape",
                                  cJSON_CreateIntArray(shape, tensor[i].columns > 0 ? 2 : 1)) &&
            cJSON_AddItemToObject(entry, "data_offsets",
                                  cJSON_CreateDoubleArray((double[]){begin, end}, 2));
        begin = end;
    }
    char *printed = complete ? cJSON_PrintUnformatted(header) : NULL;
    cJSON_Delete(header);
    if (!printed)
        return NULL;
    char *text = NULL;
    int width = (int)((strlen(printed) + 7) / 8 * 8);
    if (asprintf(&text, "%-*s", width, printed) < 0)
        text = NULL;
    cJSON_free(printed);
    return text;
}

static Error write_all(int file, const void *memory, size_t bytes)
{
    const unsigned char *from = memory;
    while (bytes > 0) {
        ssize_t wrote = write(file, from, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return error_make("%s", strerror(errno));
        from += wrote;
        bytes -= (size_t)wrote;
    }
    return NULL;
}

/* What a file is made of. */
typedef struct Content {
    const char *header;
    const FloatTensor *tensor; /* [tensors] */
    size_t tensors;
} Content;

static Error write_content(int file, const void *context)
{
    const Content *content = context;
    uint64_t header_bytes = strlen(content->header);
    TRY(write_all(file, &header_bytes, sizeof header_bytes));
    TRY(write_all(file, content->header, (size_t)header_bytes));
    for (size_t i = 0; i < content->tensors; i++)
        TRY(write_all(file, content->tensor[i].values, float_tensor_bytes(&content->tensor[i])));
    return NULL;
}

Error safetensors_write(const char *path, const FloatTensor *tensor, size_t tensors,
                        const cJSON *metadata)
{
    char *header = header_text(tensor, tensors, metadata);
    if (!header)
        return error_make("%s: no memory to save it", shown(path).text);
    Content content = {.header = header, .tensor = tensor, .tensors = tensors};
    Error error = replace_file(path, write_content, &content);
    free(header);
    return error ? error_make("%s: cannot be saved: %s", shown(path).text, error) : NULL;
}
