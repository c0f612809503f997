/* SPDX-License-Identifier: Apache-2.0 */
/* Find the unknown addresses, let a child name them, and append ModuleSymbols packets. */
#include "production/continuous/names.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pb_field_numbers.h"
#include "profile/symbolize/symbol_cache.h"
#include "profile/symbolize/symbolize.h"
#include "trace/proto_cursor.h"
#include "trace/read/trace_reader.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/close_descriptors.h"
#include "util/kernel_calls.h"
#include "util/process_files.h"
#include "util/process_title.h"
#include "util/read_only_sandbox.h"
#include "util/write_all.h"

/* With more answers all are forgotten, and found again when they are needed. */
#define LINES_BYTES_MAX ((size_t)24 << 20)
#define ANSWERS_MAX 400000u

#define PACKET_BYTES 200000u
#define CHILD_NICE 19
#define CHILD_CPU_S 120u
#define STUCK_MS 20000u

void names_init(struct names *names, bool asks_servers)
{
    *names = (struct names){.asks_servers = asks_servers, .pidfd = -1, .found = -1};
}

static void forget_answers(struct names *names)
{
    id_map_free(&names->ids);
    names->ids = (struct id_map){0};
    names->count = 0;
    names->lines.length = 0;
}

static void end_search(struct names *names)
{
    trace_addresses_clear(&names->addresses);
    names->addresses = (struct trace_addresses){0};
    if (names->pidfd >= 0)
        close(names->pidfd);
    if (names->found >= 0)
        close(names->found);
    names->pidfd = names->found = -1;
    names->child = 0;
}

void names_clear(struct names *names)
{
    if (names->child > 0) {
        kill(names->child, SIGKILL);
        waitpid(names->child, NULL, WNOHANG); /* a file may hold it for ever */
    }
    end_search(names);
    forget_answers(names);
    free(names->answers);
    proto_buffer_free(&names->lines);
}

/* --- answers --- */

static uint64_t key_of(const struct trace_module *module, uint64_t address)
{
    uint64_t hash = module->build_id_length > 0
                        ? XXH3_64bits(module->build_id, module->build_id_length)
                        : XXH3_64bits(module->path, strlen(module->path));
    return XXH3_64bits_withSeed(&address, sizeof(address), hash);
}

static const struct name_answer *names_find(const struct names *names, uint64_t key)
{
    uint32_t index = id_map_find(&names->ids, key);
    return index != ID_MAP_NONE ? &names->answers[index] : NULL;
}

static int keep_answer(struct names *names, uint64_t key, struct proto_span lines)
{
    size_t length = proto_length(lines);
    if (names_find(names, key) != NULL)
        return 0;
    struct name_answer answer = {names->lines.length, (uint32_t)length};
    if (length > 0)
        proto_put_raw(&names->lines, lines.at, length);
    if (names->lines.failed ||
        ARRAY_ADD(&names->answers, &names->count, &names->capacity, answer) < 0)
        return -ENOMEM;
    return id_map_set(&names->ids, key, (uint32_t)names->count - 1);
}

/* --- the child --- */

/* Leave only the addresses without an answer. Return their number. */
static size_t keep_unknown(const struct names *names, struct trace_addresses *addresses)
{
    size_t unknown = 0;
    for (size_t i = 0; i < addresses->count; i++) {
        struct trace_module *module = &addresses->modules[i];
        size_t kept = 0;
        for (size_t j = 0; j < module->count; j++) {
            if (names_find(names, key_of(module, module->addresses[j])) == NULL)
                module->addresses[kept++] = module->addresses[j];
        }
        module->count = kept;
        unknown += kept;
    }
    return unknown;
}

/* Give up what reading files does not need, above all the connections to the daemon and to stores:
 * damage in a file may be meant. Servers of debug information need the network. */
static void confine_child(const struct names *names)
{
    int found = names->found;
    if (found > STDERR_FILENO + 1)
        close_descriptors(STDERR_FILENO + 1, (unsigned)found - 1);
    close_descriptors((unsigned)found + 1, ~0U);
    if (!names->asks_servers)
        read_only_sandbox_enter_for_processes(symbol_cache_directory());
}

static _Noreturn void run_child(struct names *names)
{
    struct symbol_finder_options options = {.automatic = true, .offline = !names->asks_servers};
    struct symbolize_options how = {.no_cache = false};
    struct symbolize_report report;
    struct error error;
    const struct rlimit cpu = {CHILD_CPU_S, CHILD_CPU_S};
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    process_title_set("heapd-symbols");
    setpriority(PRIO_PROCESS, 0, CHILD_NICE);
    setrlimit(RLIMIT_CPU, &cpu);
    confine_child(names);
    struct symbol_finder *finder = symbol_finder_open(&options, &error, &error);
    if (finder == NULL || keep_unknown(names, &names->addresses) == 0)
        _exit(1);
    int code = symbolize_addresses(&how, &names->addresses, finder, names->found, &report, &error);
    _exit(code < 0);
}

static int start_child(struct names *names, struct error *error)
{
    names->found = memfd_create("heapprofd-names", MFD_CLOEXEC);
    if (names->found < 0)
        return error_set(error, -errno, "no memory for names: %s", strerror(errno));
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue; /* earlier ones that were given up */
    names->cpu_ticks = 0;
    names->moved_ms = clock_read_ms(CLOCK_MONOTONIC);
    names->child = fork();
    if (names->child == 0)
        run_child(names);
    if (names->child < 0) {
        names->child = 0;
        return error_set(error, -errno, "cannot start a process that finds names: %s",
                         strerror(errno));
    }
    names->pidfd = kernel_pidfd_open(names->child, 0);
    return 1;
}

int names_begin(struct names *names, int fragment, struct error *error)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fragment);
    end_search(names);
    int code = trace_addresses_read(&names->addresses, path, error);
    if (code < 0)
        return code;
    if (names->count > ANSWERS_MAX || names->lines.length > LINES_BYTES_MAX)
        forget_answers(names);
    for (size_t i = 0; i < names->addresses.count; i++) {
        const struct trace_module *module = &names->addresses.modules[i];
        for (size_t j = 0; j < module->count; j++) {
            if (names_find(names, key_of(module, module->addresses[j])) == NULL)
                return start_child(names, error);
        }
    }
    return 0;
}

bool names_is_stuck(struct names *names)
{
    struct process_stat stat;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    /* Servers have their own time limits. */
    if (names->child <= 0 || names->asks_servers || !process_stat_read(names->child, &stat))
        return false;
    if (stat.cpu_ticks != names->cpu_ticks || stat.state == 'R') {
        names->cpu_ticks = stat.cpu_ticks;
        names->moved_ms = now_ms;
    }
    return now_ms - names->moved_ms >= STUCK_MS;
}

/* --- results --- */

/* Keep the answers of a ModuleSymbols message. */
static int take_module(struct names *names, struct proto_span message)
{
    struct trace_module module = {.path = (char *)""};
    struct proto_field field, inner;
    char path[4096];
    int code = 0;
    while (code == 0 && proto_next(&message, &field) > 0) {
        size_t length = proto_length(field.span);
        if (field.type != PROTO_BYTES)
            continue;
        if (field.number == PB_MODULE_SYMBOLS_PATH && length < sizeof(path)) {
            memcpy(path, field.span.at, length);
            path[length] = '\0';
            module.path = path;
        } else if (field.number == PB_MODULE_SYMBOLS_BUILD_ID &&
                   length <= sizeof(module.build_id)) {
            memcpy(module.build_id, field.span.at, length);
            module.build_id_length = length;
        } else if (field.number == PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS) {
            struct proto_span entry = field.span;
            uint64_t address = 0;
            /* The address comes first; the rest are its lines. */
            if (proto_next(&entry, &inner) > 0 && inner.number == PB_ADDRESS_SYMBOLS_ADDRESS)
                address = inner.value;
            code = keep_answer(names, key_of(&module, address), entry);
        }
    }
    return code;
}

/* Take what the child found, up to the end or to damage. */
static int take_found(struct names *names)
{
    char path[32];
    struct error error;
    struct proto_span packet;
    struct proto_field field;
    int code = 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", names->found);
    struct trace_reader *reader = trace_reader_open(path, &error);
    while (reader != NULL && code == 0 && trace_reader_next(reader, &packet, &error) > 0) {
        while (code == 0 && proto_next(&packet, &field) > 0) {
            if (field.number == PB_TRACE_PACKET_MODULE_SYMBOLS && field.type == PROTO_BYTES)
                code = take_module(names, field.span);
        }
    }
    trace_reader_close(reader);
    return code;
}

/* Write a packet with the known names of a module from address *next on. */
static int append_packet(const struct names *names, const struct trace_module *module, size_t *next,
                         int fragment)
{
    struct proto_buffer body = {0}, entry = {0}, packet = {0}, whole = {0};
    bool any = false;
    proto_put_string(&body, PB_MODULE_SYMBOLS_PATH, module->path);
    proto_put_bytes(&body, PB_MODULE_SYMBOLS_BUILD_ID, module->build_id, module->build_id_length);
    for (; *next < module->count && body.length < PACKET_BYTES; (*next)++) {
        const struct name_answer *answer =
            names_find(names, key_of(module, module->addresses[*next]));
        if (answer == NULL || answer->length == 0)
            continue;
        entry.length = 0;
        proto_put_uint(&entry, PB_ADDRESS_SYMBOLS_ADDRESS, module->addresses[*next]);
        proto_put_raw(&entry, names->lines.bytes + answer->offset, answer->length);
        proto_put_bytes(&body, PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS, entry.bytes, entry.length);
        any = true;
    }
    proto_put_bytes(&packet, PB_TRACE_PACKET_MODULE_SYMBOLS, body.bytes, body.length);
    proto_put_bytes(&whole, PB_TRACE_PACKET, packet.bytes, packet.length);
    bool failed = body.failed || entry.failed || packet.failed || whole.failed;
    int code = failed ? -ENOMEM : any ? write_all(fragment, whole.bytes, whole.length) : 0;
    proto_buffer_free(&body);
    proto_buffer_free(&entry);
    proto_buffer_free(&packet);
    proto_buffer_free(&whole);
    return code;
}

int names_finish(struct names *names, int fragment, struct error *error)
{
    int code = 0;
    if (names->child > 0) {
        if (waitpid(names->child, NULL, WNOHANG) == 0)
            kill(names->child, SIGKILL); /* start_child() takes its end, if there is one */
        names->child = 0;
        code = take_found(names);
    }
    lseek(fragment, 0, SEEK_END);
    for (size_t i = 0; i < names->addresses.count && code == 0; i++) {
        const struct trace_module *module = &names->addresses.modules[i];
        for (size_t j = 0; j < module->count && code == 0; j++)
            code = keep_answer(names, key_of(module, module->addresses[j]), (struct proto_span){0});
        for (size_t next = 0; next < module->count && code == 0;)
            code = append_packet(names, module, &next, fragment);
    }
    end_search(names);
    return code < 0 ? error_set(error, code, "names cannot be kept: %s", strerror(-code)) : 0;
}
