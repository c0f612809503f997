/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: any text, and every kind of value of each setting. */
#include <string.h>

#include "fuzzing.h"
#include "util/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings settings = {0};
    struct error error = {0};
    if (settings_parse(&settings, "fuzz.conf", (const char *)data, size, &error) == 0) {
        for (size_t i = 0; i < settings.count; i++) {
            struct settings_section *section =
                settings_next(&settings, settings.sections[i].kind, NULL);
            check(section != NULL);
            section = &settings.sections[i];
            const struct setting *setting = NULL;
            while ((setting = setting_next(section, setting)) != NULL) {
                uint64_t number = 0;
                double share = 0;
                bool flag;
                check(setting->line > 0 && strchr(setting->key, '=') == NULL);
                setting_number(section, setting->key, 1, 1000, &number, &error);
                check(number <= 1000);
                setting_bytes(section, setting->key, &number, &error);
                setting_duration_ms(section, setting->key, &number, &error);
                setting_share(section, setting->key, &share, &error);
                check(share >= 0 && share <= 1);
                setting_bool(section, setting->key, &flag, &error);
            }
        }
        settings_check_used(&settings, &error);
    } else {
        check(error.message[0] != '\0');
    }
    settings_clear(&settings);
    return 0;
}
