/* The names of pprof files: readable, safe, and different for each dump of a profile. See pprof.h.
 */
#include <stdio.h>
#include <string.h>

#include "export/pprof.h"

/* Names come from the trace, and may be titles: what could leave the directory, or would have to be
 * quoted for a shell, is replaced. */
static char file_name_character(char character)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return character == '\0' || strchr(safe, character) != NULL ? character : '_';
}

/* As much of a heap's name as a file's name holds. */
#define HEAP_NAME_BYTES 64

/* Whether two heaps would have the same file. */
static bool same_in_file_name(const char *one, const char *two)
{
    for (size_t i = 0; i < HEAP_NAME_BYTES; i++) {
        if (file_name_character(one[i]) != file_name_character(two[i]) ||
            (one[i] == '\0') != (two[i] == '\0'))
            return false;
        if (one[i] == '\0')
            break;
    }
    return true;
}

void pprof_file_name(const struct profile *profile, const struct profile_heap *heap,
                     const struct profile_dump *dump, char *buffer, size_t size)
{
    const struct profile_process *process = &profile->processes[heap->process];
    char part[32];
    size_t number = (size_t)(dump - heap->dumps) + 1;
    size_t same = 0, before = 0;
    /* After an exec one pid can have the same heap twice; or names differ in what is replaced. */
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *other = &profile->heaps[i];
        const struct profile_process *owner = &profile->processes[other->process];
        if (owner->pid == process->pid && same_in_file_name(owner->name, process->name) &&
            same_in_file_name(other->name, heap->name)) {
            same++;
            before += other < heap;
        }
    }
    if (dump->final)
        snprintf(part, sizeof(part), "final");
    else
        snprintf(part, sizeof(part), "%zu", number);
    if (same > 1)
        snprintf(buffer, size, "%.64s.%d-%zu.%.64s.%s.pb.gz",
                 *process->name == '\0' ? "process" : process->name, process->pid, before + 1,
                 heap->name, part);
    else
        snprintf(buffer, size, "%.64s.%d.%.64s.%s.pb.gz",
                 *process->name == '\0' ? "process" : process->name, process->pid, heap->name,
                 part);
    for (char *at = buffer; *at != '\0'; at++)
        *at = at == buffer && (*at == '.' || *at == '-') ? '_' : file_name_character(*at);
}
