/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes a session profiles, by their properties. A rule matches a process if, of each
 * property that its conditions name, one of the patterns matches, and none of the excluding ones
 * does. The first rule that matches counts. recorder/session/target_choice.h applies rules.
 */
#ifndef HEAPPROFD_TRACE_CONFIG_TARGET_RULES_H
#define HEAPPROFD_TRACE_CONFIG_TARGET_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

enum target_property {
    TARGET_NAME,      /* as of processes in general: process_info_matches() */
    TARGET_CGROUP,    /* the path of the cgroup: "/system.slice/redis.service" */
    TARGET_UNIT,      /* systemd's unit in this path: "redis.service" */
    TARGET_CONTAINER, /* the container's id in this path */
    TARGET_USER,      /* the number of the real user */
    TARGET_PROPERTIES,
};

#define TARGET_RULES_MAX 256
#define TARGET_CONDITIONS_MAX 256 /* of a rule */

struct target_condition {
    enum target_property property;
    char *pattern; /* of a shell: *, ?, [...] */
    bool excludes;
};

struct target_rule {
    char *name;
    struct target_condition *conditions;
    size_t count, capacity;
};

struct target_rules {
    struct target_rule *rules;
    size_t count, capacity;
};

/* Append a rule without conditions. Return NULL without memory. */
struct target_rule *target_rules_add(struct target_rules *rules, const char *name);
/* Return 0 or -ENOMEM. */
int target_rule_add(struct target_rule *rule, enum target_property property, const char *pattern,
                    bool excludes);
void target_rules_clear(struct target_rules *rules);

/* Return 0, or -EINVAL with a message: too many, or a rule without a condition that includes. */
int target_rules_check(const struct target_rules *rules, struct error *error);

#endif
