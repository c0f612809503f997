/* SPDX-License-Identifier: Apache-2.0 */
/* Write frames and stacks, whole or by numbers. */
#include "tools/cli/report/report_json_stacks.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/xmalloc.h"

/* Limit of the cache: many frames can share one long name. Other texts are made again each time. */
#define KEPT_BYTES_MAX ((size_t)32 << 20)

static void begin_numbers(struct json_numbers *numbers, size_t items)
{
    numbers->number = xcalloc(items + 1, sizeof(*numbers->number));
    numbers->order = xcalloc(items + 1, sizeof(*numbers->order));
}

static void end_numbers(struct json_numbers *numbers)
{
    free(numbers->number);
    free(numbers->order);
}

/* Return the item's number, from 0. */
static uint32_t number_of(struct json_numbers *numbers, uint32_t item)
{
    if (numbers->number[item] == 0) {
        numbers->order[numbers->count++] = item;
        numbers->number[item] = (uint32_t)numbers->count;
    }
    return numbers->number[item] - 1;
}

void json_stacks_begin(struct json_stacks *stacks, const struct profile *profile, bool compact)
{
    *stacks = (struct json_stacks){.profile = profile, .compact = compact};
    if (compact) {
        begin_numbers(&stacks->frames, profile->frame_count);
        begin_numbers(&stacks->nodes, profile->callsite_count);
        return;
    }
    stacks->texts = xcalloc(profile->frame_count + 1, sizeof(*stacks->texts));
    stacks->lengths = xcalloc(profile->frame_count + 1, sizeof(*stacks->lengths));
}

void json_stacks_end(struct json_stacks *stacks)
{
    for (size_t i = 0; stacks->texts != NULL && i < stacks->profile->frame_count; i++)
        free(stacks->texts[i]);
    free(stacks->texts);
    free(stacks->lengths);
    end_numbers(&stacks->frames);
    end_numbers(&stacks->nodes);
}

static void print_frame(struct json_writer *json, const struct profile *profile,
                        const struct profile_frame *frame)
{
    const char *kind = profile_frame_kind(frame);
    json_object(json, NULL);
    json_string(json, "name", frame->name);
    json_string(json, "linkage_name", frame->linkage_name);
    if (*frame->obfuscated_name != '\0')
        json_string(json, "obfuscated_name", frame->obfuscated_name);
    json_string(json, "mapping",
                frame->mapping != PROFILE_NONE ? profile->mappings[frame->mapping].path : "");
    json_unsigned(json, "rel_pc", frame->rel_pc);
    if (*frame->name == '\0' && frame->function_start != frame->rel_pc)
        json_unsigned(json, "function_start", frame->function_start);
    if (*kind != '\0')
        json_string(json, "kind", kind);
    if (frame->source_file[0] != '\0') {
        json_string(json, "file", frame->source_file);
        json_unsigned(json, "line", frame->line);
    }
    json_end_object(json);
}

static void print_frame_once(struct json_writer *json, struct json_stacks *stacks, uint32_t index)
{
    const struct profile *profile = stacks->profile;
    if (stacks->texts[index] == NULL && stacks->kept_bytes < KEPT_BYTES_MAX) {
        FILE *text = xopen_memstream(&stacks->texts[index], &stacks->lengths[index]);
        struct json_writer one = json_begin(text);
        print_frame(&one, profile, &profile->frames[index]);
        xclose_memstream(text);
        stacks->kept_bytes += stacks->lengths[index];
    }
    if (stacks->texts[index] != NULL)
        json_raw(json, NULL, stacks->texts[index], stacks->lengths[index]);
    else
        print_frame(json, profile, &profile->frames[index]);
}

void json_stacks_print(struct json_stacks *stacks, struct json_writer *json, uint32_t callsite)
{
    if (stacks->compact && callsite == PROFILE_NONE) {
        json_null(json, "stack");
        return;
    }
    if (stacks->compact) {
        json_unsigned(json, "stack", number_of(&stacks->nodes, callsite));
        return;
    }
    json_array(json, "frames");
    while (callsite != PROFILE_NONE) {
        const struct profile_callsite *node = &stacks->profile->callsites[callsite];
        print_frame_once(json, stacks, node->frame);
        callsite = node->parent;
    }
    json_end_array(json);
}

void json_stacks_print_lists(struct json_stacks *stacks, struct json_writer *json)
{
    const struct profile *profile = stacks->profile;
    json_array(json, "stacks");
    /* Callers get their numbers here, so the list grows meanwhile. Each node is in it once. */
    for (size_t i = 0; i < stacks->nodes.count; i++) {
        const struct profile_callsite *node = &profile->callsites[stacks->nodes.order[i]];
        json_array(json, NULL);
        json_unsigned(json, NULL, number_of(&stacks->frames, node->frame));
        if (node->parent != PROFILE_NONE)
            json_unsigned(json, NULL, number_of(&stacks->nodes, node->parent));
        json_end_array(json);
    }
    json_end_array(json);
    json_array(json, "frames");
    for (size_t i = 0; i < stacks->frames.count; i++) {
        json_line(json);
        print_frame(json, profile, &profile->frames[stacks->frames.order[i]]);
    }
    json_end_array(json);
}
