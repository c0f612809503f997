/* SPDX-License-Identifier: Apache-2.0 */
/* Build, check and free rules. */
#include "trace/config/target_rules.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

struct target_rule *target_rules_add(struct target_rules *rules, const char *name)
{
    char *copy = strdup(name);
    if (copy == NULL || ARRAY_RESERVE(&rules->rules, &rules->capacity, rules->count, 1) < 0) {
        free(copy);
        return NULL;
    }
    rules->rules[rules->count] = (struct target_rule){.name = copy};
    return &rules->rules[rules->count++];
}

int target_rule_add(struct target_rule *rule, enum target_property property, const char *pattern,
                    bool excludes)
{
    struct target_condition condition = {property, strdup(pattern), excludes};
    if (condition.pattern == NULL ||
        ARRAY_ADD(&rule->conditions, &rule->count, &rule->capacity, condition) < 0) {
        free(condition.pattern);
        return -ENOMEM;
    }
    return 0;
}

void target_rules_clear(struct target_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        for (size_t j = 0; j < rules->rules[i].count; j++)
            free(rules->rules[i].conditions[j].pattern);
        free(rules->rules[i].conditions);
        free(rules->rules[i].name);
    }
    free(rules->rules);
    *rules = (struct target_rules){0};
}

int target_rules_check(const struct target_rules *rules, struct error *error)
{
    if (rules->count > TARGET_RULES_MAX)
        return error_set(error, -EINVAL, "there are %zu target rules: give %d at most",
                         rules->count, TARGET_RULES_MAX);
    for (size_t i = 0; i < rules->count; i++) {
        const struct target_rule *rule = &rules->rules[i];
        bool includes = false;
        for (size_t j = 0; j < rule->count; j++) {
            if ((unsigned)rule->conditions[j].property >= TARGET_PROPERTIES)
                return error_set(error, -EINVAL, "the target rule '%.64s' has an unknown property",
                                 rule->name);
            includes |= !rule->conditions[j].excludes;
        }
        if (rule->count > TARGET_CONDITIONS_MAX)
            return error_set(error, -EINVAL,
                             "the target rule '%.64s' has %zu conditions: give %d "
                             "at most",
                             rule->name, rule->count, TARGET_CONDITIONS_MAX);
        if (!includes)
            return error_set(error, -EINVAL,
                             "the target rule '%.64s' only excludes: say which processes it "
                             "includes, such as the name *",
                             rule->name);
    }
    return 0;
}
