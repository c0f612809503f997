/* SPDX-License-Identifier: Apache-2.0 */
/* Encode replies and decode requests. A reply that does not fit into the socket is lost: nothing
 * waits for its reader. */
#include "recorder/sockets/control_messages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "recorder/sockets/request.h"

void control_send_reply(int fd, const Heapprofd__ControlReply *reply)
{
    size_t length = heapprofd__control_reply__get_packed_size(reply);
    struct request_header header = {REQUEST_MAGIC, REQUEST_VERSION};
    uint8_t *bytes = malloc(sizeof(header) + length);
    if (bytes == NULL)
        return;
    memcpy(bytes, &header, sizeof(header));
    heapprofd__control_reply__pack(reply, bytes + sizeof(header));
    send(fd, bytes, sizeof(header) + length, MSG_NOSIGNAL | MSG_DONTWAIT);
    free(bytes);
}

void control_send_error(int fd, int code, const char *message)
{
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    reply.error = (char *)message;
    reply.has_error_code = true;
    reply.error_code = code;
    control_send_reply(fd, &reply);
}

void control_send_count(int fd, unsigned sessions)
{
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    reply.has_sessions = true;
    reply.sessions = sessions;
    control_send_reply(fd, &reply);
}

Heapprofd__ControlRequest *control_read_request(const void *bytes, size_t length)
{
    struct request_header header;
    if (length < sizeof(header))
        return NULL;
    memcpy(&header, bytes, sizeof(header));
    if (header.magic != REQUEST_MAGIC || header.version != REQUEST_VERSION)
        return NULL;
    return heapprofd__control_request__unpack(NULL, length - sizeof(header),
                                              (const uint8_t *)bytes + sizeof(header));
}
