/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collect names from the string tables, whether or not a frame uses them: frames of other profiles
 * in the same trace have names there, too.
 */
#include "profile/deobfuscate/trace_names.h"

#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/java_frame.h"
#include "trace/read/trace_reader.h"
#include "util/array.h"

#define HEAP_GRAPH_FIELD 56u /* of TracePacket; only its presence matters */

static const char *trace_names_text_of(struct proto_span span)
{
    return (const char *)span.at;
}

static int add_name(struct trace_names *names, struct proto_span span)
{
    struct java_text class_name, method;
    bool added;
    if (span.at == NULL ||
        !java_frame_split(trace_names_text_of(span), proto_length(span), &class_name, &method))
        return 0;
    size_t length = class_name.length + 1 + method.length;
    uint64_t id = intern_bytes(&names->ids, class_name.at, length, &added);
    if (id == 0)
        return -ENOMEM;
    if (!added)
        return 0;
    if (intern_bytes(&names->classes, class_name.at, class_name.length, &added) == 0 ||
        ARRAY_RESERVE(&names->items, &names->capacity, names->count, 1) < 0)
        return -ENOMEM;
    char *text = strndup(class_name.at, length);
    if (text == NULL)
        return -ENOMEM;
    names->items[names->count++] = (struct trace_name){text, class_name.length};
    return 0;
}

int trace_names_add_frame(struct trace_names *names, const char *name)
{
    const uint8_t *at = (const uint8_t *)name;
    return add_name(names, (struct proto_span){at, at + strlen(name)});
}

static int add_package(struct trace_names *names, struct java_text package)
{
    bool added;
    uint64_t id = intern_bytes(&names->package_ids, package.at, package.length, &added);
    if (id == 0)
        return -ENOMEM;
    if (!added || package.length == 0)
        return 0;
    if (ARRAY_RESERVE(&names->packages, &names->package_capacity, names->package_count, 1) < 0)
        return -ENOMEM;
    char *text = strndup(package.at, package.length);
    if (text == NULL)
        return -ENOMEM;
    names->packages[names->package_count++] = text;
    return 0;
}

/* Add the package of a path component "com.example.app-random==", as java_package_of_path() does.
 * An accidental match does no harm. */
static int add_path(struct trace_names *names, struct proto_span span)
{
    const char *text = trace_names_text_of(span);
    const char *minus = span.at == NULL ? NULL : memchr(text, '-', proto_length(span));
    if (minus == NULL || memchr(text, '.', (size_t)(minus - text)) == NULL)
        return 0;
    const char *slash = memrchr(text, '/', (size_t)(minus - text));
    const char *begin = slash == NULL ? text : slash + 1;
    return add_package(names, (struct java_text){begin, (size_t)(minus - begin)});
}

/* --- packets --- */

static struct proto_span bytes_field(struct proto_span message, uint32_t number)
{
    struct proto_span found = {0};
    struct proto_field field;
    while (proto_next(&message, &field) > 0) {
        if (field.number == number && field.type == PROTO_BYTES)
            found = field.span;
    }
    return found;
}

static int take_interned(struct trace_names *names, struct proto_span data)
{
    struct proto_field field;
    int result = 0;
    while (result == 0 && proto_next(&data, &field) > 0) {
        if (field.number == PB_INTERNED_DATA_FUNCTION_NAMES)
            result = add_name(names, bytes_field(field.span, PB_INTERNED_STRING_STR));
        else if (field.number == PB_INTERNED_DATA_MAPPING_PATHS)
            result = add_path(names, bytes_field(field.span, PB_INTERNED_STRING_STR));
    }
    return result;
}

/* Read the string table of Android 10. */
static int take_profile(struct trace_names *names, struct proto_span packet)
{
    struct proto_field field;
    int result = 0;
    while (result == 0 && proto_next(&packet, &field) > 0) {
        if (field.number != PB_PROFILE_PACKET_STRINGS)
            continue;
        struct proto_span string = bytes_field(field.span, PB_INTERNED_STRING_STR);
        result = add_name(names, string);
        if (result == 0)
            result = add_path(names, string);
    }
    return result;
}

/* Read the names of code that was compiled at run time. */
static int take_symbols(struct trace_names *names, struct proto_span module)
{
    struct proto_field field, line;
    int result = 0;
    while (result == 0 && proto_next(&module, &field) > 0) {
        if (field.number != PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS)
            continue;
        while (result == 0 && proto_next(&field.span, &line) > 0) {
            if (line.number == PB_ADDRESS_SYMBOLS_LINES)
                result = add_name(names, bytes_field(line.span, PB_LINE_FUNCTION_NAME));
        }
    }
    return result;
}

static int take_tree(struct trace_names *names, struct proto_span tree)
{
    struct proto_field field, inner;
    int result = 0;
    while (result == 0 && proto_next(&tree, &field) > 0) {
        if (field.number != PB_PROCESS_TREE_PROCESSES)
            continue;
        while (proto_next(&field.span, &inner) > 0) {
            if (inner.number != PB_PROCESS_TREE_PROCESS_CMDLINE || inner.span.at == NULL)
                continue;
            result = add_package(names, java_package_of_command(trace_names_text_of(inner.span),
                                                                proto_length(inner.span)));
            break; /* the first argument */
        }
    }
    return result;
}

static int take_packages(struct trace_names *names, struct proto_span list)
{
    struct proto_field field;
    int result = 0;
    while (result == 0 && proto_next(&list, &field) > 0) {
        if (field.number != PB_PACKAGES_LIST_PACKAGES)
            continue;
        struct proto_span name = bytes_field(field.span, PB_PACKAGES_LIST_PACKAGE_INFO_NAME);
        if (name.at != NULL)
            result = add_package(names,
                                 (struct java_text){trace_names_text_of(name), proto_length(name)});
    }
    return result;
}

int trace_names_add(struct trace_names *names, struct proto_span packet)
{
    struct proto_field field;
    int result = 0;
    while (result == 0 && proto_next(&packet, &field) > 0) {
        switch (field.type == PROTO_BYTES ? field.number : 0) {
        case PB_TRACE_PACKET_INTERNED_DATA:
            result = take_interned(names, field.span);
            break;
        case PB_TRACE_PACKET_PROFILE_PACKET:
            result = take_profile(names, field.span);
            break;
        case PB_TRACE_PACKET_MODULE_SYMBOLS:
            result = take_symbols(names, field.span);
            break;
        case PB_TRACE_PACKET_PROCESS_TREE:
            result = take_tree(names, field.span);
            break;
        case PB_TRACE_PACKET_PACKAGES_LIST:
            result = take_packages(names, field.span);
            break;
        case HEAP_GRAPH_FIELD:
            names->has_heap_graph = true;
            break;
        }
    }
    return result;
}

int trace_names_read(struct trace_names *names, const char *path,
                     void (*tell)(void *context, uint64_t bytes), void *context,
                     struct error *error)
{
    struct error problem = {0};
    struct proto_span packet;
    int status, result = 0;
    bool any = false;
    *names = (struct trace_names){0};
    struct trace_reader *reader = trace_reader_open(path, error);
    if (reader == NULL)
        return error->code;
    while (result == 0 && (status = trace_reader_next(reader, &packet, &problem)) != 0) {
        if (status < 0 && !any) {
            result = error_set(error, status, "%s", problem.message);
            break;
        }
        if (status < 0) {
            memcpy(names->warning, problem.message, sizeof(problem.message));
            break;
        }
        any = true;
        if (tell != NULL)
            tell(context, trace_reader_offset(reader));
        if (trace_names_add(names, packet) < 0)
            result = error_set(error, -ENOMEM, "no memory for the names of the trace's frames");
    }
    trace_reader_close(reader);
    return result;
}

void trace_names_clear(struct trace_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i].text);
    for (size_t i = 0; i < names->package_count; i++)
        free(names->packages[i]);
    free(names->items);
    free(names->packages);
    intern_free(&names->ids);
    intern_free(&names->classes);
    intern_free(&names->package_ids);
    *names = (struct trace_names){0};
}
