/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patch allocators under other names (families): those that are found when the profiler attaches,
 * and those of libraries that the process opens later.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/attach/attempt.h"
#include "recorder/attach/families.h"
#include "recorder/attach/inject.h"

/* Time for threads to stop for families that are found later: the process runs well without. */
#define LATER_PATIENCE_MS 100

/* Return whether an earlier function of the family has the same address. */
static bool is_alias(const struct located_family *family, unsigned row)
{
    for (unsigned i = 0; i < row; i++) {
        if (family->functions[i].address == family->functions[row].address)
            return true;
    }
    return false;
}

/* Note a family whose allocations are not all seen. */
static void note_unseen(struct attempt *attempt, const struct located_family *family)
{
    snprintf(attempt->outcome->unseen_family, sizeof(attempt->outcome->unseen_family), "%.23s",
             family->name);
}

/* Return the place of the heap of this name, or for one. FAMILIES_MAX: there is no room. */
static unsigned place_of_heap(const struct attached_families *params, const char *name)
{
    unsigned place = 0;
    while (place < FAMILIES_MAX && params->heaps[place][0] != 0 &&
           strcmp(params->heaps[place], name) != 0)
        place++;
    return place;
}

/* Patch the functions of family `number`. Return whether any can be. */
static bool patch_functions(struct attempt *attempt, const struct located_family *family,
                            unsigned number)
{
    struct entries *entries = &attempt->attach->entries;
    uint64_t *real = &attempt->params->families.real[number * FAMILY_FUNCTIONS];
    bool is_seen = false;
    memset(real, 0, FAMILY_FUNCTIONS * sizeof(*real));
    for (unsigned row = 0; row < FAMILY_FUNCTIONS; row++) {
        unsigned place = number * FAMILY_FUNCTIONS + row;
        const struct entry_function function = {
            .address = family->functions[row].address,
            .size = family->functions[row].size,
            .hook = attempt->params->families.thunks + place * (uint64_t)FAMILY_THUNK_BYTES,
            .number = ATTACHED_FUNCTIONS + place,
        };
        if (function.address == 0 || is_alias(family, row))
            continue;
        const char *why = "it is too far from the profiler's code";
        if (families_callable(family, row) != FAMILY_FUNCTIONS &&
            entries_reach(entries, function.address))
            real[row] = entries_add(entries, &attempt->tracee, &function, &why);
        is_seen |= real[row] != 0;
        if (real[row] != 0)
            continue;
        char name[RING_HEAP_NAME_BYTES + 40];
        snprintf(name, sizeof(name), "%s of %s", families_function_name(family, row), family->name);
        attempt_note_refused(attempt->outcome, name, why);
    }
    /* The client calls some in place of others. */
    for (unsigned row = 0; row < FAMILY_FUNCTIONS; row++) {
        if (real[row] == 0)
            real[row] = family->functions[row].address;
    }
    return is_seen;
}

static void patch_family(struct attempt *attempt, const struct located_family *family)
{
    struct attached_families *params = &attempt->params->families;
    unsigned number = 0;
    while (number < FAMILIES_MAX && params->families[number].heap != 0)
        number++;
    unsigned heap = place_of_heap(params, family->name);
    if (number == FAMILIES_MAX || heap == FAMILIES_MAX ||
        !patch_functions(attempt, family, number)) {
        note_unseen(attempt, family);
        return;
    }
    snprintf(params->heaps[heap], sizeof(params->heaps[heap]), "%s", family->name);
    params->families[number] = (struct attached_family){.heap = 1 + heap, .kind = family->kind};
    attempt->attach->family_objects[number] = family->object;
}

void attempt_patch_families(struct attempt *attempt)
{
    const struct located *located = &attempt->located;
    for (unsigned i = 0; i < located->family_count && i < FAMILIES_MAX; i++)
        patch_family(attempt, &located->families[i]);
    if (located->family_count > FAMILIES_MAX)
        snprintf(attempt->outcome->unseen_family, sizeof(attempt->outcome->unseen_family),
                 "%u more", located->family_count - FAMILIES_MAX);
}

/* --- libraries, when the profiler attaches --- */

int attempt_note_libraries(struct attempt *attempt)
{
    struct attach *attach = attempt->attach;
    struct remote_memory memory = {&attempt->tracee, REMOTE_READS_MAX};
    if (attempt->options == NULL || !attempt->options->wants_families)
        return 0;
    attach->loader = remote_loader(&attempt->process, &memory);
    /* The objects that the search will find: else all would be new at the next look. */
    int code = remote_links_now(attach->loader, &memory, &attach->links, &attach->link_count);
    return code == -ENOMEM ? error_set(attempt->error, code, "out of memory") : 0;
}

void attempt_place_annex(struct attempt *attempt)
{
    const struct located *located = &attempt->located;
    const struct attach *attach = attempt->attach;
    struct entries *entries = &attempt->attach->entries;
    bool wants = attempt->options != NULL && attempt->options->wants_families;
    uint64_t address = attach->link_count > 0 ? attach->links[attach->link_count - 1].base : 0;
    for (unsigned i = 0; i < located->family_count && i < FAMILIES_MAX; i++) {
        if (wants && !entries_reach(entries, located->families[i].functions[0].address))
            address = located->families[i].functions[0].address;
    }
    for (unsigned i = 0; i < ATTACHED_FUNCTIONS; i++) {
        if (located->functions[i].address != 0 &&
            !entries_reach(entries, located->functions[i].address))
            address = located->functions[i].address;
    }
    if (address != 0 && !entries_reach(entries, address) && !attempt->has_no_annex)
        entries->annex = inject_find_near(&attempt->process, address, image_annex_bytes());
}

/* --- families of libraries that are opened later --- */

/* Return whether the client's parameters are there: cheaper than to look for its mapping. */
static bool has_parameters(const struct attach *attach, const struct tracee *tracee)
{
    uint64_t magic;
    return tracee_read(tracee, attach->client.params_address, &magic, sizeof(magic)) == 0 &&
           magic == ATTACHED_MAGIC;
}

/* Return whether the library was looked at. While the profiler attached, one may have come between
 * the list of links and the search. */
static bool attach_families_is_known(const struct attach *attach, const struct remote_link *link)
{
    for (size_t i = 0; i < attach->link_count; i++) {
        if (attach->links[i].base == link->base && attach->links[i].dynamic == link->dynamic)
            return true;
    }
    for (unsigned i = 0; i < FAMILIES_MAX; i++) {
        if (attach->client.params.families.families[i].heap != 0 &&
            attach->family_objects[i] == link->dynamic)
            return true;
    }
    return false;
}

/* Forget a library: it will be looked at again. */
static void forget_link(struct attach *attach, uint64_t dynamic)
{
    size_t kept = 0;
    for (size_t i = 0; i < attach->link_count; i++) {
        if (attach->links[i].dynamic != dynamic)
            attach->links[kept++] = attach->links[i];
    }
    attach->link_count = kept;
}

/* Take out the families of closed libraries: none of their entries is as we wrote it. */
static void drop_closed(struct attach *attach, const struct tracee *tracee)
{
    for (unsigned i = 0; i < FAMILIES_MAX; i++) {
        struct attached_family *family = &attach->client.params.families.families[i];
        uint32_t first = ATTACHED_FUNCTIONS + i * FAMILY_FUNCTIONS;
        if (family->heap == 0 ||
            entries_any_present(&attach->entries, tracee, first, first + FAMILY_FUNCTIONS))
            continue;
        entries_remove(&attach->entries, first, first + FAMILY_FUNCTIONS);
        *family = (struct attached_family){0};
        forget_link(attach, attach->family_objects[i]);
    }
}

/* Find the families of libraries that the last look has not seen. Return 0 or -ENOMEM. */
static int find_later(struct attempt *attempt, struct attach *attach)
{
    struct remote_memory memory = {&attempt->tracee, REMOTE_READS_MAX};
    struct remote_link *links;
    size_t count;
    int code = remote_links(attach->loader, &memory, &links, &count);
    if (code < 0 || count == 0) {
        free(links);
        /* The loader changes its list: next time. */
        return code == -ENOMEM ? error_set(attempt->error, code, "out of memory") : 0;
    }
    bool is_same =
        count == attach->link_count && memcmp(links, attach->links, count * sizeof(*links)) == 0;
    for (size_t i = 0; i < count && !is_same; i++) {
        struct remote_object object;
        if (!attach_families_is_known(attach, &links[i]) &&
            remote_object_of(&memory, &links[i], &object))
            families_locate(&attempt->located, &memory, &object, 1);
    }
    free(attach->links);
    attach->links = links;
    attach->link_count = count;
    return 0;
}

/* Add the families to a process that has the client. It is stopped before and after. */
static int enter_later(struct attempt *attempt)
{
    struct attach *attach = attempt->attach;
    entries_list(&attach->entries, attempt->params);
    int code = entries_enter_later(&attach->entries, &attempt->tracee,
                                   attach->client.params_address, attempt->params);
    if (code == 0)
        return 0;
    if (!entries_are_unchanged(&attach->entries, &attempt->tracee))
        attach->loader = 0; /* look for no more: their places are not free */
    return error_set(attempt->error, code, "cannot write the code of process %d: %s",
                     (int)attach->pid, strerror(-code));
}

/* Add the located families. All is done in a copy, which replaces *attach if it succeeds, or if
 * entries may have stayed patched. */
static int add_later(struct attempt *attempt, struct attach *attach)
{
    struct attach *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        return error_set(attempt->error, -ENOMEM, "out of memory");
    *copy = *attach;
    attempt->attach = copy;
    attempt->params = &copy->client.params;
    attempt_patch_families(attempt);
    int code = 0;
    if (entries_due(&copy->entries) > 0) {
        code = attempt_check_sharers(attempt);
        if (code == 0)
            code = attempt_stop_and_enter(attempt, enter_later);
    }
    copy->client.trampoline_count = copy->entries.count;
    if (code == 0 || copy->loader == 0)
        *attach = *copy;
    free(copy);
    return code;
}

/* Note the located families in the outcome: those that are counted from now on, or none. */
static void note_later(struct attempt *attempt, struct attach *attach, int code)
{
    const struct located *located = &attempt->located;
    struct attach_outcome *outcome = attempt->outcome;
    for (unsigned i = 0; i < located->family_count && i < FAMILIES_MAX; i++) {
        const struct located_family *family = &located->families[i];
        size_t used = strlen(outcome->added);
        bool is_added = false;
        for (unsigned j = 0; j < FAMILIES_MAX; j++)
            is_added |= attach->client.params.families.families[j].heap != 0 &&
                        attach->family_objects[j] == family->object;
        if (code < 0)
            note_unseen(attempt, family);
        else if (is_added)
            snprintf(outcome->added + used, sizeof(outcome->added) - used, "%s%s",
                     used > 0 ? ", " : "", family->name);
        if (code < 0 && outcome->refusal == ATTACH_BUSY)
            forget_link(attach, family->object);
    }
}

int attach_update_families(struct attach *attach, struct attach_outcome *outcome,
                           struct error *error)
{
    const struct attach_options options = {.pid = attach->pid};
    struct attempt attempt = {.options = &options,
                              .process = {.pid = attach->pid},
                              .tracee = {.memory_fd = -1},
                              .sharers = {.pid = attach->pid},
                              .outcome = outcome,
                              .error = error};
    *outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
    int code = 0;
    if (attach->loader != 0 && tracee_pending_of(attach->pid) == 0 &&
        tracee_open(&attempt.tracee, attach->pid) == 0 && attempt_is_same_process(attach) &&
        has_parameters(attach, &attempt.tracee)) {
        attempt.tracee.patience_ms = LATER_PATIENCE_MS;
        drop_closed(attach, &attempt.tracee);
        code = find_later(&attempt, attach);
        if (code == 0 && attempt.located.family_count > 0 &&
            attempt_has_client(attach, &attempt.process)) {
            code = add_later(&attempt, attach);
            note_later(&attempt, attach, code);
        }
    }
    tracee_close(&attempt.tracee);
    memory_sharers_clear(&attempt.sharers);
    process_clear(&attempt.process);
    return code;
}
