/* SPDX-License-Identifier: Apache-2.0 */
/* Writes MemoryInfra JSON through a stream that compresses its output. */
#include "tools/cli/convert/memory_infra_file.h"

#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/options/profile_options.h"
#include "util/packed_file.h"
#include "util/xmalloc.h"

/* Bytes that are compressed at once. */
#define WRITE_BYTES (256u * 1024u)

struct writing {
    struct packed_file packed;
    const struct memory_infra_file *file;
    uint64_t bytes;
};

static ssize_t write_some(void *cookie, const char *bytes, size_t length)
{
    struct writing *writing = cookie;
    packed_file_write(&writing->packed, bytes, length);
    writing->bytes += length;
    if (writing->file->tell != NULL)
        writing->file->tell(writing->file->tell_context, writing->bytes);
    return (ssize_t)length; /* errors are reported at the end */
}

int memory_infra_file_write(const struct profile *profile, const struct export_dump *dumps,
                            size_t dump_count, const struct memory_infra_write_options *options,
                            const struct memory_infra_file *file, struct error *error)
{
    static const cookie_io_functions_t functions = {.write = write_some};
    struct writing writing = {.file = file};
    char *buffer = xmalloc(WRITE_BYTES);
    packed_file_open(&writing.packed, file->fd, file->packed, 0);
    FILE *out = xmalloc_made(fopencookie(&writing, "w", functions));
    __fsetlocking(out, FSETLOCKING_BYCALLER); /* only this thread uses it, in small pieces */
    setvbuf(out, buffer, _IOFBF, WRITE_BYTES);
    int64_t sites = memory_infra_write(profile, dumps, dump_count, options, out);
    int code = sites < 0 ? (int)sites : 0;
    if (fclose(out) != 0 && code == 0)
        code = -errno;
    int written = packed_file_close(&writing.packed);
    free(buffer);
    if (code == 0 && written < 0)
        return error_set(error, written, "the MemoryInfra file cannot be written: %s",
                         strerror(-written));
    if (code == -E2BIG)
        return error_set(error, code,
                         "a MemoryInfra file cannot hold this many stacks of more than %d frames; "
                         "choose fewer with --pid, --heap and --dump",
                         MEMORY_INFRA_FRAMES_MAX);
    return code < 0 ? error_set(error, code, "no memory to write the MemoryInfra file") : 0;
}

int memory_infra_file_write_all(const struct profile *profile, int fd, bool packed,
                                struct error *error)
{
    static const struct memory_infra_write_options usual = {.stack_mode = HEAP_STACK_NATIVE,
                                                            .reported = true};
    static const struct dump_choice all = {.dump = DUMP_ALL};
    struct export_dump *dumps = NULL;
    size_t count = dump_choice_list(&all, profile, &dumps);
    int code =
        memory_infra_file_write(profile, dumps, count, &usual,
                                &(const struct memory_infra_file){fd, packed, NULL, NULL}, error);
    free(dumps);
    return code;
}
