/* SPDX-License-Identifier: Apache-2.0 */
/* Send requests to the reader and check its replies. */
#include "recorder/reader/file_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/reader/reader_link.h"
#include "util/hex.h"
#include "util/regular_file.h"

#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"

/* Time limit of a request during a walk, while the ring is not read. */
#define WALK_DEADLINE_MS 3000u

/* --- replies --- */

int reader_names_take(char *bytes, size_t length, size_t count, const char **names)
{
    size_t table = count * sizeof(uint32_t);
    if (length < table || (length > table && bytes[length - 1] != 0))
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        uint32_t place;
        memcpy(&place, bytes + i * sizeof(place), sizeof(place));
        if (place > length - table)
            return -EBADMSG;
        names[i] = place == 0 ? NULL : bytes + table + place - 1;
    }
    return 0;
}

int reader_segment_take(const void *bytes, size_t length, struct reader_segment *segment)
{
    if (length != sizeof(*segment))
        return -EBADMSG;
    memcpy(segment, bytes, sizeof(*segment));
    return segment->build_id_length <= READER_BUILD_ID_MAX ? 0 : -EBADMSG;
}

int reader_program_take(const void *bytes, size_t length, struct program_file *program)
{
    if (length != sizeof(*program))
        return -EBADMSG;
    memcpy(program, bytes, sizeof(*program));
    bool is_whole = program->sanitizer < PROGRAM_SANITIZERS &&
                    program->allocator_source < PROGRAM_SYMBOLS_KINDS &&
                    program->debug_file < PROGRAM_DEBUG_FILE_RESULTS &&
                    memchr(program->allocator, 0, sizeof(program->allocator)) != NULL &&
                    memchr(program->debug_link, 0, sizeof(program->debug_link)) != NULL &&
                    strchr(program->debug_link, '/') == NULL &&
                    memchr(program->build_id, 0, sizeof(program->build_id)) != NULL &&
                    program->build_id[strspn(program->build_id, "0123456789abcdef")] == 0;
    return is_whole ? 0 : -EBADMSG;
}

const struct frame_rule *reader_rules_next(struct reader_rules *rules, size_t *bytes)
{
    const char *at = (const char *)rules->bytes + rules->at;
    uint64_t length;
    memcpy(&length, at, sizeof(length));
    rules->at += sizeof(length) + length;
    *bytes = length;
    return length > 0 ? (const struct frame_rule *)(at + sizeof(length)) : NULL;
}

int reader_rules_take(const void *bytes, size_t length, size_t count)
{
    const char *at = bytes;
    uint64_t rule_bytes;
    for (size_t i = 0; i < count; i++) {
        if (length < sizeof(rule_bytes))
            return -EBADMSG;
        memcpy(&rule_bytes, at, sizeof(rule_bytes));
        at += sizeof(rule_bytes);
        length -= sizeof(rule_bytes);
        if (rule_bytes > length || (rule_bytes > 0 && !frame_rule_is_whole(at, rule_bytes)))
            return -EBADMSG;
        at += rule_bytes;
        length -= rule_bytes;
    }
    return length == 0 ? 0 : -EBADMSG;
}

int reader_functions_take(const void *bytes, size_t length, size_t count)
{
    const struct reader_function *functions = bytes;
    size_t found = length / sizeof(*functions);
    if (length % sizeof(*functions) != 0 || found > READER_FUNCTIONS_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < found; i++) {
        if (functions[i].name >= count ||
            memchr(functions[i].prefix, 0, sizeof(functions[i].prefix)) == NULL)
            return -EBADMSG;
    }
    return (int)found;
}

/* Return the code of a checked reply. If it is -EBADMSG, end the reader and return -EIO. */
static int checked(const struct reader_file *file, int code)
{
    if (code != -EBADMSG)
        return code;
    reader_link_reject_reply(file);
    return -EIO;
}

/* --- requests --- */

/* Open a file below the root of a process that has another one than we. */
static int open_below_root_of(pid_t pid, struct process_rights *rights, const char *path)
{
    struct stat status;
    process_rights_read(rights, pid);
    int root = rights->shares_root ? -1 : regular_file_root_of(pid);
    int fd = root < 0 ? -1 : process_rights_open(rights, root, path, 0, &status);
    if (root >= 0)
        close(root);
    return fd;
}

int file_reader_open_debug_file(const uint8_t *build_id, size_t build_id_length, pid_t pid,
                                struct process_rights *rights)
{
    char path[sizeof(DEBUG_DIRECTORY) + 2 * READER_BUILD_ID_MAX + sizeof("//.debug")];
    char hex[2 * READER_BUILD_ID_MAX + 1];
    struct stat status;
    if (build_id_length < 2 || build_id_length > READER_BUILD_ID_MAX)
        return -1;
    hex_write(build_id, build_id_length, hex);
    snprintf(path, sizeof(path), DEBUG_DIRECTORY "/%.2s/%s.debug", hex, hex + 2);
    int fd = rights != NULL ? open_below_root_of(pid, rights, path) : -1;
    if (fd < 0)
        fd = regular_file_open(path, &status);
    return fd < 0 ? -1 : fd;
}

int file_reader_names(const struct reader_file *file, const uint64_t *addresses, size_t count,
                      const char **names, char **strings)
{
    const struct reader_request request = {.kind = READER_NAMES,
                                           .file = file->number,
                                           .bytes = (uint32_t)(count * sizeof(*addresses))};
    void *reply;
    size_t length;
    *strings = NULL;
    int code =
        reader_link_request(file, &request, addresses, FILE_READER_DEADLINE_MS, &reply, &length);
    if (code >= 0)
        code = checked(file, reader_names_take(reply, length, count, names));
    if (code < 0)
        free(reply);
    else
        *strings = reply;
    return code;
}

bool file_reader_is_idle(void)
{
    return reader_link_is_idle();
}

bool file_reader_prepare_names(const struct reader_file *file)
{
    const struct reader_request request = {.kind = READER_NAMES, .file = file->number};
    if (!reader_link_is_idle())
        return false;
    reader_link_begin(file, &request, FILE_READER_DEADLINE_MS);
    return true;
}

int file_reader_open_unwinding(const struct reader_file *file)
{
    const struct reader_request request = {.kind = READER_UNWIND_OPEN, .file = file->number};
    void *reply;
    size_t length;
    int code = reader_link_request(file, &request, NULL, WALK_DEADLINE_MS, &reply, &length);
    free(reply);
    return code > 1 || length != 0 ? checked(file, -EBADMSG) : code;
}

int file_reader_rules(const struct reader_file *file, const uint64_t *addresses, size_t count,
                      struct reader_rules *rules)
{
    const struct reader_request request = {.kind = READER_UNWIND_RULES,
                                           .file = file->number,
                                           .bytes = (uint32_t)(count * sizeof(*addresses))};
    struct reader_file passed = *file;
    passed.fd = passed.debug_fd = -1;
    *rules = (struct reader_rules){0};
    int code = reader_link_request(&passed, &request, addresses, WALK_DEADLINE_MS, &rules->bytes,
                                   &rules->length);
    if (code >= 0)
        code = checked(file, reader_rules_take(rules->bytes, rules->length, count));
    if (code < 0) {
        free(rules->bytes);
        rules->bytes = NULL;
    }
    return code;
}

void file_reader_close_unwinding(uint32_t number)
{
    const struct reader_request request = {.kind = READER_UNWIND_CLOSE, .file = number};
    reader_link_send(&request);
}

int file_reader_segment(const struct reader_file *file, uint64_t offset,
                        struct reader_segment *segment)
{
    const struct reader_request request = {.kind = READER_SEGMENT, .argument = offset};
    void *reply;
    size_t length;
    int code = reader_link_request(file, &request, NULL, FILE_READER_DEADLINE_MS, &reply, &length);
    if (code >= 0)
        code = checked(file, reader_segment_take(reply, length, segment));
    free(reply);
    return code;
}

int file_reader_program(const struct reader_file *file, unsigned deadline_ms,
                        struct program_file *program)
{
    const struct reader_request request = {.kind = READER_PROGRAM};
    void *reply;
    size_t length;
    int code = reader_link_request(file, &request, NULL, deadline_ms, &reply, &length);
    if (code >= 0)
        code = checked(file, reader_program_take(reply, length, program));
    free(reply);
    return code;
}

int file_reader_functions(const struct reader_file *file, const char *names, size_t bytes,
                          size_t count, struct reader_function **functions, bool *is_whole)
{
    const struct reader_request request = {.kind = READER_FUNCTIONS, .bytes = (uint32_t)bytes};
    void *reply;
    size_t length;
    *functions = NULL;
    int code = reader_link_request(file, &request, names, WALK_DEADLINE_MS, &reply, &length);
    *is_whole = code > 0;
    if (code >= 0)
        code = checked(file, reader_functions_take(reply, length, count));
    if (code < 0)
        free(reply);
    else
        *functions = reply;
    return code;
}
