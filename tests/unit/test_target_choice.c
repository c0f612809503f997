/* SPDX-License-Identifier: Apache-2.0 */
/* What the path of a cgroup says, and which rule takes a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "recorder/session/target_choice.h"
#include "util/process_cgroup.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct process_cgroup parsed(const char *text)
{
    char copy[4096];
    struct process_cgroup cgroup;
    snprintf(copy, sizeof(copy), "%s", text);
    process_cgroup_parse(&cgroup, copy);
    return cgroup;
}

static void test_cgroups(void **context)
{
    static const struct {
        const char *text, *path, *unit, *container;
    } rows[] = {
        {"0::/system.slice/redis.service\n", "/system.slice/redis.service", "redis.service", ""},
        {"0::/user.slice/user-0.slice/user@0.service/app.slice/run-r1.scope\n",
         "/user.slice/user-0.slice/user@0.service/app.slice/run-r1.scope", "run-r1.scope", ""},
        {"0::/system.slice/docker-" ID ".scope\n", "/system.slice/docker-" ID ".scope",
         "docker-" ID ".scope", ID},
        {"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope\n",
         "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope",
         "cri-containerd-" ID ".scope", ID},
        {"12:pids:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", "/docker/" ID, "", ID},
        /* Both versions: version 2 is unused. */
        {"4:memory:/a\n1:name=systemd:/system.slice/x.service\n0::/\n", "/system.slice/x.service",
         "x.service", ""},
        {"0::/a:b:c\n", "/a:b:c", "", ""},
        {"0::/" ID "0\n", "/" ID "0", "", ""}, /* 65 digits are no id */
        {"0::/.service/.scope\n", "/.service/.scope", "", ""},
        {"", "", "", ""},
        {"garbage\n0:\n::\n", "", "", ""},
    };
    (void)context;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct process_cgroup cgroup = parsed(rows[i].text);
        assert_string_equal(cgroup.path, rows[i].path);
        assert_string_equal(cgroup.unit, rows[i].unit);
        assert_string_equal(cgroup.container, rows[i].container);
    }
}

static void test_long_cgroups(void **context)
{
    char text[4 * PROCESS_CGROUP_BYTES], name[PROCESS_UNIT_BYTES + 64];
    (void)context;
    /* A path without room is unknown, rather than cut. */
    memset(text, 'a', sizeof(text));
    memcpy(text, "0::/", 4);
    text[PROCESS_CGROUP_BYTES + 100] = '\0';
    assert_string_equal(parsed(text).path, "");
    memset(name, 'u', sizeof(name));
    snprintf(name + PROCESS_UNIT_BYTES, 16, ".service");
    snprintf(text, sizeof(text), "0::/%s", name);
    assert_string_equal(parsed(text).unit, "");
}

/* Return the name of the rule that takes this process under the name of `name`, or "". */
static const char *chosen(const struct target_rules *rules, const char *name)
{
    struct process_info info = {.pid = getpid(), .uid = 1000};
    const char *arguments[] = {name};
    snprintf(info.executable, sizeof(info.executable), "/usr/bin/%s", name);
    snprintf(info.comm, sizeof(info.comm), "%s", name);
    info.arguments = arguments;
    info.argument_count = 1;
    const struct target_rule *rule = target_choice_find(rules, &info);
    return rule != NULL ? rule->name : "";
}

static void test_rules(void **context)
{
    struct target_rules rules = {0};
    struct error error;
    (void)context;
    assert_string_equal(chosen(&rules, "web"), "");
    struct target_rule *rule = target_rules_add(&rules, "first");
    target_rule_add(rule, TARGET_NAME, "web*", false);
    target_rule_add(rule, TARGET_NAME, "api", false);
    target_rule_add(rule, TARGET_NAME, "web-debug", true);
    target_rule_add(rule, TARGET_USER, "1000", false);
    rule = target_rules_add(&rules, "root's");
    target_rule_add(rule, TARGET_NAME, "*", false);
    target_rule_add(rule, TARGET_USER, "0", false);
    rule = target_rules_add(&rules, "rest");
    target_rule_add(rule, TARGET_USER, "*", false);
    target_rule_add(rule, TARGET_NAME, "sh", true);
    target_rule_add(rule, TARGET_CONTAINER, "*", true);
    assert_int_equal(target_rules_check(&rules, &error), 0);
    assert_string_equal(chosen(&rules, "web-1"), "first");
    assert_string_equal(chosen(&rules, "api"), "first");
    assert_string_equal(chosen(&rules, "web-debug"), "rest");
    assert_string_equal(chosen(&rules, "cron"), "rest");
    assert_string_equal(chosen(&rules, "sh"), "");
    /* A thread of the kernel has no program. */
    struct process_info kernel = {.pid = getpid(), .comm = "kworker/0:1"};
    assert_null(target_choice_find(&rules, &kernel));
    rule = target_rules_add(&rules, "nothing");
    target_rule_add(rule, TARGET_NAME, "x", true);
    assert_int_equal(target_rules_check(&rules, &error), -EINVAL);
    assert_non_null(strstr(error.message, "'nothing' only excludes"));
    target_rules_clear(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cgroups),
        cmocka_unit_test(test_long_cgroups),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
