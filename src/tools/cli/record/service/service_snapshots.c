/* SPDX-License-Identifier: Apache-2.0 */
/* Each snapshot has a connection of its own, which ends with it. */
#include "tools/cli/record/service/service_snapshots.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/print/format.h"
#include "util/output_file.h"

static int save_one(struct service_snapshots *snapshots, const struct session_config *config,
                    const struct snapshot_due *due, struct consumer *consumer, struct error *error)
{
    char path[PATH_MAX];
    struct output_file file;
    int length = snprintf(path, sizeof(path), "%s.%u", snapshots->trace_path, snapshots->count);
    if (length >= (int)sizeof(path))
        return error_set(error, -ENAMETOOLONG, "%s: the name is too long", snapshots->trace_path);
    int code = snapshots_clone(due, consumer, error);
    if (code == 0)
        code = output_file_open(&file, path, 0, error);
    if (code < 0)
        return code;
    code = consumer_read(consumer, config, file.fd, error);
    code = output_file_close(&file, code, error);
    if (code < 0)
        return code;
    snapshots->count++;
    if (!snapshots->quiet)
        format_printf(stderr, "Trigger '%s': trace in %s\n", due->trigger, path);
    return 0;
}

int service_snapshots_save(struct service_snapshots *snapshots, const struct session_config *config,
                           const struct tracing_socket *socket, const struct consumer_user *user,
                           struct error *error)
{
    struct snapshot_due due;
    int code = 0;
    while (code == 0 && snapshots_take(&snapshots->snapshots, &due)) {
        struct consumer consumer;
        code = consumer_open(&consumer, socket, user, error);
        if (code == 0)
            code = save_one(snapshots, config, &due, &consumer, error);
        consumer_close(&consumer);
    }
    return code;
}
