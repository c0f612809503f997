/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the first packets of a trace. Whatever they contain, each is parsed once, within the bytes
 * that were read. */
#include "tools/cli/view/recent_trace.h"

#include <fcntl.h>
#include <pb_field_numbers.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/proto_cursor.h"

#define HEAD_BYTES 16384u
#define TRACE_PACKET 1u

static void append(char command[RECENT_COMMAND_BYTES], size_t *at, struct proto_span argument)
{
    if (*at >= RECENT_COMMAND_BYTES - 1)
        return;
    *at += (size_t)snprintf(command + *at, RECENT_COMMAND_BYTES - *at, "%s%.*s", *at > 0 ? " " : "",
                            (int)proto_length(argument), (const char *)argument.at);
}

static void take_tree(struct proto_span tree, char command[RECENT_COMMAND_BYTES])
{
    struct proto_field field, inner;
    size_t at = 0;
    while (at == 0 && proto_next(&tree, &field) > 0) {
        if (field.number != PB_PROCESS_TREE_PROCESSES || field.type != PROTO_BYTES)
            continue;
        while (proto_next(&field.span, &inner) > 0)
            if (inner.number == PB_PROCESS_TREE_PROCESS_CMDLINE && inner.type == PROTO_BYTES)
                append(command, &at, inner.span);
    }
}

void recent_trace_command(int directory, const char *name, char command[RECENT_COMMAND_BYTES])
{
    uint8_t head[HEAD_BYTES];
    struct stat status;
    struct proto_field packet, field;
    command[0] = '\0';
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t length = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
                         ? pread(fd, head, sizeof(head), 0)
                         : 0;
    if (fd >= 0)
        close(fd);
    struct proto_span trace = {head, head + (length > 0 ? length : 0)};
    while (command[0] == '\0' && proto_next(&trace, &packet) > 0) {
        while (packet.number == TRACE_PACKET && proto_next(&packet.span, &field) > 0)
            if (field.number == PB_TRACE_PACKET_PROCESS_TREE && field.type == PROTO_BYTES)
                take_tree(field.span, command);
    }
}
