/* SPDX-License-Identifier: Apache-2.0 */
/* Read and check the sections of continuous mode. */
#include "production/continuous/collector_config.h"

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/config/trace_config.h"
#include "util/array.h"

#define PERIOD_MS_MIN 1000u
#define PERIOD_MS_MAX (24u * 3600 * 1000)
#define SAMPLES_PER_HOUR 20000.0
#define SAMPLES_PER_HOUR_MAX UINT64_C(1000000000)
/* A heap that is smaller than an interval is not seen. */
#define MOST_INTERVAL_BYTES (UINT64_C(4) << 30)

/* --- [program NAME] --- */

struct property_key {
    const char *key, *exclude_key;
    enum target_property property;
};

static const struct property_key property_keys[] = {
    {"name", "exclude_name", TARGET_NAME}, {"cgroup", "exclude_cgroup", TARGET_CGROUP},
    {"unit", "exclude_unit", TARGET_UNIT}, {"container", "exclude_container", TARGET_CONTAINER},
    {"user", "exclude_user", TARGET_USER},
};

/* Write the number of a user whose name or number is given. */
static int find_user(struct settings_section *section, const char *key, const char *user,
                     char number[16], struct error *error)
{
    const struct passwd *known = getpwnam(user);
    if (known != NULL)
        snprintf(number, 16, "%u", (unsigned)known->pw_uid);
    else if (user[strspn(user, "0123456789")] == '\0' && strlen(user) < 11)
        snprintf(number, 16, "%s", user);
    else
        return setting_refuse(section, key, error, "this machine has no such user");
    return 0;
}

/* Add conditions for the words of a setting, between blanks or commas. */
static int add_conditions(struct target_rule *rule, struct settings_section *section,
                          const char *key, enum target_property property, bool excludes,
                          struct error *error)
{
    char word[512], number[16];
    const char *at = setting_text(section, key, "");
    for (;;) {
        at += strspn(at, " \t,");
        size_t length = strcspn(at, " \t,");
        if (length == 0)
            return 0;
        if (length >= sizeof(word))
            return setting_refuse(section, key, error, "a pattern has at most 511 bytes");
        memcpy(word, at, length);
        word[length] = '\0';
        at += length;
        const char *pattern = word;
        if (property == TARGET_USER) {
            if (find_user(section, key, word, number, error) < 0)
                return -EINVAL;
            pattern = number;
        }
        if (target_rule_add(rule, property, pattern, excludes) < 0)
            return error_set(error, -ENOMEM, "no memory for the configuration");
    }
}

static int read_rule(struct target_rule *rule, struct settings_section *section,
                     struct error *error)
{
    bool includes = false;
    for (size_t i = 0; i < sizeof(property_keys) / sizeof(property_keys[0]); i++) {
        const struct property_key *keys = &property_keys[i];
        if (add_conditions(rule, section, keys->key, keys->property, false, error) < 0 ||
            add_conditions(rule, section, keys->exclude_key, keys->property, true, error) < 0)
            return error->code;
    }
    for (size_t i = 0; i < rule->count; i++)
        includes |= !rule->conditions[i].excludes;
    /* [program redis-server] alone is the program of this name. */
    if (!includes && target_rule_add(rule, TARGET_NAME, rule->name, false) < 0)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    return 0;
}

static int read_program(struct collector_config *config, struct settings_section *section,
                        double samples_per_hour, struct error *error)
{
    uint64_t samples = (uint64_t)samples_per_hour;
    if (section->name[0] == '\0')
        return error_set(error, -EINVAL,
                         "%s:%u: a section [program] needs a name: [program redis-server]",
                         section->file, section->line);
    if (strlen(section->name) > 63)
        return error_set(error, -EINVAL, "%s:%u: a program's name has at most 63 bytes",
                         section->file, section->line);
    struct target_rule *rule = target_rules_add(&config->rules, section->name);
    if (rule == NULL ||
        ARRAY_RESERVE(&config->programs, &config->program_capacity, config->program_count, 1) < 0)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    if (read_rule(rule, section, error) < 0 ||
        setting_number(section, "samples_per_hour", 1, SAMPLES_PER_HOUR_MAX, &samples, error) < 0)
        return error->code;
    config->programs[config->program_count++] = (struct program_config){
        .name = section->name,
        .service = setting_text(section, "service", NULL),
        .version = setting_text(section, "version", NULL),
        .version_env = setting_text(section, "version_env", NULL),
        .version_file = setting_text(section, "version_file", NULL),
        .samples_per_hour = (double)samples,
    };
    return 0;
}

/* --- [labels] --- */

static bool is_label_name(const char *name)
{
    if (!islower((unsigned char)*name) && *name != '_')
        return false;
    for (; *name != '\0'; name++) {
        if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '_')
            return false;
    }
    return true;
}

static int check_labels(struct settings_section *section, struct error *error)
{
    for (const struct setting *label = setting_next(section, NULL); label != NULL;
         label = setting_next(section, label)) {
        if (!is_label_name(label->key))
            return setting_refuse(section, label->key, error,
                                  "a label's name is lower-case letters, digits and _");
    }
    return 0;
}

/* --- [continuous] --- */

static int read_symbols(struct collector_config *config, struct settings_section *section,
                        struct error *error)
{
    static const char *const names[] = {"off", "local", "all"};
    const char *text = setting_text(section, "symbols", "local");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            config->symbols = (enum collector_symbols)i;
            return 0;
        }
    }
    return setting_refuse(section, "symbols", error, "give off, local or all");
}

/* The most is the least times a power of two, as the wire has it. */
static int read_intervals(struct collector_config *config, struct settings_section *section,
                          struct error *error)
{
    if (setting_bytes(section, "least_interval", &config->least_interval_bytes, error) < 0 ||
        setting_bytes(section, "start_interval", &config->start_interval_bytes, error) < 0)
        return error->code;
    if (config->least_interval_bytes == 0 || config->least_interval_bytes > UINT64_C(1) << 36)
        return setting_refuse(section, "least_interval", error, "give 1 byte to 64 GiB");
    if (config->start_interval_bytes < config->least_interval_bytes)
        config->start_interval_bytes = config->least_interval_bytes;
    config->most_interval_bytes = config->least_interval_bytes;
    while (config->most_interval_bytes < MOST_INTERVAL_BYTES)
        config->most_interval_bytes *= 2;
    return 0;
}

static int read_continuous(struct collector_config *config, struct settings_section *section,
                           uint64_t *samples_per_hour, struct error *error)
{
    if (setting_duration_ms(section, "period", &config->period_ms, error) < 0 ||
        setting_number(section, "samples_per_hour", 1, SAMPLES_PER_HOUR_MAX, samples_per_hour,
                       error) < 0 ||
        setting_share(section, "cpu", &config->cpu_share, error) < 0 ||
        setting_share(section, "near_limit", &config->near_limit_share, error) < 0 ||
        setting_bytes(section, "memory", &config->memory_bytes, error) < 0 ||
        setting_bytes(section, "ring", &config->ring_bytes, error) < 0 ||
        read_intervals(config, section, error) < 0 || read_symbols(config, section, error) < 0)
        return error->code;
    if (config->period_ms < PERIOD_MS_MIN || config->period_ms > PERIOD_MS_MAX)
        return setting_refuse(section, "period", error, "give 1s to 24h");
    if (config->ring_bytes < 16384 || config->ring_bytes > (64u << 20) ||
        (config->ring_bytes & (config->ring_bytes - 1)) != 0)
        return setting_refuse(section, "ring", error, "give a power of two from 16KiB to 64MiB");
    if (config->near_limit_share > 1)
        return setting_refuse(section, "near_limit", error, "give 1% to 100%, or 0% for no dump");
    config->spool = setting_text(section, "spool", COLLECTOR_SPOOL_DIRECTORY);
    return 0;
}

const char *collector_config_file(void)
{
    const char *file = getenv(COLLECTOR_CONFIG_ENV);
    return file != NULL && *file != '\0' ? file : COLLECTOR_CONFIG_FILE;
}

int collector_config_read(struct collector_config *config, const char *file, struct error *error)
{
    char *directory = NULL;
    uint64_t samples_per_hour = (uint64_t)SAMPLES_PER_HOUR;
    *config = (struct collector_config){
        .period_ms = 60000,
        .cpu_share = 0.005,
        .near_limit_share = HEAP_CONFIG_NEAR_LIMIT_PERCENT / 100.0,
        .memory_bytes = UINT64_C(100) << 20,
        .least_interval_bytes = 4096,
        .start_interval_bytes = UINT64_C(128) << 10,
        .ring_bytes = 262144,
    };
    if (asprintf(&directory, "%s" COLLECTOR_CONFIG_DROP_IN, file) < 0)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    int code = settings_read(&config->settings, file, directory, error);
    free(directory);
    if (code < 0)
        return code == -ENOENT ? 0 : code;
    struct settings_section *section = settings_next(&config->settings, "continuous", NULL);
    if (section == NULL)
        return 0;
    code = read_continuous(config, section, &samples_per_hour, error);
    struct settings_section *program = NULL;
    while (code == 0 && (program = settings_next(&config->settings, "program", program)) != NULL)
        code = read_program(config, program, (double)samples_per_hour, error);
    if (code == 0 && config->program_count == 0)
        code = error_set(error, -EINVAL,
                         "%s:%u: no section [program NAME] says which programs to profile",
                         section->file, section->line);
    if (code == 0)
        code = target_rules_check(&config->rules, error);
    config->labels = settings_next(&config->settings, "labels", NULL);
    if (code == 0 && config->labels != NULL)
        code = check_labels(config->labels, error);
    return code < 0 ? code : 1;
}

void collector_config_clear(struct collector_config *config)
{
    target_rules_clear(&config->rules);
    free(config->programs);
    settings_clear(&config->settings);
    *config = (struct collector_config){0};
}

const struct program_config *collector_config_find(const struct collector_config *config,
                                                   const char *name)
{
    for (size_t i = 0; i < config->program_count; i++) {
        if (strcmp(config->programs[i].name, name) == 0)
            return &config->programs[i];
    }
    return NULL;
}
