/* SPDX-License-Identifier: Apache-2.0 */
/* Open files at the file reader, ask it for frame rules, and limit the time that a file may
 * take. */
#include "recorder/walk/unwind_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/reader/file_reader.h"
#include "recorder/reader/target_file.h"
#include "recorder/walk/frame_step.h"
#include "recorder/walk/rule_cache.h"
#include "util/clock.h"

/* Limits of the time for look-ups in a file: at first, and as a part of the time since it was
 * opened. A real program's table needs a few hundred ms once, at worst. */
#define LOOKUP_NS_AT_FIRST UINT64_C(1000000000)
#define LOOKUP_TIME_PART 10u
#define WAIT_NS_MAX UINT64_C(100000000)

struct unwind_file {
    struct unwind_file *next;
    unsigned users;
    dev_t device;
    ino_t inode;
    off_t file_bytes;
    struct timespec changed;
    uint16_t build_id_length;
    uint8_t build_id[RECORD_BUILD_ID_MAX];

    uint32_t number; /* its number in the reader */
    bool has_more;
    uint64_t opened_ns, spent_ns;
    struct rule_cache rules;
};

static struct unwind_file *files;

/* --- files --- */

static struct reader_file reader_file_of(const struct callsite_module *module, uint32_t number)
{
    return (struct reader_file){.path = module->path,
                                .fd = -1,
                                .debug_fd = -1,
                                .number = number,
                                .build_id = module->build_id,
                                .build_id_length = module->build_id_length};
}

/* Open the file in the reader. Return as file_reader_open_unwinding(). */
static int open_at_reader(int fd, const struct target_mapping *mapping,
                          const struct callsite_module *module, uint32_t number)
{
    struct reader_file passed = reader_file_of(module, number);
    passed.fd = fd;
    passed.debug_fd = file_reader_open_debug_file(module->build_id, module->build_id_length,
                                                  mapping->pid, mapping->rights);
    int code = file_reader_open_unwinding(&passed);
    if (passed.debug_fd >= 0)
        close(passed.debug_fd);
    return code;
}

static void file_close(struct unwind_file *file)
{
    rule_cache_clear(&file->rules);
    free(file);
}

static struct unwind_file *file_open(int fd, const struct stat *status,
                                     const struct target_mapping *mapping,
                                     const struct callsite_module *module)
{
    struct unwind_file *file = calloc(1, sizeof(*file));
    if (file == NULL)
        return NULL;
    file->device = status->st_dev;
    file->inode = status->st_ino;
    file->file_bytes = status->st_size;
    file->changed = status->st_mtim;
    file->build_id_length = module->build_id_length;
    memcpy(file->build_id, module->build_id, module->build_id_length);
    file->opened_ns = clock_read_ns(CLOCK_MONOTONIC);
    file->number = file_reader_number();
    int code = open_at_reader(fd, mapping, module, file->number);
    file->has_more = code == 1;
    if (code >= 0)
        return file;
    file_close(file);
    return NULL;
}

static bool is_same(const struct unwind_file *file, const struct stat *status,
                    const struct callsite_module *module)
{
    return file->device == status->st_dev && file->inode == status->st_ino &&
           file->file_bytes == status->st_size && file->changed.tv_sec == status->st_mtim.tv_sec &&
           file->changed.tv_nsec == status->st_mtim.tv_nsec &&
           file->build_id_length == module->build_id_length &&
           memcmp(file->build_id, module->build_id, module->build_id_length) == 0;
}

static struct target_mapping mapping_of(pid_t pid, struct process_rights *rights,
                                        const struct callsite_module *module)
{
    return (struct target_mapping){.pid = pid,
                                   .rights = rights,
                                   .path = module->path,
                                   .start = module->start,
                                   .end = module->end,
                                   .has_build_id = module->build_id_length > 0};
}

/* Find the file among the open ones, or open it. NULL: it cannot be opened. */
static struct unwind_file *find_or_open(int fd, const struct stat *status,
                                        const struct target_mapping *mapping,
                                        const struct callsite_module *module)
{
    struct unwind_file *file = files;
    while (file != NULL && !is_same(file, status, module))
        file = file->next;
    if (file != NULL)
        return file;
    file = file_open(fd, status, mapping, module);
    if (file != NULL) {
        file->next = files;
        files = file;
    }
    return file;
}

struct unwind_file *unwind_file_acquire(pid_t pid, struct process_rights *rights,
                                        const struct callsite_module *module)
{
    const struct target_mapping mapping = mapping_of(pid, rights, module);
    struct unwind_file *file = NULL;
    for (int way = 0; way < TARGET_FILE_WAYS && file == NULL; way++) {
        struct stat status;
        int fd = target_file_open(&mapping, (enum target_file_way)way, &status);
        if (fd < 0)
            continue;
        file = find_or_open(fd, &status, &mapping, module);
        close(fd);
    }
    if (file != NULL)
        file->users++;
    return file;
}

void unwind_file_release(struct unwind_file *file)
{
    if (file == NULL || --file->users > 0)
        return;
    struct unwind_file **link = &files;
    while (*link != file)
        link = &(*link)->next;
    *link = file->next;
    file_reader_close_unwinding(file->number);
    file_close(file);
}

bool unwind_file_has_more(const struct unwind_file *file)
{
    return file->has_more;
}

/* --- rules --- */

/* Pass the file to a new reader process, which does not have it. */
static bool open_again(const struct unwind_file *file, const struct unwind_lookup *lookup)
{
    const struct callsite_module *module = lookup->module;
    const struct target_mapping mapping = mapping_of(lookup->pid, lookup->rights, module);
    for (int way = 0; way < TARGET_FILE_WAYS; way++) {
        struct stat status;
        int fd = target_file_open(&mapping, (enum target_file_way)way, &status);
        bool is_open = fd >= 0 && is_same(file, &status, module) &&
                       open_at_reader(fd, &mapping, module, file->number) >= 0;
        if (fd >= 0)
            close(fd);
        if (is_open)
            return true;
    }
    return false;
}

static int ask_reader(struct unwind_file *file, const struct unwind_lookup *lookup,
                      const uint64_t *addresses, size_t count, struct reader_rules *rules)
{
    const struct reader_file asked = reader_file_of(lookup->module, file->number);
    int code = file_reader_rules(&asked, addresses, count, rules);
    if (code == -EBADF && open_again(file, lookup))
        code = file_reader_rules(&asked, addresses, count, rules);
    return code;
}

/* Gather the file's addresses on the stack that have no known rule, and last the needed address.
 * Most callers' return addresses are among them, and a separate request for each would cost a
 * process switch. */
static size_t gather(const struct unwind_file *file, const struct unwind_lookup *lookup,
                     uint64_t address, uint64_t addresses[READER_RULES_MAX])
{
    const struct callsite_module *module = lookup->module;
    const struct frame_rule *rule;
    size_t count = 0;
    for (size_t i = 0; i < lookup->word_count && count < READER_RULES_MAX - 1; i++) {
        uint64_t pc = frame_strip(lookup->words[i]) - FRAME_CALL_BYTES;
        if (pc < module->start || pc >= module->end)
            continue;
        pc += module->file_offset + module->load_bias - module->start;
        if (pc != address && !rule_cache_find(&file->rules, pc, &rule))
            addresses[count++] = pc;
    }
    addresses[count++] = address;
    return count;
}

static const struct frame_rule *ask(struct unwind_file *file, const struct unwind_lookup *lookup,
                                    uint64_t address)
{
    uint64_t addresses[READER_RULES_MAX];
    struct reader_rules rules;
    const struct frame_rule *kept = NULL;
    size_t count = gather(file, lookup, address, addresses);
    if (ask_reader(file, lookup, addresses, count, &rules) < 0)
        return rule_cache_add(&file->rules, address, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const struct frame_rule *rule = reader_rules_next(&rules, &bytes);
        kept = rule_cache_add(&file->rules, addresses[i], rule, bytes);
    }
    free(rules.bytes);
    return kept;
}

const struct frame_rule *unwind_file_rule(struct unwind_file *file, uint64_t address,
                                          const struct unwind_lookup *lookup)
{
    const struct frame_rule *rule;
    if (rule_cache_find(&file->rules, address, &rule))
        return rule;
    uint64_t began_ns = clock_read_ns(CLOCK_MONOTONIC), began_us = file_reader_cpu_us();
    if (file->spent_ns > LOOKUP_NS_AT_FIRST + (began_ns - file->opened_ns) / LOOKUP_TIME_PART)
        return NULL;
    rule = ask(file, lookup, address);
    /* Time that the reader waited for a processor does not count against the file, up to a
     * limit. */
    uint64_t took_ns = clock_read_ns(CLOCK_MONOTONIC) - began_ns;
    file->spent_ns += took_ns > WAIT_NS_MAX ? took_ns : (file_reader_cpu_us() - began_us) * 1000;
    return rule;
}
