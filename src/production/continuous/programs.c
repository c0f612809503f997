/* SPDX-License-Identifier: Apache-2.0 */
/* Keep the lists of processes and programs, and run the control law of each program. */
#include "production/continuous/programs.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "production/continuous/budget_split.h"
#include "profile/compare/estimates.h"
#include "profile/partial.h"
#include "recorder/processes/process_info.h"
#include "recorder/session/target_choice.h"
#include "util/array.h"
#include "util/process_cgroup.h"
#include "util/process_files.h"
#include "wire/sampling.h"

/* Refused processes that are remembered: those that cannot be profiled may be without number. */
#define PROCESSES_MAX 4096u

#define TURNS_TO_FORGET 2u

/* A program without processes keeps its budget for as long as the budget is for. */
#define PROGRAM_KEPT_MS 3600000u

void programs_init(struct programs *programs, const struct collector_config *config)
{
    *programs = (struct programs){.config = config};
}

static void clear_process(struct known_process *process)
{
    labels_clear(&process->labels);
    for (size_t i = 0; i < process->heap_count; i++)
        free((char *)process->heaps[i].name);
    free(process->heaps);
    free(process->losses);
}

void programs_clear(struct programs *programs)
{
    for (size_t i = 0; i < programs->process_count; i++)
        clear_process(&programs->processes[i]);
    free(programs->processes);
    free(programs->programs);
    free(programs->status);
    *programs = (struct programs){0};
}

/* --- lists --- */

/* Return the limits of a program with a share of its budget. */
static struct interval_limits limits_with(const struct programs *programs,
                                          const struct program *program, double share)
{
    const struct collector_config *config = programs->config;
    double samples_per_hour = program->config != NULL ? program->config->samples_per_hour : 1;
    return (struct interval_limits){
        .samples_per_hour = fmax(samples_per_hour * share, 1),
        .least_bytes = config->least_interval_bytes,
        .most_bytes = config->most_interval_bytes,
    };
}

static struct interval_limits limits_of(const struct programs *programs,
                                        const struct program *program)
{
    return limits_with(programs, program, program->share * program->cost_share);
}

/* Set whose a process is, and its unit, its container or its cgroup, whichever is known first; ""
 * if it has ended. Labels may be the configuration's. */
static void find_owner(struct program *program, pid_t pid)
{
    struct process_status status;
    struct process_cgroup cgroup;
    if (process_status_read(pid, &status) < 0)
        return;
    snprintf(program->user, sizeof(program->user), "%u", status.uid[0]);
    process_cgroup_read(&cgroup, pid);
    const char *place = cgroup.unit[0] != '\0'        ? cgroup.unit
                        : cgroup.container[0] != '\0' ? cgroup.container
                                                      : cgroup.path;
    program->place = XXH3_64bits(place, strlen(place));
}

/* Return the least share of the user's programs, or 1 if the user has none: what a user's programs
 * may take does not grow by another one. */
static double cost_share_of(const struct programs *programs, const char *user)
{
    double least = 1;
    for (size_t i = 0; i < programs->program_count; i++) {
        const struct program *program = &programs->programs[i];
        if (strcmp(program->user, user) == 0)
            least = fmin(least, program->cost_share);
    }
    return least;
}

/* Return the index of a program, or SIZE_MAX without memory. */
static size_t find_program(struct programs *programs, const char *section, const char *name,
                           pid_t pid)
{
    struct program made = {.config = collector_config_find(programs->config, section)};
    snprintf(made.section, sizeof(made.section), "%s", section);
    snprintf(made.name, sizeof(made.name), "%s", name);
    find_owner(&made, pid);
    for (size_t i = 0; i < programs->program_count; i++) {
        const struct program *program = &programs->programs[i];
        if (strcmp(program->name, made.name) == 0 && strcmp(program->section, made.section) == 0 &&
            strcmp(program->user, made.user) == 0 && program->place == made.place)
            return i;
    }
    if (ARRAY_RESERVE(&programs->programs, &programs->program_capacity, programs->program_count,
                      1) < 0)
        return SIZE_MAX;
    made.came = ++programs->came;
    made.cost_share = cost_share_of(programs, made.user);
    programs->programs[programs->program_count] = made;
    return programs->program_count++;
}

struct known_process *programs_find(struct programs *programs, pid_t pid)
{
    for (size_t i = 0; i < programs->process_count; i++) {
        if (programs->processes[i].pid == pid)
            return &programs->processes[i];
    }
    return NULL;
}

struct program *programs_of(struct programs *programs, const struct known_process *process)
{
    return &programs->programs[process->program];
}

/* Return the name of the section that chooses a process, or "" if it has ended. */
static const char *find_section(const struct programs *programs, pid_t pid)
{
    struct process_info info;
    if (process_info_read(&info, pid) < 0)
        return "";
    const struct target_rule *rule = target_choice_find(&programs->config->rules, &info);
    process_info_clear(&info);
    return rule != NULL ? rule->name : "";
}

struct known_process *programs_find_or_add(struct programs *programs, pid_t pid, const char *name,
                                           const char *section)
{
    struct known_process *process = programs_find(programs, pid);
    char short_name[PROGRAM_NAME_BYTES_MAX];
    snprintf(short_name, sizeof(short_name), "%s", name);
    /* A process that became another program has other labels. */
    if (process != NULL && strcmp(process->name, short_name) == 0)
        return process;
    section = section[0] != '\0' ? section : find_section(programs, pid);
    size_t program = find_program(programs, section, short_name, pid);
    if (program == SIZE_MAX || programs->process_count >= PROCESSES_MAX ||
        (process == NULL && ARRAY_RESERVE(&programs->processes, &programs->process_capacity,
                                          programs->process_count, 1) < 0))
        return NULL;
    if (process == NULL)
        process = &programs->processes[programs->process_count++];
    else
        clear_process(process);
    *process = (struct known_process){.pid = pid, .program = program};
    snprintf(process->name, sizeof(process->name), "%s", short_name);
    labels_describe(&process->labels, programs->config, programs->programs[program].config, pid,
                    short_name);
    return process;
}

/* --- progress --- */

static uint64_t increase(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void take_process(struct programs *programs, const Heapprofd__ControlProcess *from)
{
    struct known_process *process =
        programs_find_or_add(programs, from->pid, from->name != NULL ? from->name : "",
                             from->rule != NULL ? from->rule : "");
    if (process == NULL)
        return;
    struct program *program = programs_of(programs, process);
    program->samples += increase(from->samples, process->samples);
    program->bytes += increase(from->exact_bytes, process->exact_bytes);
    program->processes++;
    process->samples = from->samples;
    process->exact_bytes = from->exact_bytes;
    process->interval_bytes = from->interval_bytes;
    process->is_there = true;
    if (process->lent_to[0] != '\0')
        process->lent_to[0] = process->problem[0] = '\0';
    process->has_ended = false;
    process->turns = 0;
}

void programs_take_progress(struct programs *programs, const Heapprofd__ControlSession *session)
{
    for (size_t i = 0; i < programs->program_count; i++)
        programs->programs[i].processes = 0;
    for (size_t i = 0; i < programs->process_count; i++) {
        struct known_process *process = &programs->processes[i];
        process->has_ended |= process->is_there;
        process->is_there = false;
    }
    for (size_t i = 0; i < session->n_processes; i++)
        take_process(programs, session->processes[i]);
}

void programs_take_refused(struct programs *programs, pid_t pid, const char *name,
                           const char *reason)
{
    struct known_process *process = programs_find_or_add(programs, pid, name, "");
    if (process != NULL)
        snprintf(process->problem, sizeof(process->problem), "%s", reason);
}

/* The next profile of the process counts from zero, and begins at the first interval. */
static void clear_progress(struct known_process *process)
{
    process->samples = process->exact_bytes = 0;
    process->interval_bytes = process->asked_bytes = 0;
}

void programs_take_lent(struct programs *programs, pid_t pid, const char *name, const char *whose)
{
    struct known_process *process = programs_find_or_add(programs, pid, name, "");
    if (process == NULL)
        return;
    snprintf(process->lent_to, sizeof(process->lent_to), "%s", whose);
    process->is_cut = true;
    clear_progress(process);
}

/* --- budgets --- */

/* Return whether the program cannot use its part: it has few samples at the finest interval. An
 * eighth of the part, of which a quiet one has a quarter. */
static bool is_quiet(const struct programs *programs, const struct program *program)
{
    struct interval_limits limits = limits_of(programs, program);
    double few = limits.samples_per_hour / (program->is_quiet ? 2 : 8);
    return program->control.interval_bytes == limits.least_bytes &&
           program->control.samples_per_hour_lately < few;
}

static void note_parts(struct programs *programs)
{
    for (size_t i = 0; i < programs->program_count; i++) {
        struct program *program = &programs->programs[i];
        bool has_part = program->processes > 0, quiet = has_part && is_quiet(programs, program);
        programs->must_split |= has_part != program->has_part || quiet != program->is_quiet;
        program->has_part = has_part;
        program->is_quiet = quiet;
    }
}

static bool is_same_budget(const struct program *one, const struct program *other)
{
    return strcmp(one->section, other->section) == 0 && strcmp(one->name, other->name) == 0;
}

static int compare_budgets(const void *left, const void *right)
{
    const struct program *a = *(struct program *const *)left, *b = *(struct program *const *)right;
    int order = strcmp(a->section, b->section);
    if (order == 0)
        order = strcmp(a->name, b->name);
    return order != 0 ? order : a->came < b->came ? -1 : 1;
}

/* Give each program its new share, and what some hold beyond theirs to others: to newcomers first,
 * which begin with nothing. Only the first of all begins with what the budget has. */
static void share_out(const struct programs *programs, struct program *const *budget, size_t count,
                      uint64_t now_ms)
{
    double given = 0;
    for (size_t i = 0; i < count; i++) {
        struct interval_limits limits = limits_of(programs, budget[i]);
        if (budget[i]->control.interval_bytes != 0)
            given += interval_control_give(&budget[i]->control, &limits);
    }
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < count; i++) {
            struct interval_limits limits = limits_of(programs, budget[i]);
            struct interval_control *control = &budget[i]->control;
            bool is_new = control->interval_bytes == 0;
            if (is_new) {
                interval_control_begin(control, &limits, programs->config->start_interval_bytes,
                                       now_ms - 1000);
                if (count > 1)
                    control->bucket = control->store = 0;
            }
            if (budget[i]->has_part && is_new == (turn == 0))
                given = interval_control_take(control, &limits, given);
        }
    }
}

/* Divide the budget of programs of one section and name. `parts` has room for all. */
static void split_budget(struct programs *programs, struct program **budget, size_t count,
                         struct budget_part *parts, uint64_t now_ms)
{
    size_t part_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct program *program = budget[i];
        if (program->has_part)
            parts[part_count++] = (struct budget_part){.user = program->user,
                                                       .came = program->came,
                                                       .is_quiet = program->is_quiet,
                                                       .index = i};
    }
    if (part_count == 0)
        return; /* it is kept for those who may come back */
    budget_split(parts, part_count);
    for (size_t i = 0; i < count; i++)
        budget[i]->share = 0;
    for (size_t i = 0; i < part_count; i++)
        budget[parts[i].index]->share = parts[i].share;
    share_out(programs, budget, count, now_ms);
}

static void split_budgets(struct programs *programs, uint64_t now_ms)
{
    size_t count = programs->program_count;
    struct program **order = calloc(count + 1, sizeof(struct program *));
    struct budget_part *parts = calloc(count + 1, sizeof(*parts));
    for (size_t i = 0; i < count && order != NULL; i++)
        order[i] = &programs->programs[i];
    if (order != NULL && parts != NULL) {
        qsort(order, count, sizeof(struct program *), compare_budgets);
        for (size_t first = 0, next; first < count; first = next) {
            next = first + 1;
            while (next < count && is_same_budget(order[first], order[next]))
                next++;
            split_budget(programs, order + first, next - first, parts, now_ms);
        }
        programs->must_split = false;
    }
    free(order);
    free(parts);
}

void programs_step(struct programs *programs, uint64_t now_ms)
{
    note_parts(programs);
    if (programs->must_split)
        split_budgets(programs, now_ms);
    for (size_t i = 0; i < programs->program_count; i++) {
        struct program *program = &programs->programs[i];
        struct interval_limits limits = limits_of(programs, program);
        if (program->processes > 0)
            program->seen_ms = now_ms;
        if (program->control.interval_bytes != 0)
            interval_control_step(&program->control, &limits, now_ms, program->samples,
                                  program->bytes);
        program->samples = program->bytes = 0;
    }
}

uint64_t programs_interval_of(const struct program *program)
{
    return program->control.is_off ? SAMPLING_NEVER_BYTES : program->control.interval_bytes;
}

/* --- cost --- */

static int compare_users(const void *left, const void *right)
{
    const struct program *a = *(struct program *const *)left, *b = *(struct program *const *)right;
    return strcmp(a->user, b->user);
}

struct programs_cost_shares programs_cost_shares(const struct programs *programs)
{
    struct programs_cost_shares shares = {.user = "", .of_user = 1, .least = 1};
    double most = -1, samples = 0, share = 1;
    size_t count = 0;
    const struct program **order = calloc(programs->program_count + 1, sizeof(*order));
    for (size_t i = 0; i < programs->program_count && order != NULL; i++)
        if (programs->programs[i].processes > 0 && programs->programs[i].left_out[0] == '\0')
            order[count++] = &programs->programs[i];
    if (count > 0)
        qsort(order, count, sizeof(*order), compare_users);
    for (size_t i = 0; i < count; i++) {
        bool is_last = i + 1 == count || strcmp(order[i]->user, order[i + 1]->user) != 0;
        samples += order[i]->control.samples_per_hour_lately;
        share = fmin(share, order[i]->cost_share);
        shares.least = fmin(shares.least, order[i]->cost_share);
        if (is_last && samples > most) {
            most = samples;
            shares.user = order[i]->user;
            shares.of_user = share;
        }
        if (is_last) {
            samples = 0;
            share = 1;
        }
    }
    free(order);
    return shares;
}

void programs_scale_cost(struct programs *programs, const char *user, double factor)
{
    for (size_t i = 0; i < programs->program_count; i++) {
        struct program *program = &programs->programs[i];
        if (user == NULL || strcmp(program->user, user) == 0)
            program->cost_share = fmin(program->cost_share * factor, 1);
    }
}

const char *programs_leave_out(struct programs *programs, const char *reason)
{
    struct program *most = NULL;
    for (size_t i = 0; i < programs->program_count; i++) {
        struct program *program = &programs->programs[i];
        if (program->left_out[0] == '\0' && program->processes > 0 &&
            (most == NULL ||
             program->control.samples_per_hour_lately > most->control.samples_per_hour_lately))
            most = program;
    }
    if (most == NULL)
        return NULL;
    snprintf(most->left_out, sizeof(most->left_out), "%s", reason);
    return most->name;
}

void programs_reload(struct programs *programs)
{
    for (size_t i = 0; i < programs->program_count; i++) {
        struct program *program = &programs->programs[i];
        program->config = collector_config_find(programs->config, program->section);
    }
    programs->must_split = true;
    for (size_t i = 0; i < programs->process_count; i++) {
        struct known_process *process = &programs->processes[i];
        const char *section = find_section(programs, process->pid);
        /* One that has ended keeps its labels, for its last period. */
        size_t program = section[0] != '\0'
                             ? find_program(programs, section, process->name, process->pid)
                             : SIZE_MAX;
        if (program == SIZE_MAX)
            continue;
        process->program = program;
        process->asked_bytes = 0;
        process->has_build_id = false;
        labels_describe(&process->labels, programs->config, programs->programs[program].config,
                        process->pid, process->name);
    }
}

/* --- dumps --- */

static struct collector_heap *find_heap(struct known_process *process, const char *name)
{
    for (size_t i = 0; i < process->heap_count; i++) {
        if (strcmp(process->heaps[i].name, name) == 0)
            return &process->heaps[i];
    }
    struct collector_heap heap = {.name = strdup(name)};
    if (heap.name == NULL ||
        ARRAY_ADD(&process->heaps, &process->heap_count, &process->heap_capacity, heap) < 0) {
        free((char *)heap.name);
        return NULL;
    }
    return &process->heaps[process->heap_count - 1];
}

static void take_losses(struct known_process *process, const struct trace_heap_dump *status)
{
    process->loss_count = 0;
    for (int id = 0; id < TRACE_LOSS_IDS; id++) {
        struct collector_loss loss = {trace_losses[id].name,
                                      trace_loss_amount(status, (enum trace_loss_id)id)};
        if (loss.amount > 0 && (id <= (int)TRACE_LOSS_BLOCKED_US || trace_losses[id].effects != 0))
            ARRAY_ADD(&process->losses, &process->loss_count, &process->loss_capacity, loss);
    }
}

/* Take a heap's figures as a report of the dump has them. */
static void take_figures(struct collector_heap *to, const struct profile_heap *heap,
                         const struct profile_dump *dump)
{
    const struct profile_estimate live = rollup_live_of(&dump->total);
    const struct estimate_shown shown = estimate_total_of(&live, false, heap, dump);
    to->live_bytes = shown.value;
    to->live_bytes_low = shown.interval.low;
    to->live_bytes_high = shown.interval.high;
    to->live_count = live.count;
    to->allocated_is_exact = rollup_totals_are_exact(heap, dump);
    to->allocated_bytes =
        to->allocated_is_exact ? (double)dump->exact_bytes : dump->total.allocated_bytes;
    to->allocated_count =
        to->allocated_is_exact ? (double)dump->exact_calls : dump->total.allocated_count;
    to->is_partial = profile_dump_is_partial(heap, dump);
}

/* Forget the figures of a profile that has ended: the next one begins at zero. */
static void clear_figures(struct known_process *process)
{
    for (size_t i = 0; i < process->heap_count; i++)
        free((char *)process->heaps[i].name);
    process->heap_count = process->loss_count = 0;
    process->since_ns = process->last_dump_ns = 0;
    process->unexplained = (struct memory_unexplained){0};
}

void programs_begin_anew(struct programs *programs)
{
    for (size_t i = 0; i < programs->process_count; i++) {
        struct known_process *process = &programs->processes[i];
        clear_figures(process);
        clear_progress(process);
    }
}

void programs_take_heap(struct known_process *process, const struct profile *profile,
                        const struct profile_heap *heap, int64_t boottime_to_realtime_ns)
{
    static const char malloc_heap[] = "libc.malloc";
    if (heap->dump_count == 0)
        return;
    const struct profile_dump *dump = &heap->dumps[heap->dump_count - 1];
    (void)profile;
    if (strcmp(heap->name, malloc_heap) == 0) {
        take_losses(process, &heap->status);
        if (dump->unexplained.of_bytes > 0)
            process->unexplained = dump->unexplained;
        /* Later dumps begin at the one before. */
        if (process->since_ns == 0)
            process->since_ns = (int64_t)heap->start_boottime_ns + boottime_to_realtime_ns;
        const char *remark = heap->status.remark;
        snprintf(process->problem, sizeof(process->problem), "%s",
                 heap->unseen && remark != NULL ? remark : "");
        if (dump->final)
            process->turns = TURNS_TO_FORGET;
    }
    struct collector_heap *to = heap->unseen ? NULL : find_heap(process, heap->name);
    if (to == NULL || dump->incomplete)
        return;
    process->last_dump_ns = (int64_t)dump->boottime_ns + boottime_to_realtime_ns;
    take_figures(to, heap, dump);
    if (dump->final && process->is_cut)
        clear_figures(process);
}

/* Forget the programs that have had no process for long. */
static void forget_programs(struct programs *programs)
{
    size_t *new_index = calloc(programs->program_count + 1, sizeof(*new_index));
    if (new_index == NULL)
        return;
    for (size_t i = 0; i < programs->process_count; i++)
        new_index[programs->processes[i].program] = 1;
    size_t kept = 0;
    for (size_t i = 0; i < programs->program_count; i++) {
        const struct program *program = &programs->programs[i];
        bool is_kept = new_index[i] != 0 || program->left_out[0] != '\0' ||
                       program->control.step_ms < program->seen_ms + PROGRAM_KEPT_MS;
        new_index[i] = kept;
        if (is_kept)
            programs->programs[kept++] = *program;
    }
    programs->program_count = kept;
    for (size_t i = 0; i < programs->process_count; i++)
        programs->processes[i].program = new_index[programs->processes[i].program];
    free(new_index);
}

void programs_forget_ended(struct programs *programs)
{
    size_t kept = 0;
    for (size_t i = 0; i < programs->process_count; i++) {
        struct known_process *process = &programs->processes[i];
        /* One that could not be profiled was never there. */
        bool is_shown =
            programs_of(programs, process)->left_out[0] != '\0' || process->lent_to[0] != '\0';
        bool is_gone =
            (process->has_ended && !is_shown) || (!process->is_there && kill(process->pid, 0) < 0);
        process->turns += is_gone;
        if (!process->is_there && is_gone && process->turns >= TURNS_TO_FORGET)
            clear_process(process);
        else
            programs->processes[kept++] = *process;
    }
    programs->process_count = kept;
    forget_programs(programs);
}

/* --- status --- */

/* Return why a process is not profiled; "": it is. */
static const char *describe_problem(struct known_process *process, const struct program *program)
{
    if (program->left_out[0] != '\0')
        return program->left_out;
    if (process->lent_to[0] == '\0')
        return process->problem;
    snprintf(process->problem, sizeof(process->problem),
             "another session, %s, has it; continuous mode takes it again when that ends",
             process->lent_to);
    return process->problem;
}

static void fill_status(struct programs *programs, struct known_process *process,
                        struct collector_program *to)
{
    const struct program *program = programs_of(programs, process);
    *to = (struct collector_program){
        .name = program->section,
        .labels = process->labels.items,
        .label_count = process->labels.count,
        .pid = process->pid,
        .since_ns = process->since_ns,
        .heaps = process->heaps,
        .heap_count = process->heap_count,
        .interval_bytes =
            process->interval_bytes != 0 ? process->interval_bytes : COLLECTOR_UNKNOWN,
        .samples = process->samples,
        .samples_per_hour = program->control.samples_per_hour_lately,
        .losses = process->losses,
        .loss_count = process->loss_count,
        .last_dump_ns = process->last_dump_ns,
        .unexplained = process->unexplained,
        .problem = describe_problem(process, program),
    };
}

const struct collector_program *programs_status(struct programs *programs, size_t *count)
{
    *count = 0;
    if (ARRAY_RESERVE(&programs->status, &programs->status_capacity, 0,
                      programs->process_count + 1) < 0)
        return NULL;
    for (size_t i = 0; i < programs->process_count; i++)
        fill_status(programs, &programs->processes[i], &programs->status[i]);
    *count = programs->process_count;
    return programs->status;
}
