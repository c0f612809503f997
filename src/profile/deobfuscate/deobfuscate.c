/* SPDX-License-Identifier: Apache-2.0 */
/* Select maps, and write the packets of each. */
#include "profile/deobfuscate/deobfuscate.h"

#include <stdlib.h>
#include <string.h>

#include "profile/deobfuscate/obfuscated_classes.h"
#include "profile/deobfuscate/proguard_map.h"
#include "util/array.h"

/* --- which maps --- */

static int add_map(struct deobfuscate_maps *maps, const char *package, size_t package_length,
                   const char *path, size_t path_length, struct error *error)
{
    struct deobfuscate_map map = {
        .package = strndup(package, package_length),
        .path = strndup(path, path_length),
    };
    if (map.package == NULL || map.path == NULL ||
        ARRAY_ADD(&maps->items, &maps->count, &maps->capacity, map) < 0) {
        free(map.package);
        free(map.path);
        return error_set(error, -ENOMEM, "no memory for the list of ProGuard maps");
    }
    return 0;
}

int deobfuscate_maps_add(struct deobfuscate_maps *maps, const char *argument, struct error *error)
{
    const char *equals = strchr(argument, '=');
    /* Package names contain no slash: then the whole argument is a path. */
    if (equals != NULL && memchr(argument, '/', (size_t)(equals - argument)) != NULL)
        equals = NULL;
    const char *path = equals == NULL ? argument : equals + 1;
    if (*path == '\0')
        return error_set(error, -EINVAL, "'%s' names no ProGuard map; it reads package=FILE",
                         argument);
    return add_map(maps, argument, equals == NULL ? 0 : (size_t)(equals - argument), path,
                   strlen(path), error);
}

int deobfuscate_maps_add_list(struct deobfuscate_maps *maps, const char *list, struct error *error)
{
    int result = 0;
    while (list != NULL && *list != '\0' && result == 0) {
        size_t length = strcspn(list, ":");
        const char *equals = memchr(list, '=', length);
        if (length > 0 && (equals == NULL || equals + 1 == list + length))
            return error_set(
                error, -EINVAL,
                "PERFETTO_PROGUARD_MAP: '%.*s' is not package=FILE; separate several of "
                "them by colons",
                (int)(length < 200 ? length : 200), list);
        if (length > 0)
            result = add_map(maps, list, (size_t)(equals - list), equals + 1,
                             (size_t)(list + length - equals - 1), error);
        list += length + (list[length] == ':');
    }
    return result;
}

void deobfuscate_maps_clear(struct deobfuscate_maps *maps)
{
    for (size_t i = 0; i < maps->count; i++) {
        free(maps->items[i].package);
        free(maps->items[i].path);
    }
    free(maps->items);
    *maps = (struct deobfuscate_maps){0};
}

/* --- one map --- */

struct job {
    const struct trace_names *trace; /* NULL: unknown */
    const struct trace_names *names; /* the wanted names; NULL: all */
    struct obfuscated_classes classes;
    const struct deobfuscate_maps *maps;
    struct deobfuscate_result *result;
    bool class_wanted;
    struct proguard_text class_name; /* obfuscated */
    char class_text[PROGUARD_NAME_BYTES_MAX + 1 + PROGUARD_NAME_BYTES_MAX];
};

static bool is_name_of_trace(struct job *job, struct proguard_text method)
{
    size_t length = job->class_name.length;
    memcpy(job->class_text + length + 1, method.at, method.length);
    return intern_find(&job->names->ids, job->class_text, length + 1 + method.length) != 0;
}

static int take_class(struct job *job, const struct proguard_entry *entry)
{
    const struct trace_names *names = job->names;
    job->result->classes++;
    job->class_wanted = names == NULL || intern_find(&names->classes, entry->obfuscated.at,
                                                     entry->obfuscated.length) != 0;
    if (!job->class_wanted)
        return 0;
    job->class_name = (struct proguard_text){job->class_text, entry->obfuscated.length};
    memcpy(job->class_text, entry->obfuscated.at, entry->obfuscated.length);
    job->class_text[entry->obfuscated.length] = '.';
    return obfuscated_classes_add(&job->classes, entry);
}

static int deobfuscate_take_entry(struct job *job, const struct proguard_entry *entry)
{
    if (entry->kind == PROGUARD_CLASS)
        return take_class(job, entry);
    bool field = entry->kind == PROGUARD_FIELD;
    job->result->fields += field;
    job->result->methods += !field;
    if (!job->class_wanted)
        return 0;
    if (job->names != NULL && (field || !is_name_of_trace(job, entry->obfuscated)))
        return 0;
    return obfuscated_classes_add(&job->classes, entry);
}

/* Add the methods that the map omits because they kept their names, although their classes did not.
 */
static int take_kept(struct job *job)
{
    const struct trace_names *names = job->trace;
    for (size_t i = 0; names != NULL && i < names->count; i++) {
        const struct trace_name *name = &names->items[i];
        int added = obfuscated_classes_add_kept(&job->classes, name->text, name->class_length,
                                                name->text + name->class_length + 1);
        if (added == -ENOMEM)
            return -ENOMEM;
        job->result->names += added >= 0;
        job->result->unlisted += added > 0;
    }
    return 0;
}

static int read_map(struct job *job, const char *path, struct error *error)
{
    struct proguard_entry entry;
    struct proguard_map *map = proguard_map_open(path, error);
    if (map == NULL)
        return error->code;
    int status;
    while ((status = proguard_map_next(map, &entry, error)) > 0) {
        status = deobfuscate_take_entry(job, &entry);
        if (status < 0)
            break;
        if (job->maps->tell != NULL)
            job->maps->tell(job->maps->tell_context, path, proguard_map_lines(map));
    }
    struct deobfuscate_result *result = job->result;
    result->lines = proguard_map_lines(map);
    result->unknown_lines = proguard_map_unknown_lines(map);
    if (status == 0 && result->classes == 0 && result->unknown_lines > 0)
        status = error_set(error, -EINVAL,
                           "%s: not a ProGuard or R8 map: none of its %zu lines names a class",
                           path, result->lines);
    else if (status == -ENOMEM)
        error_set(error, status, "%s: no memory for the names that the trace needs", path);
    proguard_map_close(map);
    return status;
}

static bool is_package_of_trace(const struct trace_names *names, const char *package)
{
    return names == NULL || *package == '\0' ||
           intern_find(&names->package_ids, package, strlen(package)) != 0;
}

static int write_map(const struct deobfuscate_maps *maps, const struct deobfuscate_map *map,
                     const struct trace_names *names, int fd, struct deobfuscate_result *result,
                     struct error *error)
{
    struct job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return error_set(error, -ENOMEM, "no memory to read %s", map->path);
    job->maps = maps;
    job->trace = names;
    job->names = names == NULL || names->has_heap_graph ? NULL : names;
    job->result = result;
    int status = read_map(job, map->path, error);
    if (status == 0 && take_kept(job) < 0)
        status = error_set(error, -ENOMEM, "%s: no memory for the names that the trace needs",
                           map->path);
    if (status == 0) {
        status = obfuscated_classes_write(&job->classes, map->package, fd);
        if (status < 0)
            error_set(error, status, "the packets cannot be written: %s", strerror(-status));
    }
    result->written_classes = job->classes.written_classes;
    result->written_methods = job->classes.written_methods;
    result->written_fields = job->classes.written_fields;
    result->done = status == 0;
    obfuscated_classes_clear(&job->classes);
    free(job);
    return status;
}

int deobfuscate_write(const struct deobfuscate_maps *maps, const struct trace_names *names, int fd,
                      struct deobfuscate_report *report, struct error *error)
{
    int status = 0;
    *report = (struct deobfuscate_report){.trace_names = names == NULL ? 0 : names->count};
    report->results = calloc(maps->count + 1, sizeof(*report->results));
    if (report->results == NULL)
        return error_set(error, -ENOMEM, "no memory for the report on ProGuard maps");
    report->count = maps->count;
    for (size_t i = 0; i < maps->count; i++) {
        report->results[i].package = maps->items[i].package;
        report->results[i].path = maps->items[i].path;
        report->results[i].compared = names != NULL;
        report->results[i].package_in_trace = is_package_of_trace(names, maps->items[i].package);
    }
    for (size_t i = 0; i < maps->count && status == 0; i++)
        status = write_map(maps, &maps->items[i], names, fd, &report->results[i], error);
    return status;
}

void deobfuscate_report_clear(struct deobfuscate_report *report)
{
    free(report->results);
    *report = (struct deobfuscate_report){0};
}

const char *deobfuscate_remedy(const struct deobfuscate_result *result)
{
    if (result->classes == 0)
        return "it names no class: give the mapping.txt of the build that ran";
    if (!result->package_in_trace)
        return "no process and no file of the trace is of this package: correct the name before "
               "the '=', or give the map without one, for all packages";
    if (result->compared && result->names == 0)
        return "no frame of the trace is of a class in it: give the mapping.txt of the build that "
               "ran";
    return NULL;
}
