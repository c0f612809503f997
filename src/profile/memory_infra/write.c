/* SPDX-License-Identifier: Apache-2.0 */
/* Write the file: its events, in global dumps, and its metadata (write.h). */
#include "profile/memory_infra/write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "profile/agreement.h"
#include "profile/memory_infra/write_private.h"
#include "util/json.h"
#include "util/utf8.h"

/* Bytes of a command line in a label; `metadata` has the whole one. */
#define LABEL_BYTES 200

const char *const memory_infra_stack_modes[HEAP_STACK_MODES] = {
    [HEAP_STACK_NATIVE] = "native",
    [HEAP_STACK_THREAD_NAMES] = "native-with-thread-names",
    [HEAP_STACK_PSEUDO] = "pseudo",
    [HEAP_STACK_MIXED] = "mixed",
};

/* --- events and global dumps --- */

static int compare_dumps(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct export_dump *left = left_pointer, *right = right_pointer;
    const struct profile *profile = context;
    int32_t left_pid = profile->processes[left->heap->process].pid;
    int32_t right_pid = profile->processes[right->heap->process].pid;
    if (left_pid != right_pid)
        return left_pid < right_pid ? -1 : 1;
    if (left->dump->boottime_ns != right->dump->boottime_ns)
        return left->dump->boottime_ns < right->dump->boottime_ns ? -1 : 1;
    return left->dump->order < right->dump->order ? -1 : left->dump->order > right->dump->order;
}

/* Return whether the dump was made because its process ended. */
static bool is_of_end(const struct export_dump *dump)
{
    return dump->heap->status.disconnected &&
           dump->dump == &dump->heap->dumps[dump->heap->dump_count - 1];
}

/* Return whether all heaps of the event are of a program that became another one by exec, at their
 * last dumps. */
static bool is_before_exec(const struct document *document, const struct written_event *event)
{
    for (size_t i = event->first; i < event->first + event->count; i++) {
        const struct export_dump *dump = &document->dumps[i];
        if (!profile_heap_is_before_exec(dump->heap) ||
            dump->dump != &dump->heap->dumps[dump->heap->dump_count - 1])
            return false;
    }
    return true;
}

/* Make the program's last dumps a part of the first event of the next program: of a process,
 * diff_heap_profiler takes only the first event of the file. */
static void begin_after_exec(struct written_event *event, const struct export_dump *dump)
{
    event->count++;
    event->process = dump->heap->process;
    event->boottime_ns = dump->dump->boottime_ns;
    if (event->written_ns < event->boottime_ns)
        event->written_ns = event->boottime_ns;
    event->order = dump->dump->order;
    event->ended = is_of_end(dump);
    event->final = dump->dump->final;
}

/* The dumps of a process's heaps at one time are one event. */
static int make_events(struct document *document)
{
    const struct profile_heap *heaps = document->profile->heaps;
    /* By heap: number of events up to the last one with the heap. */
    size_t *last_in = calloc(document->profile->heap_count + 1, sizeof(*last_in));
    if (last_in == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < document->dump_count; i++) {
        const struct export_dump *dump = &document->dumps[i];
        int32_t pid = document->profile->processes[dump->heap->process].pid;
        struct written_event *last =
            document->event_count > 0 ? &document->events[document->event_count - 1] : NULL;
        bool is_new = last_in[dump->heap - heaps] < document->event_count;
        if (last != NULL && last->pid == pid && is_new && is_before_exec(document, last)) {
            begin_after_exec(last, dump);
            last_in[dump->heap - heaps] = document->event_count;
            continue;
        }
        if (last != NULL && last->pid == pid && last->boottime_ns == dump->dump->boottime_ns &&
            is_new) {
            last->count++;
            last->ended &= is_of_end(dump);
            last->final |= dump->dump->final;
            last_in[dump->heap - heaps] = document->event_count;
            continue;
        }
        /* Clocks are coarse, and readers order dumps by time. */
        uint64_t written_ns = dump->dump->boottime_ns;
        if (last != NULL && last->pid == pid && last->written_ns >= written_ns)
            written_ns = last->written_ns + 1;
        document->events[document->event_count++] = (struct written_event){
            .pid = pid,
            .process = dump->heap->process,
            .first = i,
            .count = 1,
            .boottime_ns = dump->dump->boottime_ns,
            .written_ns = written_ns,
            .order = dump->dump->order,
            .ended = is_of_end(dump),
            .final = dump->dump->final,
        };
        last_in[dump->heap - heaps] = document->event_count;
    }
    free(last_in);
    return 0;
}

static int compare_times(const void *left_pointer, const void *right_pointer)
{
    const struct written_event *left = *(struct written_event *const *)left_pointer;
    const struct written_event *right = *(struct written_event *const *)right_pointer;
    if (left->boottime_ns != right->boottime_ns)
        return left->boottime_ns < right->boottime_ns ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

/* The global dumps so far, in order of time. */
struct rounds {
    struct id_map last; /* by pid: the last global dump that it is in */
    uint32_t ids;       /* that were given, from 1 */
    uint32_t round, ends;
    bool after_end;   /* the previous event belongs to a process that ended */
    bool round_final; /* the last round is the session's last */
};

static bool is_in(struct rounds *rounds, const struct written_event *event, uint32_t id)
{
    return id_map_find(&rounds->last, (uint32_t)event->pid) == id;
}

/* A round has one event of each running process: it continues until a process would be in it twice,
 * or one ended. Processes that ended since then are a separate global dump: they belong neither to
 * the previous round nor to the next one. Only at the end of the session, when all processes are
 * dumped, an ended process can be between those of a round. */
static int give_global_id(struct rounds *rounds, struct written_event *event)
{
    uint32_t *open = event->ended ? &rounds->ends : &rounds->round;
    bool goes_on =
        rounds->after_end == event->ended || (!event->ended && event->final && rounds->round_final);
    if (!goes_on || *open == 0 || is_in(rounds, event, *open))
        *open = ++rounds->ids;
    rounds->after_end = event->ended;
    if (!event->ended)
        rounds->round_final = event->final;
    event->id = *open;
    return id_map_set(&rounds->last, (uint32_t)event->pid, *open);
}

static int give_global_ids(struct document *document)
{
    struct written_event **by_time =
        malloc((document->event_count + 1) * sizeof(struct written_event *));
    struct rounds rounds = {0};
    int code = by_time == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < document->event_count && code == 0; i++)
        by_time[i] = &document->events[i];
    if (code == 0 && document->event_count > 1)
        qsort(by_time, document->event_count, sizeof(struct written_event *), compare_times);
    for (size_t i = 0; i < document->event_count && code == 0; i++)
        code = give_global_id(&rounds, by_time[i]);
    id_map_free(&rounds.last);
    free(by_time);
    return code;
}

static int arrange(struct document *document, const struct export_dump *dumps)
{
    size_t count = document->dump_count;
    document->dumps = malloc((count + 1) * sizeof(*document->dumps));
    document->events =
        calloc(count + document->profile->reported_count + 1, sizeof(*document->events));
    document->heaps = calloc(count + 1, sizeof(*document->heaps));
    if (document->dumps == NULL || document->events == NULL || document->heaps == NULL)
        return -ENOMEM;
    if (count > 0)
        memcpy(document->dumps, dumps, count * sizeof(*dumps));
    if (count > 1)
        qsort_r(document->dumps, count, sizeof(*dumps), compare_dumps, (void *)document->profile);
    int code = make_events(document);
    if (code == 0 && document->options->reported)
        code = written_reported_make(document);
    if (code == 0)
        code = give_global_ids(document);
    return code < 0 ? code : written_names_make(document);
}

/* --- events --- */

static void begin_event(struct document *document)
{
    fputs(document->events_written++ == 0 ? "\n" : ",\n", document->out);
}

static void write_process_event(struct document *document, int32_t pid, const char *name,
                                const char *argument, const char *value)
{
    begin_event(document);
    fprintf(document->out,
            "{\"pid\":%" PRId32 ",\"tid\":0,\"ts\":0,\"ph\":\"M\",\"cat\":\"__metadata\","
            "\"name\":\"%s\",\"args\":{\"%s\":",
            pid, name, argument);
    json_print_ascii_string(document->out, value);
    fputs("}}", document->out);
}

/* Cut a text to the size of a label, at a character. */
static void cut_label(const char *text, char label[LABEL_BYTES + 8])
{
    size_t length = strlen(text), kept = 0;
    if (length <= LABEL_BYTES) {
        memcpy(label, text, length + 1);
        return;
    }
    while (kept < LABEL_BYTES - 4) {
        size_t character = utf8_length((const unsigned char *)text + kept);
        kept += character == 0 ? 1 : character;
    }
    memcpy(label, text, kept);
    strcpy(label + kept, "...");
}

static void write_process_events(struct document *document, const struct written_event *event)
{
    const struct profile_process *process = &document->profile->processes[event->process];
    char label[LABEL_BYTES + 8];
    write_process_event(document, process->pid, "process_name", "name",
                        *process->name == '\0' ? "process" : process->name);
    if (*process->command == '\0')
        return;
    cut_label(process->command, label);
    write_process_event(document, process->pid, "process_labels", "labels", label);
}

static int write_dump_event(struct document *document, const struct written_event *event)
{
    FILE *out = document->out;
    begin_event(document);
    fprintf(out, "{\"pid\":%" PRId32 ",\"tid\":-1,\"ts\":%" PRIu64, event->pid,
            event->written_ns / 1000);
    if (event->written_ns % 1000 != 0)
        fprintf(out, ".%03u", (unsigned)(event->written_ns % 1000));
    fprintf(out,
            ",\"ph\":\"v\",\"cat\":\"disabled-by-default-memory-infra\","
            "\"name\":\"periodic_interval\",\"id\":\"0x%" PRIx64 "\","
            "\"args\":{\"dumps\":{\"level_of_detail\":\"detailed\",\n",
            event->id);
    write_memory(document, event);
    int code = write_heaps(document, event);
    fputs("}}}", out);
    return code;
}

/* Write one process's events [first, first + count). */
static int write_process(struct document *document, size_t first, size_t count)
{
    const struct written_event *events = document->events + first;
    int code = written_memory_collect(document, first, count);
    if (code < 0)
        return code;
    write_process_events(document, &events[count - 1]);
    for (size_t i = 0; i < count && code == 0; i++) {
        code = sites_reset(&document->sites, events[i].pid, document->memory.here);
        if (code == 0)
            code = write_dump_event(document, &events[i]);
    }
    return code;
}

static int write_events(struct document *document)
{
    int code = 0;
    for (size_t first = 0, count; first < document->event_count && code == 0; first += count) {
        for (count = 1; first + count < document->event_count &&
                        document->events[first + count].pid == document->events[first].pid;)
            count++;
        code = write_process(document, first, count);
    }
    return code;
}

/* --- metadata --- */

static void put_key(FILE *out, const char *separator, const char *key, const char *text)
{
    fprintf(out, "%s\"%s\":", separator, key);
    json_print_ascii_string(out, text);
}

static void put_number(FILE *out, const char *separator, const char *key, int64_t value)
{
    fprintf(out, "%s\"%s\":%" PRId64, separator, key, value);
}

/* Write the losses of the heap. Without them the reader would consider its figures complete. */
static void write_losses(FILE *out, const struct profile_heap *heap)
{
    const struct trace_heap_dump *status = &heap->status;
    char key[64];
    if (heap->unfinished)
        fputs(",\"unfinished\":true", out);
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++) {
        uint64_t amount = trace_loss_amount(status, id);
        if (amount == 0 || trace_losses[id].effects == 0)
            continue;
        snprintf(key, sizeof(key), "loss-%s", trace_losses[id].name);
        put_number(out, ",", key, (int64_t)amount);
    }
    if (status->unseen_allocator != NULL)
        put_key(out, ",", "unseen-allocator", status->unseen_allocator);
}

static void write_heap_metadata(struct document *document, const struct profile_heap *heap)
{
    const struct written_name *name = &document->names[heap - document->profile->heaps];
    FILE *out = document->out;
    if (name->dumps == 0)
        return;
    fprintf(out, ",\n\"heapprofd-heap-%" PRId32 "-%zu\":{",
            document->profile->processes[heap->process].pid, name->number);
    put_key(out, "", "name", heap->name);
    put_key(out, ",", "allocator", name->key);
    if (name->allocator_frame != NULL)
        put_key(out, ",", "allocator-frame", name->allocator_frame);
    put_number(out, ",", "interval-bytes", (int64_t)heap->interval_bytes);
    put_number(out, ",", "first-interval-bytes", (int64_t)heap->first_interval_bytes);
    put_number(out, ",", "start-boottime-ns", (int64_t)heap->start_boottime_ns);
    if (heap->status.weighed_samples > 0) {
        put_number(out, ",", "samples", (int64_t)heap->status.heap_samples);
        put_number(out, ",", "weighed-samples", (int64_t)heap->status.weighed_samples);
    }
    write_losses(out, heap);
    fputc('}', out);
}

static void write_dump_metadata(struct document *document, const struct written_event *event,
                                const struct export_dump *chosen)
{
    const struct profile_dump *dump = chosen->dump;
    FILE *out = document->out;
    fprintf(out, ",\n\"heapprofd-dump-%" PRId32 "-%zu-0x%" PRIx64 "\":{", event->pid,
            document->names[chosen->heap - document->profile->heaps].number, event->id);
    put_number(out, "", "boottime-ns", (int64_t)dump->boottime_ns);
    put_number(out, ",", "exact-bytes", (int64_t)dump->exact_bytes);
    put_number(out, ",", "exact-calls", (int64_t)dump->exact_calls);
    if (dump->unexplained.of_bytes > 0) {
        put_number(out, ",", "unexplained-bytes", (int64_t)dump->unexplained.bytes);
        put_number(out, ",", "anonymous-bytes", (int64_t)dump->unexplained.of_bytes);
    }
    fprintf(out, ",\"final\":%s,\"incomplete\":%s%s%s}", dump->final ? "true" : "false",
            dump->incomplete ? "true" : "false",
            profile_disagrees(chosen->heap, dump) ? ",\"disagrees\":true" : "",
            is_of_end(chosen) ? ",\"ended\":true" : "");
}

static void write_process_metadata(struct document *document, const struct written_event *event)
{
    const struct profile_process *process = &document->profile->processes[event->process];
    FILE *out = document->out;
    fprintf(out, ",\n\"heapprofd-process-%" PRId32 "\":{", process->pid);
    put_key(out, "", "name", process->name);
    put_key(out, ",", "command", process->command);
    put_number(out, ",", "parent-pid", process->parent_pid);
    put_number(out, ",", "uid", process->uid);
    fputc('}', out);
}

static void write_own_metadata(struct document *document)
{
    const struct memory_infra_write_options *options = document->options;
    FILE *out = document->out;
    put_key(out, ",\n", "heapprofd-stack-mode", memory_infra_stack_modes[options->stack_mode]);
    put_number(out, ",\n", "heapprofd-prune-bytes", (int64_t)options->prune_bytes);
    put_number(out, ",\n", "heapprofd-prune-count", (int64_t)options->prune_count);
    put_number(out, ",\n", "heapprofd-boottime-to-realtime-ns",
               document->profile->boottime_to_realtime_ns);
    for (size_t i = 0; i < document->event_count; i++) {
        const struct written_event *event = &document->events[i];
        if (i + 1 == document->event_count || event[1].pid != event->pid)
            write_process_metadata(document, event);
        for (size_t j = event->first; j < event->first + event->count; j++)
            write_dump_metadata(document, event, &document->dumps[j]);
    }
    for (size_t i = 0; i < document->profile->heap_count; i++)
        write_heap_metadata(document, &document->profile->heaps[i]);
}

/* Write the four keys that symbolize_trace requires, and the agent that it requires on x86_64. */
static void write_metadata(struct document *document)
{
    struct utsname machine;
    char agent[sizeof(machine.machine) + 64];
    FILE *out = document->out;
    if (uname(&machine) != 0)
        strcpy(machine.machine, "unknown");
    snprintf(agent, sizeof(agent), "heapprofd/" HEAPPROFD_VERSION " (X11; Linux %s)",
             machine.machine);
    fputs("\"metadata\":{", out);
    put_key(out, "\n", "product-version", "heapprofd/" HEAPPROFD_VERSION);
    put_key(out, ",\n", "os-name", "Linux");
    put_key(out, ",\n", "os-arch", machine.machine);
    put_key(out, ",\n", "user-agent", agent);
    write_own_metadata(document);
    fputs("\n}", out);
}

int64_t memory_infra_write(const struct profile *profile, const struct export_dump *dumps,
                           size_t dump_count, const struct memory_infra_write_options *options,
                           FILE *out)
{
    struct document document = {
        .profile = profile,
        .options = options,
        .out = out,
        .dump_count = dump_count,
        .next_id = 1,
        .next_guid = 1,
    };
    int code = sites_open(&document.sites, profile, options);
    if (code == 0)
        code = arrange(&document, dumps);
    if (code == 0) {
        fputs("{\"traceEvents\":[", out);
        code = write_events(&document);
        fputs("\n],\n", out);
        write_metadata(&document);
        fputs("}\n", out);
    }
    sites_close(&document.sites);
    free(document.dumps);
    free(document.events);
    free(document.heaps);
    free(document.reported);
    written_names_free(&document);
    written_memory_free(&document.memory);
    return code < 0 ? code : document.sites_written;
}
