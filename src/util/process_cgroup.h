/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup of a process, and what its path says: systemd's unit, and the container. */
#ifndef HEAPPROFD_UTIL_PROCESS_CGROUP_H
#define HEAPPROFD_UTIL_PROCESS_CGROUP_H

#include <sys/types.h>

#define PROCESS_CGROUP_BYTES 1024
#define PROCESS_UNIT_BYTES 256
#define PROCESS_CONTAINER_BYTES 65

struct process_cgroup {
    char path[PROCESS_CGROUP_BYTES];         /* "" if unknown */
    char unit[PROCESS_UNIT_BYTES];           /* "redis.service"; "" if the path has none */
    char container[PROCESS_CONTAINER_BYTES]; /* its id, 64 hexadecimal digits; "" */
};

/* Read the cgroup: that of version 2, else that of systemd's hierarchy, else the first one. */
void process_cgroup_read(struct process_cgroup *cgroup, pid_t pid);

/* Take it from the text of /proc/PID/cgroup, which this changes. */
void process_cgroup_parse(struct process_cgroup *cgroup, char *text);

#endif
