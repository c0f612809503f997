/* SPDX-License-Identifier: Apache-2.0 */
/* Inspect and remove an attached client. The process's memory is untrusted: nothing is read or
 * unmapped that the process could not have unmapped itself. */
#include "recorder/attach/installed_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/inject.h"
#include "recorder/attach/python_heap.h"
#include "wire/call_page.h"

/* Bytes of a stack that are searched for frames of signal handlers. Such a frame is where the
 * handler was called, and handlers use little stack. */
#define STACK_BYTES_MAX (16u << 10)

/* The parameters are in the first bytes of the image's data. */
#define DATA_BYTES_MAX (2u << 20)

/* --- finding a client --- */

static bool params_are_sound(const struct attached_params *params)
{
    return params->magic == ATTACHED_MAGIC && params->version == ATTACHED_VERSION &&
           params->bytes == sizeof(*params) && params->site_count <= ATTACHED_SITES_MAX;
}

static bool find_in_region(struct installed_client *client, const struct process_region *region,
                           const struct tracee *tracee)
{
    const uint64_t magic = ATTACHED_MAGIC;
    size_t bytes = region->end - region->start;
    if (bytes > DATA_BYTES_MAX)
        bytes = DATA_BYTES_MAX;
    uint8_t *data = malloc(bytes);
    if (data == NULL)
        return false;
    size_t got = tracee_read_some(tracee, region->start, data, bytes);
    bool found = false;
    for (size_t at = 0; !found && at + sizeof(client->params) <= got; at += 8) {
        if (memcmp(data + at, &magic, sizeof(magic)) != 0)
            continue;
        memcpy(&client->params, data + at, sizeof(client->params));
        client->params_address = region->start + at;
        found = params_are_sound(&client->params);
    }
    free(data);
    return found;
}

bool installed_client_find(struct installed_client *client, const struct process *process,
                           const struct tracee *tracee)
{
    *client = (struct installed_client){0};
    for (size_t i = 0; i < process->region_count; i++) {
        const struct process_region *region = &process->regions[i];
        if (region->writable && strstr(region->path, "memfd:" ATTACHED_MEMFD_NAME) != NULL &&
            find_in_region(client, region, tracee))
            return true;
    }
    return false;
}

int installed_client_read(struct installed_client *client, const struct tracee *tracee)
{
    struct attached_params params;
    if (tracee_read(tracee, client->params_address, &params, sizeof(params)) < 0 ||
        !params_are_sound(&params))
        return -ENOENT;
    client->params = params;
    return 0;
}

/* --- its patches --- */

static int restore_site(const struct attached_site *site, const struct tracee *tracee)
{
    uint8_t bytes[ATTACHED_SITE_BYTES];
    /* The library of a family may have been closed meanwhile, and another be in its place. */
    bool may_be_gone = site->function >= ATTACHED_FUNCTIONS;
    if (site->length == 0)
        return 0;
    if (site->length > sizeof(bytes))
        return -EFAULT;
    if (tracee_read(tracee, site->address, bytes, site->length) < 0)
        return may_be_gone ? 0 : -EFAULT;
    if (memcmp(bytes, site->original, site->length) == 0)
        return 0;
    if (memcmp(bytes, site->patched, site->length) != 0)
        return may_be_gone ? 0 : -EUCLEAN;
    int code = tracee_write(tracee, site->address, site->original, site->length);
    if (code == 0 && (tracee_read(tracee, site->address, bytes, site->length) < 0 ||
                      memcmp(bytes, site->original, site->length) != 0))
        code = -EIO;
    return code;
}

int installed_client_restore(const struct installed_client *client, struct tracee *tracee)
{
    int first = 0;
    for (uint64_t i = 0; i < client->params.site_count; i++) {
        int code = restore_site(&client->params.sites[i], tracee);
        if (code < 0 && first == 0)
            first = code;
    }
    int code = python_heap_leave(&client->params.python, tracee);
    return first < 0 ? first : code;
}

/* --- threads inside --- */

bool handler_returns_to(const struct tracee *tracee, const struct user_regs_struct *registers,
                        uint64_t start, uint64_t end)
{
    uint64_t words[STACK_BYTES_MAX / 8];
    uint64_t stack = registers_sp(registers) & ~UINT64_C(7);
    size_t got = tracee_read_some(tracee, stack, words, sizeof(words)) / 8;
    for (size_t i = 0; i + PROCESSOR_FRAME_WORDS <= got; i++) {
        if (words[i] >= start && words[i] < end && processor_is_saved_pc(words + i))
            return true;
    }
    return false;
}

/* Move a thread out of a trampoline. Return false if it is elsewhere in the client's code. */
static bool move_out(const struct installed_client *client, struct tracee_thread *thread,
                     struct user_regs_struct *registers)
{
    const struct attached_params *params = &client->params;
    uint64_t pc = registers_pc(registers), call = python_heap_call_begin(&params->python, pc);
    if (call != 0) {
        registers_set_pc(registers, call);
        thread->moved = true;
        return true;
    }
    if (pc - params->image >= params->image_bytes && pc - params->annex >= params->annex_bytes)
        return true;
    for (unsigned i = 0; i < client->trampoline_count; i++) {
        uint64_t to = trampoline_leave(&client->trampolines[i], pc);
        if (to == 0)
            continue;
        registers_set_pc(registers, to);
        thread->moved = true;
        return true;
    }
    return false;
}

/* Return whether the client's record of a thread shows that it will return into the client. */
static bool any_thread_passes(const struct installed_client *client, const struct tracee *tracee)
{
    const struct attached_params *params = &client->params;
    struct ring_control control;
    if (params->threads == 0)
        return false;
    /* A forked child has no ring. */
    uint32_t used = RING_THREADS_MAX;
    if (params->ring != 0 && tracee_read(tracee, params->ring, &control, sizeof(control)) == 0 &&
        control.threads_used < used)
        used = control.threads_used;
    for (uint32_t i = 0; i < used; i++) {
        uint64_t entry;
        struct attached_thread thread;
        if (tracee_read(tracee, params->threads + i * UINT64_C(8), &entry, sizeof(entry)) < 0)
            return false;
        if (entry == 0 || tracee_read(tracee, entry, &thread, sizeof(thread)) < 0)
            continue;
        if ((uint64_t)(uintptr_t)thread.cell == entry + offsetof(struct attached_thread, pass))
            return true;
    }
    return false;
}

bool installed_client_is_busy(struct installed_client *client, const struct tracee *tracee)
{
    return installed_client_read(client, tracee) == 0 &&
           (client->params.inside != 0 || any_thread_passes(client, tracee));
}

/* Return whether a signal handler will return into the call page, to a call that has perhaps read
 * its target. */
static bool handler_is_in_call(const struct attached_params *params, const struct tracee *tracee,
                               const struct user_regs_struct *registers)
{
    uint64_t page = params->python.call_page;
    return page != 0 &&
           handler_returns_to(tracee, registers, page, page + sizeof(struct call_page));
}

bool installed_client_is_unused(const struct installed_client *client, struct tracee *tracee)
{
    const struct attached_params *params = &client->params;
    if (params->inside != 0 || any_thread_passes(client, tracee))
        return false;
    for (size_t i = 0; i < tracee->thread_count; i++) {
        struct user_regs_struct *registers = tracee_registers(&tracee->threads[i]);
        if (registers == NULL)
            continue;
        /* An attacher was killed, and the thread has yet to return through its frame. */
        if (registers_sp(registers) - params->image < params->image_bytes)
            return false;
        if (!move_out(client, &tracee->threads[i], registers) ||
            handler_returns_to(tracee, registers, params->image,
                               params->image + params->image_bytes) ||
            (params->annex_bytes != 0 && handler_returns_to(tracee, registers, params->annex,
                                                            params->annex + params->annex_bytes)) ||
            handler_is_in_call(params, tracee, registers))
            return false;
    }
    return true;
}

/* --- removal --- */

/* Clear a part of the parameters in the process. */
static void installed_client_forget(const struct installed_client *client, struct tracee *tracee,
                                    size_t offset, size_t bytes)
{
    static const uint8_t zeros[64];
    if (bytes <= sizeof(zeros))
        tracee_write(tracee, client->params_address + offset, zeros, bytes);
}

int installed_client_remove(const struct installed_client *client, struct tracee *tracee)
{
    const struct attached_params *params = &client->params;
    const struct tracee_room room = {params->marker + INJECT_SCRATCH_BYTES,
                                     params->image + params->image_bytes};
    int code = tracee_work_begin(tracee, &room);
    if (code < 0)
        return code;
    /* If we are killed, the next attacher continues with the mappings that the parameters still
     * name. Clear each mapping there before it is unmapped: the process may map something else at
     * the address. */
    installed_client_forget(client, tracee, offsetof(struct attached_params, threads),
                            sizeof(params->threads));
    for (unsigned i = 0; i < ATTACHED_MAPPED_MAX; i++) {
        if (params->mapped[i].address == 0)
            continue;
        installed_client_forget(client, tracee, offsetof(struct attached_params, mapped[i]),
                                sizeof(params->mapped[i]));
        inject_unmap(tracee, params->mapped[i].address, params->mapped[i].bytes);
    }
    installed_client_forget(client, tracee, offsetof(struct attached_params, annex_bytes),
                            sizeof(params->annex_bytes));
    inject_unmap(tracee, params->annex, params->annex_bytes);
    tracee_work_move(tracee, NULL);
    /* The ring comes last: it can be found by its name. */
    inject_unmap(tracee, params->image, params->image_bytes);
    inject_unmap(tracee, params->ring, params->ring_bytes);
    return tracee_work_end(tracee);
}
