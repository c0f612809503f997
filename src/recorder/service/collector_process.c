/* SPDX-License-Identifier: Apache-2.0 */
/* Look for the section in the configuration, and for the program. */
#include "recorder/service/collector_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/settings.h"

#define PROGRAM "heapprofd_collector"
/* As in production/continuous/collector_config.h, which does not belong to the daemon. */
#define CONFIG_FILE "/etc/heapprofd.conf"
#define CONFIG_ENV "HEAPPROFD_CONFIG"
/* Set if a service manager starts the collector: heapprofd.service has no network. */
#define NO_COLLECTOR_ENV "HEAPPROFD_NO_COLLECTOR"

static bool find_program(char path[PATH_MAX])
{
    static const char *const places[] = {"", "/../libexec/heapprofd"};
    char own[PATH_MAX], candidate[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(candidate, sizeof(candidate), "%s%s/" PROGRAM, own, places[i]);
        if (access(candidate, X_OK) == 0 && realpath(candidate, path) != NULL)
            return true;
    }
    return false;
}

bool collector_process_is_wanted(char path[PATH_MAX], void (*log)(const char *line))
{
    struct settings settings = {0};
    struct error error;
    const char *file = getenv(CONFIG_ENV);
    char directory[PATH_MAX];
    bool is_named = file != NULL && *file != '\0';
    /* The machine's configuration is for the machine's daemon, not for those of users. */
    if ((!is_named && geteuid() != 0) || getenv(NO_COLLECTOR_ENV) != NULL)
        return false;
    if (!is_named)
        file = CONFIG_FILE;
    snprintf(directory, sizeof(directory), "%s.d", file);
    int code = settings_read(&settings, file, directory, &error);
    bool is_wanted =
        code < 0 ? code != -ENOENT : settings_next(&settings, "continuous", NULL) != NULL;
    settings_clear(&settings);
    if (is_wanted && !find_program(path)) {
        log("the configuration has a section [continuous], but " PROGRAM
            " is neither beside this program nor in ../libexec/heapprofd");
        return false;
    }
    return is_wanted;
}
