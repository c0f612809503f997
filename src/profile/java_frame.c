/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes Java frames and packages (java_frame.h). Paths are matched as Perfetto's trace
 * processor does, so that a map applies to the same frames there. */
#include "profile/java_frame.h"

#include <string.h>

static const char apps[] = "/data/app/";

/* Apps of the system, whose paths do not contain their packages. */
static const struct {
    const char *path, *package;
    bool anywhere; /* anywhere in the path, not only at its beginning */
} system_apps[] = {
    {"/system_ext/priv-app/SystemUIGoogle/SystemUIGoogle.apk", "com.android.systemui", false},
    {"/product/priv-app/Phonesky/Phonesky.apk", "com.android.vending", false},
    {"/product/app/Maps/Maps.apk", "com.google.android.apps.maps", false},
    {"/system_ext/priv-app/NexusLauncherRelease/NexusLauncherRelease.apk",
     "com.google.android.apps.nexuslauncher", false},
    {"/product/app/Photos/Photos.apk", "com.google.android.apps.photos", false},
    {"/product/priv-app/WellbeingPrebuilt/WellbeingPrebuilt.apk",
     "com.google.android.apps.wellbeing", false},
    {"DevicePersonalizationPrebuilt", "com.google.android.as", true},
    {"MatchMaker", "com.google.android.as", true},
    {"DeviceIntelligenceNetworkPrebuilt", "com.google.android.as.oss", true},
    {"SettingsIntelligenceGooglePrebuilt", "com.google.android.settings.intelligence", true},
    {"/product/app/PrebuiltGmail/PrebuiltGmail.apk", "com.google.android.gm", false},
    {"PrebuiltGmsCore", "com.google.android.gms", true},
    {"com.google.android.gms", "com.google.android.gms", true},
    {"/product/priv-app/Velvet/Velvet.apk", "com.google.android.googlequicksearchbox", false},
    {"/product/app/LatinIMEGooglePrebuilt/LatinIMEGooglePrebuilt.apk",
     "com.google.android.inputmethod.latin", false},
    {"/product/app/PrebuiltBugle/PrebuiltBugle.apk", "com.google.android.apps.messaging", false},
};

bool java_frame_split(const char *name, size_t length, struct java_text *class_name,
                      struct java_text *method)
{
    const char *end = length == 0 ? NULL : memchr(name, '(', length);
    if (end == NULL)
        end = name + length;
    const char *space = memrchr(name, ' ', (size_t)(end - name));
    const char *begin = space == NULL ? name : space + 1;
    const char *dot = memrchr(begin, '.', (size_t)(end - begin));
    if (dot == NULL || dot == begin || dot + 1 == end)
        return false;
    *class_name = (struct java_text){begin, (size_t)(dot - begin)};
    *method = (struct java_text){dot + 1, (size_t)(end - dot - 1)};
    return true;
}

/* "com.example.app-random/base.apk", maybe below a directory with a random name. */
static bool package_of_app(const char *path, struct java_text *package)
{
    if (*path == '~') {
        path = strchr(path, '/');
        if (path == NULL)
            return false;
        path++;
    }
    size_t directory = strcspn(path, "/");
    const char *minus = memchr(path, '-', directory);
    if (path[directory] == '\0' || minus == NULL || minus == path)
        return false;
    *package = (struct java_text){path, (size_t)(minus - path)};
    return true;
}

bool java_package_of_path(const char *path, struct java_text *package)
{
    static const char in_memory[] = "dex extracted in memory from /data/app/";
    for (size_t i = 0; i < sizeof(system_apps) / sizeof(system_apps[0]); i++) {
        const char *known = system_apps[i].path;
        if (system_apps[i].anywhere ? strstr(path, known) != NULL
                                    : strncmp(path, known, strlen(known)) == 0) {
            *package = (struct java_text){system_apps[i].package, strlen(system_apps[i].package)};
            return true;
        }
    }
    if (strncmp(path, apps, strlen(apps)) == 0)
        return package_of_app(path + strlen(apps), package);
    const char *found = strstr(path, in_memory);
    return found != NULL && package_of_app(found + strlen(in_memory), package);
}

bool java_path_is_jit(const char *path)
{
    static const char memfd[] = "/memfd:";
    return strncmp(path, memfd, strlen(memfd)) == 0;
}

struct java_text java_package_of_command(const char *argument, size_t length)
{
    if (argument == NULL || length == 0)
        return (struct java_text){"", 0};
    const char *slash = memrchr(argument, '/', length);
    if (slash != NULL) {
        length -= (size_t)(slash + 1 - argument);
        argument = slash + 1;
    }
    const char *colon = length == 0 ? NULL : memchr(argument, ':', length);
    return (struct java_text){argument, colon == NULL ? length : (size_t)(colon - argument)};
}
