/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration file of sections and settings, as administrators know them from systemd:
 *
 *     # a comment
 *     [sink grafana]
 *     type = pyroscope
 *
 * Before the first section may be lines of the daemon's policy (recorder/processes/access.h).
 *
 * A section has a kind ("sink") and may have a name ("grafana"). Every setting keeps its file and
 * line for messages. A program asks for the settings that it knows; what nobody asked for is
 * reported (settings_check_used), so that a typing error is never a silent default.
 */
#ifndef HEAPPROFD_UTIL_SETTINGS_H
#define HEAPPROFD_UTIL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct setting {
    const char *key, *value; /* without blanks around them */
    const char *file;
    unsigned line;
    bool is_used;
};

struct settings_section {
    const char *kind, *name; /* name: "" if the section has only a kind */
    const char *file;
    unsigned line;
    bool is_used;
    struct setting *settings;
    size_t count, capacity;
};

struct settings {
    struct settings_section *sections;
    size_t count, capacity;
    char **texts; /* the files' contents, which all strings point into */
    size_t text_count, text_capacity;
};

/* Read a file, then the files DIRECTORY/?*.conf in the order of their names (NULL: none). A section
 * that appears again goes on: a later setting of the same key replaces the earlier one. Return 0,
 * -ENOENT if there is no such file at all, or another negative errno with a message that has the
 * file and the line. */
int settings_read(struct settings *settings, const char *file, const char *directory,
                  struct error *error);

/* The same for a text in memory; `name` stands for the file in messages. */
int settings_parse(struct settings *settings, const char *name, const char *text, size_t length,
                   struct error *error);
void settings_clear(struct settings *settings);

/* Return the next section of a kind after `previous` (NULL: the first one), marked as used; NULL:
 * no more. */
struct settings_section *settings_next(struct settings *settings, const char *kind,
                                       const struct settings_section *previous);

/* Return a setting's value, and mark it as used. `fallback` if it is missing. The section may be
 * NULL: everything is missing. */
const char *setting_text(struct settings_section *section, const char *key, const char *fallback);

/* Return the next setting after `previous` (NULL: the first one), marked as used; NULL: no more.
 * For sections whose keys are the user's own, such as labels. */
const struct setting *setting_next(struct settings_section *section,
                                   const struct setting *previous);

/* Parse a value. A missing setting leaves *value as it is. Return 0, or -EINVAL with a message that
 * has the file, the line and what is allowed. */
int setting_bool(struct settings_section *section, const char *key, bool *value,
                 struct error *error);
/* A whole number in [low, high]. */
int setting_number(struct settings_section *section, const char *key, uint64_t low, uint64_t high,
                   uint64_t *value, struct error *error);
/* "64MiB", "64M", "1000": powers of 1,024 for K, M, G with or without iB, of 1,000 for kB, MB, GB.
 */
int setting_bytes(struct settings_section *section, const char *key, uint64_t *value,
                  struct error *error);
/* "250ms", "10s", "5min", "2h", "7d"; a number without a unit is an error. */
int setting_duration_ms(struct settings_section *section, const char *key, uint64_t *value,
                        struct error *error);
/* "0.5%", "1%". *value is the share: 0.005. */
int setting_share(struct settings_section *section, const char *key, double *value,
                  struct error *error);

/* Return whether both have the same sections of a kind, with the same settings in the same order.
 */
bool settings_are_same(const struct settings *one, const struct settings *other, const char *kind);

/* Fill *error for a setting: "FILE:LINE: KEY: REASON". Return -EINVAL. */
int setting_refuse(const struct settings_section *section, const char *key, struct error *error,
                   const char *reason);

/* Return 0, or -EINVAL with a message that names the first section or setting that nobody used. */
int settings_check_used(const struct settings *settings, struct error *error);

#endif
