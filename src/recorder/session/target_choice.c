/* SPDX-License-Identifier: Apache-2.0 */
/* Compare a process's properties with patterns. */
#include "recorder/session/target_choice.h"

#include <fnmatch.h>
#include <stdio.h>

#include "util/process_cgroup.h"

struct facts {
    const struct process_info *info;
    struct process_cgroup cgroup;
    char user[16];
    bool has_cgroup;
};

static const struct process_cgroup *cgroup_of(struct facts *facts)
{
    if (!facts->has_cgroup)
        process_cgroup_read(&facts->cgroup, facts->info->pid);
    facts->has_cgroup = true;
    return &facts->cgroup;
}

static bool matches(const struct target_condition *condition, struct facts *facts)
{
    const char *value = NULL;
    switch (condition->property) {
    case TARGET_NAME:
        return process_info_matches(facts->info, condition->pattern);
    case TARGET_CGROUP:
        value = cgroup_of(facts)->path;
        break;
    case TARGET_UNIT:
        value = cgroup_of(facts)->unit;
        break;
    case TARGET_CONTAINER:
        value = cgroup_of(facts)->container;
        break;
    case TARGET_USER:
        value = facts->user;
        break;
    case TARGET_PROPERTIES:
        break;
    }
    return value != NULL && value[0] != '\0' && fnmatch(condition->pattern, value, 0) == 0;
}

/* names_only: pass over conditions on other properties. */
static bool rule_matches(const struct target_rule *rule, struct facts *facts, bool names_only)
{
    bool asked[TARGET_PROPERTIES] = {0}, found[TARGET_PROPERTIES] = {0};
    for (size_t i = 0; i < rule->count; i++) {
        const struct target_condition *condition = &rule->conditions[i];
        if (names_only && condition->property != TARGET_NAME)
            continue;
        bool matched =
            (condition->excludes || !found[condition->property]) && matches(condition, facts);
        if (condition->excludes && matched)
            return false;
        asked[condition->property] |= !condition->excludes;
        found[condition->property] |= matched && !condition->excludes;
    }
    for (size_t i = 0; i < TARGET_PROPERTIES; i++) {
        if (asked[i] && !found[i])
            return false;
    }
    return true;
}

const struct target_rule *target_choice_find(const struct target_rules *rules,
                                             const struct process_info *info)
{
    struct facts facts = {.info = info};
    /* A thread of the kernel has no program. */
    if (rules->count == 0 || info->executable[0] == '\0')
        return NULL;
    snprintf(facts.user, sizeof(facts.user), "%u", (unsigned)info->uid);
    for (size_t i = 0; i < rules->count; i++) {
        if (rule_matches(&rules->rules[i], &facts, false))
            return &rules->rules[i];
    }
    return NULL;
}

bool target_choice_is_possible(const struct target_rules *rules, const struct process_info *info)
{
    struct facts facts = {.info = info};
    bool is_possible = false;
    for (size_t i = 0; i < rules->count && !is_possible && info->executable[0] != '\0'; i++)
        is_possible = rule_matches(&rules->rules[i], &facts, true);
    return is_possible;
}
