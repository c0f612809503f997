/* SPDX-License-Identifier: Apache-2.0 */
/* Walk a copied stack, frame by frame. */
#include "recorder/walk/finish_walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "recorder/ledger/callsite_tree.h"
#include "recorder/reader/file_reader.h"
#include "recorder/reader/frame_rule.h"
#include "recorder/reader/target_file.h"
#include "recorder/walk/frame_step.h"
#include "recorder/walk/rule_cache.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/keyed_hash.h"
#include "util/process_rights.h"

/*
 * Call frame information of files, for walks that a profiled process could not finish from its
 * loaded memory. The file reader parses the files (recorder/reader/file_reader.h). Rules that it
 * returned are cached here.
 *
 * Files are untrusted, and may take only a limited time. All processes of this process's sessions
 * share them. A file stays open while one of them uses it. Use them from one thread only.
 */

/* The context of a look-up. */
struct unwind_lookup {
    pid_t pid;
    struct process_rights *rights;        /* as in struct target_mapping */
    const struct callsite_module *module; /* the one with which the file was taken */
    const uint64_t *words; /* the stack; rules of its other addresses are fetched, too */
    size_t word_count;
};

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

/* Return the file of a process's module, or NULL if it cannot be read, is another file, or has no
 * call frame information. Release it with unwind_file_release(). */
static struct unwind_file *unwind_file_acquire(pid_t pid, struct process_rights *rights,
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

static void unwind_file_release(struct unwind_file *file)
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

/* Return whether the file has more information than its part that is loaded into a process. */
static bool unwind_file_has_more(const struct unwind_file *file)
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
static size_t finish_walk_gather(const struct unwind_file *file, const struct unwind_lookup *lookup,
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

static const struct frame_rule *
finish_walk_ask(struct unwind_file *file, const struct unwind_lookup *lookup, uint64_t address)
{
    uint64_t addresses[READER_RULES_MAX];
    struct reader_rules rules;
    const struct frame_rule *kept = NULL;
    size_t count = finish_walk_gather(file, lookup, address, addresses);
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

/* Return the rule for leaving the frame of the code at an ELF virtual address. NULL: the file has
 * none. The rule belongs to the file, and is valid until the next call. */
static const struct frame_rule *unwind_file_rule(struct unwind_file *file, uint64_t address,
                                                 const struct unwind_lookup *lookup)
{
    const struct frame_rule *rule;
    if (rule_cache_find(&file->rules, address, &rule))
        return rule;
    uint64_t began_ns = clock_read_ns(CLOCK_MONOTONIC), began_us = file_reader_cpu_us();
    if (file->spent_ns > LOOKUP_NS_AT_FIRST + (began_ns - file->opened_ns) / LOOKUP_TIME_PART)
        return NULL;
    rule = finish_walk_ask(file, lookup, address);
    /* Time that the reader waited for a processor does not count against the file, up to a
     * limit. */
    uint64_t took_ns = clock_read_ns(CLOCK_MONOTONIC) - began_ns;
    file->spent_ns += took_ns > WAIT_NS_MAX ? took_ns : (file_reader_cpu_us() - began_us) * 1000;
    return rule;
}

/* Deeper stacks lose their outer frames, as in the client. */
#define FRAMES_MAX 1024u

/* Operations of expressions in one walk. A frame of ordinary code takes two for each register. */
#define STEPS_MAX (FRAMES_MAX * 64u)

/* Limits of the time for opening a process's files: at first, and as a part of the time since then.
 * Those of a program as big as a browser take 50 ms. */
#define OPENING_NS_AT_FIRST UINT64_C(1000000000)
#define OPENING_TIME_PART 10u

/* Values of record_stack.error: the client's enum unwind_stop. */
enum stop {
    STOP_OUTERMOST = 0,
    STOP_TRUNCATED = 1,
    STOP_NO_RULE = 2,
    STOP_BAD_CFI = 3,
    STOP_UNREADABLE = 4,
    STOP_NO_PROGRESS = 5,
    GOES_ON = -1,
};

struct module_file {
    bool was_opened;
    struct unwind_file *file; /* NULL: none */
};

struct walk_finisher {
    pid_t pid;
    struct process_rights rights;
    struct module_file *files; /* by the module's index in the tree */
    size_t file_count, file_capacity;
    uint64_t begun_ns, spent_ns; /* start, and time spent opening files */
    struct record_stack *stack;  /* has room for FRAMES_MAX frames */
};

struct walk {
    struct walk_finisher *finisher;
    const struct callsite_tree *tree;
    struct frame_machine machine;
    uint64_t pc; /* of the next frame, which is not written yet */
    bool interrupted;
    uint64_t *written; /* the frame that the walk is leaving */
    bool cut;          /* the stack continues beyond the copy */
};

struct walk_finisher *walk_finisher_open(pid_t pid)
{
    struct walk_finisher *finisher = calloc(1, sizeof(*finisher));
    if (finisher == NULL)
        return NULL;
    finisher->pid = pid;
    process_rights_read(&finisher->rights, pid);
    finisher->begun_ns = clock_read_ns(CLOCK_MONOTONIC);
    finisher->stack = calloc(1, sizeof(*finisher->stack) + FRAMES_MAX * sizeof(uint64_t));
    if (finisher->stack == NULL) {
        free(finisher);
        return NULL;
    }
    return finisher;
}

void walk_finisher_close(struct walk_finisher *finisher)
{
    if (finisher == NULL)
        return;
    for (size_t i = 0; i < finisher->file_count; i++)
        unwind_file_release(finisher->files[i].file);
    free(finisher->files);
    free(finisher->stack);
    free(finisher);
}

/* Return the unwind file of a module of the tree, or NULL. */
static struct unwind_file *file_of(struct walk_finisher *finisher, const struct callsite_tree *tree,
                                   uint32_t module)
{
    if (module >= tree->module_count)
        return NULL;
    if (module >= finisher->file_count) {
        size_t more = module + 1 - finisher->file_count;
        if (ARRAY_RESERVE(&finisher->files, &finisher->file_capacity, finisher->file_count, more) <
            0)
            return NULL;
        memset(&finisher->files[finisher->file_count], 0, more * sizeof(*finisher->files));
        finisher->file_count += more;
    }
    struct module_file *known = &finisher->files[module];
    if (known->was_opened)
        return known->file;
    uint64_t now_ns = clock_read_ns(CLOCK_MONOTONIC);
    if (finisher->spent_ns >
        OPENING_NS_AT_FIRST + (now_ns - finisher->begun_ns) / OPENING_TIME_PART)
        return NULL;
    known->was_opened = true;
    known->file = unwind_file_acquire(finisher->pid, &finisher->rights, &tree->modules[module]);
    finisher->spent_ns += clock_read_ns(CLOCK_MONOTONIC) - now_ns;
    return known->file;
}

/* Return the rule for leaving the code at pc. NULL: no file has one. */
static const struct frame_rule *rule_at(struct walk *walk, uint64_t pc)
{
    uint32_t index = callsite_tree_module_at(walk->tree, pc);
    struct unwind_file *file = file_of(walk->finisher, walk->tree, index);
    if (file == NULL)
        return NULL;
    const struct callsite_module *module = &walk->tree->modules[index];
    const struct frame_machine *machine = &walk->machine;
    const struct unwind_lookup lookup = {.pid = walk->finisher->pid,
                                         .rights = &walk->finisher->rights,
                                         .module = module,
                                         .words = machine->stack,
                                         .word_count =
                                             (machine->stack_high - machine->stack_low) / 8};
    return unwind_file_rule(file, pc - module->start + module->file_offset + module->load_bias,
                            &lookup);
}

static enum stop stop_of(const struct walk *walk, enum frame_result result)
{
    switch (result) {
    case FRAME_OUTERMOST:
        return STOP_OUTERMOST;
    case FRAME_UNREADABLE:
        return walk->cut && walk->machine.read_beyond ? STOP_TRUNCATED : STOP_UNREADABLE;
    case FRAME_UNKNOWN:
        return STOP_NO_RULE;
    default:
        return STOP_BAD_CFI;
    }
}

/* Follow the frame pointer if it looks valid, as the client does without a rule. */
static enum stop guess(struct walk *walk)
{
    struct frame_machine *machine = &walk->machine;
    uint64_t record = machine->registers[FRAME_POINTER], fp, address;
    if (!(machine->known >> FRAME_POINTER & 1))
        return STOP_NO_RULE;
    if (record == 0)
        return STOP_OUTERMOST;
    if (record < machine->registers[FRAME_STACK_POINTER] || record % 8 != 0 ||
        !frame_read(machine, record, &fp) || !frame_read(machine, record + 8, &address))
        return STOP_NO_RULE;
    address = frame_strip(address);
    if (address == 0)
        return STOP_OUTERMOST;
    if (address >> FRAME_ADDRESS_BITS != 0)
        return STOP_NO_RULE;
    walk->pc = address - FRAME_CALL_BYTES;
    if (callsite_tree_module_at(walk->tree, walk->pc) == CALLSITE_NO_MODULE &&
        (fp <= record || fp % 8 != 0))
        return STOP_NO_RULE;
    machine->registers[FRAME_POINTER] = fp;
    machine->registers[FRAME_STACK_POINTER] = record + 16;
    machine->known = UINT64_C(1) << FRAME_POINTER | UINT64_C(1) << FRAME_STACK_POINTER;
    walk->interrupted = false;
    return GOES_ON;
}

/* Leave a frame that is written already. */
static enum stop leave_frame(struct walk *walk)
{
    bool signal = false, was_interrupted = walk->interrupted;
    uint64_t address, sp = walk->machine.registers[FRAME_STACK_POINTER];
    const struct frame_rule *rule = rule_at(walk, walk->pc);
    if (rule == NULL) {
        /* A return address at the first instruction of a function is not from a call. It was put
         * there by hand, as makecontext does below its first frame. */
        if (!was_interrupted && rule_at(walk, walk->pc + FRAME_CALL_BYTES) != NULL)
            return STOP_OUTERMOST;
        return guess(walk);
    }
    enum frame_result result = frame_step(rule, &walk->machine, &address, &signal);
    if (result != FRAME_FOUND)
        return stop_of(walk, result);
    address = frame_strip(address);
    if (address == 0)
        return STOP_OUTERMOST;
    /* A signal trampoline was not called, so its address is not a return address. */
    if (signal && !was_interrupted)
        *walk->written += FRAME_CALL_BYTES;
    walk->interrupted = signal;
    walk->pc = address - (signal ? 0 : FRAME_CALL_BYTES);
    uint64_t caller_sp = walk->machine.registers[FRAME_STACK_POINTER];
    if (!signal && caller_sp <= sp && !(caller_sp == sp && was_interrupted))
        return STOP_NO_PROGRESS;
    return GOES_ON;
}

/* Return the hash of a stack. Equal stacks have equal hashes, whichever walks produced them. */
static uint64_t hash_of(const struct record_stack *stack)
{
    uint64_t hash = stack->error + ((uint64_t)stack->flags << 16) + 1;
    for (uint32_t i = 0; i < stack->count; i++)
        hash = keyed_hash(hash + stack->frames[i]);
    return hash != 0 ? hash : 1;
}

static enum ring_unwinding answer_of(struct walk *walk)
{
    uint32_t module = callsite_tree_module_at(walk->tree, walk->pc);
    const struct unwind_file *file = file_of(walk->finisher, walk->tree, module);
    return file != NULL && unwind_file_has_more(file) ? RING_UNWINDING_FOUND : RING_UNWINDING_NONE;
}

const struct record_stack *walk_finish(struct walk_finisher *finisher,
                                       const struct callsite_tree *tree,
                                       const struct record_walk *record,
                                       enum ring_unwinding *answer)
{
    const uint64_t *frames = record->words + record->register_count;
    struct record_stack *stack = finisher->stack;
    struct walk walk = {
        .finisher = finisher,
        .tree = tree,
        .machine = {.stack = frames + record->frame_count,
                    .stack_low = record->stack_address,
                    .stack_high = record->stack_address + record->stack_bytes,
                    .steps_left = STEPS_MAX},
        .pc = record->pc,
        .interrupted = record->flags & RECORD_WALK_INTERRUPTED,
        .cut = record->flags & RECORD_WALK_CUT,
    };
    for (unsigned i = 0; i < FRAME_REGISTERS && i < record->register_count; i++) {
        walk.machine.registers[i] = record->words[i];
        walk.machine.known |= record->known & UINT64_C(1) << i;
    }
    stack->count = record->frame_count < FRAMES_MAX ? record->frame_count : FRAMES_MAX;
    memcpy(stack->frames, frames, stack->count * sizeof(*frames));
    *answer = answer_of(&walk);

    enum stop stop = GOES_ON;
    while (stop == GOES_ON) {
        if (stack->count == FRAMES_MAX) {
            stop = STOP_TRUNCATED;
            break;
        }
        walk.written = &stack->frames[stack->count++];
        *walk.written = walk.pc;
        stop = leave_frame(&walk);
    }
    stack->flags = stop == STOP_TRUNCATED ? RECORD_STACK_TRUNCATED : 0;
    stack->error = (uint16_t)(stop == STOP_TRUNCATED ? STOP_OUTERMOST : stop);
    stack->hash = hash_of(stack);
    return stack;
}
