/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: sections, drop-ins, values, and messages that name the file and the line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/settings.h"

static int parse(struct settings *settings, const char *text, struct error *error)
{
    return settings_parse(settings, "test.conf", text, strlen(text), error);
}

static void sections_and_values(void **state)
{
    (void)state;
    struct settings settings = {0};
    struct error error;
    assert_int_equal(parse(&settings,
                           "# comment\n[continuous]\nperiod = 10min \r\ncpu=0.5%\n"
                           "memory = 64 MiB\n[sink  one ]\ntype = directory\n[sink two]\n"
                           "; comment\n  url = http://a/?b=c\nverify = no\nretries = 7\n",
                           &error),
                     0);
    struct settings_section *continuous = settings_next(&settings, "continuous", NULL);
    assert_null(settings_next(&settings, "continuous", continuous));
    uint64_t period = 1, memory = 1, retries = 1, missing = 5;
    double cpu = 1;
    bool verify = true;
    assert_int_equal(setting_duration_ms(continuous, "period", &period, &error), 0);
    assert_int_equal(setting_bytes(continuous, "memory", &memory, &error), 0);
    assert_int_equal(setting_share(continuous, "cpu", &cpu, &error), 0);
    assert_int_equal(setting_bytes(continuous, "missing", &missing, &error), 0);
    assert_int_equal(period, 600000);
    assert_int_equal(memory, 64 << 20);
    assert_true(cpu > 0.00499 && cpu < 0.00501);
    assert_int_equal(missing, 5);
    struct settings_section *one = settings_next(&settings, "sink", NULL);
    struct settings_section *two = settings_next(&settings, "sink", one);
    assert_string_equal(one->name, "one");
    assert_string_equal(setting_text(two, "url", ""), "http://a/?b=c");
    assert_string_equal(setting_text(two, "tenant", "-"), "-");
    assert_int_equal(setting_bool(two, "verify", &verify, &error), 0);
    assert_int_equal(setting_number(two, "retries", 0, 9, &retries, &error), 0);
    assert_false(verify);
    assert_int_equal(retries, 7);
    assert_int_equal(settings_check_used(&settings, &error), -EINVAL);
    assert_string_equal(error.message, "test.conf:7: unknown setting type in [sink one]");
    assert_string_equal(setting_next(one, NULL)->value, "directory");
    assert_int_equal(settings_check_used(&settings, &error), 0);
    settings_clear(&settings);
}

static void refused_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"never_profile x, y\na = b\n",
         "test.conf:2: a setting before the first section, such as [continuous]"},
        {"never_profiled x\n",
         "test.conf:1: a setting before the first section, such as [continuous]"},
        {"a = b\n", "test.conf:1: a setting before the first section, such as [continuous]"},
        {"\n[sink a\n", "test.conf:2: a section ends with ']'"},
        {"[ ]\n", "test.conf:1: a section without a kind; [sink NAME] is one with"},
        {"[a]\n= 1\n", "test.conf:2: neither a section nor KEY = VALUE; a comment begins with #"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct settings settings = {0};
        struct error error;
        assert_int_equal(parse(&settings, cases[i].text, &error), -EINVAL);
        assert_string_equal(error.message, cases[i].message);
        settings_clear(&settings);
    }
}

static void refused_values(void **state)
{
    (void)state;
    struct settings settings = {0};
    struct error error;
    uint64_t number = 3;
    double share = 3;
    bool flag = true;
    assert_int_equal(parse(&settings,
                           "[a]\nnegative = -1\nno_unit = 10\nhuge = 99999999999999999999\n"
                           "share = 101%\nflag = maybe\nhex = 0x10 s\nnot = nan s\n",
                           &error),
                     0);
    struct settings_section *section = settings_next(&settings, "a", NULL);
    assert_int_equal(setting_number(section, "negative", 0, 10, &number, &error), -EINVAL);
    assert_string_equal(error.message,
                        "test.conf:2: negative: it takes a whole number from 0 to 10");
    assert_int_equal(setting_bytes(section, "negative", &number, &error), -EINVAL);
    assert_int_equal(setting_duration_ms(section, "no_unit", &number, &error), -EINVAL);
    assert_int_equal(setting_number(section, "huge", 0, UINT64_MAX, &number, &error), -EINVAL);
    assert_int_equal(setting_bytes(section, "huge", &number, &error), -EINVAL);
    assert_int_equal(setting_share(section, "share", &share, &error), -EINVAL);
    assert_int_equal(setting_bool(section, "flag", &flag, &error), -EINVAL);
    assert_int_equal(setting_duration_ms(section, "hex", &number, &error), -EINVAL);
    assert_int_equal(setting_duration_ms(section, "not", &number, &error), -EINVAL);
    assert_int_equal(number, 3);
    assert_true(flag);
    settings_clear(&settings);
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A later file goes on with a section, and its settings replace the earlier ones. */
static void drop_ins(void **state)
{
    (void)state;
    char directory[] = "/tmp/settings-XXXXXX", path[256], drop_ins[256], command[300];
    struct settings settings = {0};
    struct error error;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/main.conf", directory);
    snprintf(drop_ins, sizeof(drop_ins), "%s/main.conf.d", directory);
    assert_int_equal(settings_read(&settings, path, drop_ins, &error), -ENOENT);
    write_file(directory, "main.conf", "[a]\nx = 1\ny = 1\n");
    assert_int_equal(settings_read(&settings, path, drop_ins, &error), 0);
    settings_clear(&settings);
    assert_int_equal(mkdir(drop_ins, 0700), 0);
    write_file(drop_ins, "20.conf", "[a]\nx = 3\n[b]\n");
    write_file(drop_ins, "10.conf", "[a]\nx = 2\nz = 2\n");
    write_file(drop_ins, "30.conf~", "not read");
    assert_int_equal(settings_read(&settings, path, drop_ins, &error), 0);
    struct settings_section *section = settings_next(&settings, "a", NULL);
    assert_string_equal(setting_text(section, "x", ""), "3");
    assert_string_equal(setting_text(section, "y", ""), "1");
    assert_string_equal(setting_text(section, "z", ""), "2");
    assert_null(settings_next(&settings, "a", section));
    assert_non_null(settings_next(&settings, "b", NULL));
    settings_clear(&settings);
    /* The main file may be missing. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(settings_read(&settings, path, drop_ins, &error), 0);
    section = settings_next(&settings, "a", NULL);
    assert_string_equal(setting_text(section, "x", ""), "3");
    assert_string_equal(setting_text(section, "y", "none"), "none");
    settings_clear(&settings);
    snprintf(command, sizeof(command), "rm -r '%s'", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_and_values),
        cmocka_unit_test(refused_lines),
        cmocka_unit_test(refused_values),
        cmocka_unit_test(drop_ins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
