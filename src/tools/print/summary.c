/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the sentences that matter, and writes them with the figures of the report's tables. */
#include "tools/print/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/first_view.h"
#include "profile/compare/rss.h"
#include "profile/compare/turnover.h"
#include "profile/partial.h"
#include "profile/process_memory.h"
#include "tools/print/margin.h"
#include "tools/print/stack_format.h"
#include "tools/print/turnover_text.h"
#include "util/xmalloc.h"

/* A peak that is higher than the live memory by less is no news. */
#define PEAK_NEWS 1.02
/* Churn: a program allocates 20 times its peak, in 100,000 calls. Below either, nothing is said. */
#define CHURN_TIMES 20
#define CHURN_CALLS 100000
/* Memory that the heaps do not explain: more than this, and more than a third of the RSS. */
#define REST_OF_RSS_BYTES (16 << 20)

struct writer {
    const struct summary_subject *subject;
    const struct profile *profile;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    struct stack_format stacks;
    uint32_t *named; /* by sample of the dump: the frame to name; NULL: functions are not named */
    FILE *out;       /* the sentences, one a line */
};

/* Begins and ends a name. No text of a profile contains it, because names are escaped. */
#define MARK "\001"
/* Before a sentence, or before none: the digit behind it is what those after it are about. */
#define TOPIC '\002'

/* --- who --- */

/* The functions that the largest shares of a view are charged to. */
#define HOLDERS 2
/* The second is named if it has so much of the first one's share. */
#define SECOND_PART 0.5

struct holder {
    uint32_t frame; /* PROFILE_NONE: none */
    double share;   /* 0 to 1 */
};

/* Return the frame to name for a stack: the function that it is charged to, or if that has no name,
 * the first of its callers that has one. */
static uint32_t named_frame(const struct writer *writer, uint32_t callsite)
{
    const struct profile *profile = writer->profile;
    uint32_t head = folding_head(writer->stacks.folding, profile, callsite), at = head;
    while (at != PROFILE_NONE && profile->frames[profile->callsites[at].frame].name[0] == '\0')
        at = folding_caller(writer->stacks.folding, profile, at);
    return profile->callsites[at != PROFILE_NONE ? at : head].frame;
}

/* Find the frames to name for all samples: each view needs them. */
static void name_samples(struct writer *writer)
{
    const struct profile_dump *dump = writer->dump;
    if (writer->stacks.folding == NULL)
        return;
    writer->named = xcalloc(dump->sample_count + 1, sizeof(*writer->named));
    for (size_t i = 0; i < dump->sample_count; i++)
        writer->named[i] = named_frame(writer, dump->samples[i]->callsite);
}

/* The shares of a function, in a list of those that have samples. */
struct charged {
    struct holder holder;
    uint32_t next; /* 1 + function; 0: not in the list, or its end */
};

static void find_holders(const struct writer *writer, enum export_view view,
                         struct holder holders[HOLDERS])
{
    const struct profile_dump *dump = writer->dump;
    const struct profile_estimate total = estimate_of_dump(dump, view);
    const uint32_t *of_frames = writer->subject->of_frames;
    struct charged *all = xcalloc(writer->subject->function_count + 1, sizeof(*all));
    uint32_t first = 0, *end = &first;
    for (size_t i = 0; i < HOLDERS; i++)
        holders[i] = (struct holder){PROFILE_NONE, 0};
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct rollup_values values = rollup_values_of(dump->samples[i]);
        const struct profile_estimate figure = estimate_of_view(&values, view);
        uint32_t frame = writer->named[i];
        struct charged *one = &all[of_frames[frame]];
        if (one->next == 0 && end != &one->next) {
            *end = of_frames[frame] + 1;
            end = &one->next;
        }
        one->holder.frame = frame;
        one->holder.share += estimate_rank(&figure, view) / estimate_rank(&total, view);
    }
    for (uint32_t i = first; i != 0; i = all[i - 1].next) {
        const struct holder *one = &all[i - 1].holder;
        if (one->share > holders[0].share) {
            holders[1] = holders[0];
            holders[0] = *one;
        } else if (one->share > holders[1].share) {
            holders[1] = *one;
        }
    }
    free(all);
}

static void print_function(const struct writer *writer, uint32_t frame)
{
    fputs(MARK, writer->out);
    stack_format_print_frame(&writer->stacks, frame, 0, false, true, writer->out);
    fputs(MARK, writer->out);
}

/* Print who did it to how much of a view: ": parse held 45.2 % of it, load 31.0 %". */
static void print_holders(const struct writer *writer, enum export_view view, const char *verb,
                          const char *object)
{
    struct holder holders[HOLDERS];
    if (writer->named == NULL)
        return;
    find_holders(writer, view, holders);
    if (!(holders[0].share > 0))
        return;
    fputs(": ", writer->out);
    print_function(writer, holders[0].frame);
    if (holders[0].share > 0.995) {
        fprintf(writer->out, " %s nearly all of %s", verb, object);
        return;
    }
    fprintf(writer->out, " %s %s of %s", verb, format_share(100 * holders[0].share).bytes, object);
    if (holders[1].share < SECOND_PART * holders[0].share)
        return;
    fputs(", ", writer->out);
    print_function(writer, holders[1].frame);
    fprintf(writer->out, " %s", format_share(100 * holders[1].share).bytes);
}

/* --- the sentences --- */

static void print_bytes(const struct writer *writer, double bytes, struct formatted margin)
{
    fputs(format_bytes(bytes).bytes, writer->out);
    bool is_word = strcmp(margin.bytes, "partial") == 0 || strcmp(margin.bytes, "as reported") == 0;
    if (strcmp(margin.bytes, "exact") != 0)
        fprintf(writer->out, is_word ? " (%s)" : " %s", margin.bytes);
}

static void print_figure(const struct writer *writer, enum export_view view)
{
    const struct estimate_shown total =
        estimate_total(writer->heap, writer->dump, view, export_view_counts_calls(view));
    print_bytes(writer, total.value,
                margin_of_total(&total, view, false, writer->heap, writer->dump));
}

static double bytes_in(const struct writer *writer, enum export_view view)
{
    if (export_view_is_unknown(writer->heap, view))
        return 0;
    return estimate_total(writer->heap, writer->dump, view, false).value;
}

/* Return whether the program holds much at the dump, compared with what it held. */
static bool holds_much(const struct writer *writer)
{
    return first_view(writer->profile, writer->stacks.folding, writer->heap, writer->dump) ==
           EXPORT_SPACE;
}

/* Return whether no later dump of the heap is there. */
static bool is_last(const struct writer *writer)
{
    return writer->dump == &writer->heap->dumps[writer->heap->dump_count - 1];
}

/* Return whether the process exited, and the dump is its last. */
static bool has_exited(const struct writer *writer)
{
    return writer->dump->final && writer->heap->status.exit_status >= 0;
}

/* Print what the program had not freed at its end, beside what its run time keeps. What no sample
 * shows may be live, too, and so may what was allocated before the profile. */
static void print_rest(const struct writer *writer)
{
    if (export_view_is_unknown(writer->heap, EXPORT_SPACE))
        return;
    const struct estimate_shown total =
        estimate_total(writer->heap, writer->dump, EXPORT_SPACE, false);
    double pools = first_view_pools(writer->profile, writer->stacks.folding, writer->dump);
    double own = fmax(total.value - pools, 0), most = total.interval.high - pools;
    bool has_rest = own >= 0.5;
    if (isnan(most))
        return;
    fputs(has_exited(writer) ? "It had freed " : "When the profile ended, it had freed ",
          writer->out);
    if (has_rest)
        fprintf(writer->out, "all but %s", format_bytes(own).bytes);
    else
        fputs(most >= 0.5 ? "nearly everything" : "everything", writer->out);
    if (!writer->heap->status.from_startup)
        fputs(has_rest ? " of what it allocated since the profile began"
                       : " that it allocated since the profile began",
              writer->out);
    fputs(has_exited(writer) ? " at its end" : "", writer->out);
    if (pools >= 0.5)
        fprintf(writer->out, ", %s %s that the run time's libraries keep for themselves",
                has_rest ? "and" : "but", format_bytes(pools).bytes);
    if (most >= own + 0.5)
        fprintf(writer->out, "; up to %s may be live", format_bytes(most).bytes);
    fputs(".\n", writer->out);
}

/* Print what is live. Nothing is no news at the end, or of a file without an end. Return whether it
 * was printed. */
static bool print_live(const struct writer *writer)
{
    const struct profile_process *process = &writer->profile->processes[writer->heap->process];
    bool exited = has_exited(writer);
    /* Other profilers' files have one moment, and no end. */
    bool has_end = writer->dump->final && process->timeline_count > 0;
    if (export_view_is_unknown(writer->heap, EXPORT_SPACE) ||
        (writer->dump->final && bytes_in(writer, EXPORT_SPACE) < 0.5))
        return false;
    print_figure(writer, EXPORT_SPACE);
    fputs(exited    ? " was never freed"
          : has_end ? " was live when the profile ended"
                    : " is live",
          writer->out);
    print_holders(writer, EXPORT_SPACE, exited ? "allocated" : has_end ? "held" : "holds", "it");
    fputs(".\n", writer->out);
    return true;
}

static void print_since_start(const struct writer *writer, uint64_t ns)
{
    fprintf(writer->out, " %s after %s", format_time((double)ns / 1e9).bytes,
            writer->heap->status.from_startup ? "the start" : "the profile began");
}

/* Print when the peak was, if the dump is the one that knows. */
static void print_peak_time(const struct writer *writer)
{
    uint64_t peak_ns = is_last(writer) ? profile_peak_boottime_ns(writer->heap) : 0;
    if (peak_ns == 0)
        return;
    fputs(",", writer->out);
    print_since_start(writer, peak_ns - writer->heap->start_boottime_ns);
}

static void print_peak(const struct writer *writer)
{
    double live = bytes_in(writer, EXPORT_SPACE), peak = bytes_in(writer, EXPORT_MAX);
    if (peak < 0.5)
        return;
    if (live > 0.5 && peak <= PEAK_NEWS * live) {
        bool is_same = strcmp(format_bytes(live).bytes, format_bytes(peak).bytes) == 0;
        fprintf(writer->out, "That is %sits peak%s.\n", is_same ? "" : "nearly ",
                writer->dump->final ? "" : " until then");
        return;
    }
    fprintf(writer->out, "The peak%s was ", writer->dump->final ? "" : " until then");
    print_figure(writer, EXPORT_MAX);
    print_peak_time(writer);
    print_holders(writer, EXPORT_MAX, "held", "it");
    fputs(".\n", writer->out);
}

struct grower {
    uint32_t frame;
    struct profile_estimate live;
};

/* The functions that have samples. */
struct growers {
    struct grower *items;
    struct turnover *turnovers;
    size_t count;
};

/* Measure the functions. `order` has the dump's samples by function, and ends[f] is where those of
 * function f end. */
static void measure_functions(const struct writer *writer, const uint32_t *order,
                              const uint32_t *ends, struct growers *growers)
{
    const struct export_dump of = {writer->heap, writer->dump};
    for (size_t i = 0, begin = 0; i < writer->subject->function_count; begin = ends[i++]) {
        struct turnover_facts facts = {0};
        struct grower *grower = &growers->items[growers->count];
        if (ends[i] == begin)
            continue;
        for (size_t j = begin; j < ends[i]; j++) {
            const struct profile_sample *sample = writer->dump->samples[order[j]];
            const struct rollup_values values = rollup_values_of(sample);
            const struct profile_estimate live = estimate_of_view(&values, EXPORT_SPACE);
            profile_estimate_add(&grower->live, &live);
            turnover_facts_add(&facts, sample);
        }
        grower->frame = writer->named[order[begin]];
        growers->turnovers[growers->count++] = turnover_of(&facts, writer->profile, &of, true);
    }
}

/* Measure and judge all functions. */
static void judge_functions(const struct writer *writer, struct growers *growers)
{
    const struct profile_dump *dump = writer->dump;
    const uint32_t *of_frames = writer->subject->of_frames;
    size_t functions = writer->subject->function_count;
    size_t most = functions < dump->sample_count ? functions : dump->sample_count;
    uint32_t *ends = xcalloc(functions + 1, sizeof(*ends));
    uint32_t *order = xcalloc(dump->sample_count + 1, sizeof(*order));
    growers->items = xcalloc(most + 1, sizeof(*growers->items));
    growers->turnovers = xcalloc(most + 1, sizeof(*growers->turnovers));
    for (size_t i = 0; i < dump->sample_count; i++)
        ends[of_frames[writer->named[i]] + 1]++;
    for (size_t i = 1; i <= functions; i++)
        ends[i] += ends[i - 1]; /* now: where the samples of function i begin */
    for (size_t i = 0; i < dump->sample_count; i++)
        order[ends[of_frames[writer->named[i]]]++] = (uint32_t)i;
    measure_functions(writer, order, ends, growers);
    xmalloc_code(turnover_judge(growers->turnovers, growers->count));
    free(ends);
    free(order);
}

/* Print the function that grows and has most live memory. */
static void print_grower(const struct writer *writer)
{
    const struct export_dump of = {writer->heap, writer->dump};
    struct growers growers = {0};
    size_t found = SIZE_MAX;
    if (writer->named == NULL || export_view_is_unknown(writer->heap, EXPORT_SPACE) ||
        !turnover_can_judge(writer->profile, &of))
        return;
    judge_functions(writer, &growers);
    for (size_t i = 0; i < growers.count; i++)
        if (growers.turnovers[i].kind == TURNOVER_GROWS &&
            (found == SIZE_MAX || growers.items[i].live.bytes > growers.items[found].live.bytes))
            found = i;
    if (found != SIZE_MAX) {
        const struct grower *grower = &growers.items[found];
        print_function(writer, grower->frame);
        fputs(" ", writer->out);
        turnover_print_growth(&growers.turnovers[found], writer->out);
        fputs(", to ", writer->out);
        print_bytes(writer, grower->live.bytes,
                    margin_of_figure(&grower->live, false, writer->heap, writer->dump));
        fputs(" (" MARK "leaks" MARK " has all).\n", writer->out);
    }
    free(growers.items);
    free(growers.turnovers);
}

/* Print how the live memory changed since the heap's first dump, or that chance explains it. */
static void print_growth(const struct writer *writer)
{
    const struct profile_heap *heap = writer->heap;
    const struct profile_dump *first = &heap->dumps[0], *dump = writer->dump;
    if (dump == first)
        return;
    const struct estimate_shown now = estimate_total(heap, dump, EXPORT_SPACE, false);
    const struct estimate_shown then = estimate_total(heap, first, EXPORT_SPACE, false);
    double change = now.value - then.value;
    double room = change > 0 ? hypot(now.value - now.interval.low, then.interval.high - then.value)
                             : hypot(now.interval.high - now.value, then.value - then.interval.low);
    bool is_same = fabs(change) < 0.5 || fabs(change) <= room;
    fputs("That is ", writer->out);
    if (is_same)
        fputs("as much as", writer->out);
    else
        fprintf(writer->out, "%s %s than", format_bytes(fabs(change)).bytes,
                change > 0 ? "more" : "less");
    fputs(" at the first dump", writer->out);
    /* massif counts instructions: its dumps have no time. */
    if (dump->boottime_ns > first->boottime_ns)
        fprintf(writer->out, ", %s before",
                format_time((double)(dump->boottime_ns - first->boottime_ns) / 1e9).bytes);
    fprintf(writer->out, "%s.\n",
            fabs(change) < 0.5 ? ""
            : is_same          ? ": the difference is within chance"
            : isnan(room)      ? "; whether that is chance is unknown"
                               : "");
}

/* Print churn by the highest peak that the samples leave room for. */
static void print_churn(const struct writer *writer)
{
    const struct profile_dump *dump = writer->dump;
    if (export_view_is_unknown(writer->heap, EXPORT_MAX) || dump->exact_calls < CHURN_CALLS)
        return;
    const struct estimate_shown peak = estimate_total(writer->heap, dump, EXPORT_MAX, false);
    if (!(peak.interval.high >= 1) || (double)dump->exact_bytes < CHURN_TIMES * peak.interval.high)
        return;
    fprintf(writer->out, "It allocated %s in %s calls, %s%s times its peak",
            format_bytes((double)dump->exact_bytes).bytes,
            format_count((double)dump->exact_calls).bytes,
            peak.interval.high > peak.value ? "at least " : "",
            format_count((double)dump->exact_bytes / peak.interval.high).bytes);
    print_holders(writer, EXPORT_ALLOC_OBJECTS, "made", "the calls");
    fputs(" (" MARK "--view alloc_objects" MARK ").\n", writer->out);
}

/* Sum up the peaks of the process's heaps: the most of its memory that they explain. */
static double peaks_of(const struct profile *profile, uint32_t process, size_t *heaps)
{
    double sum = 0;
    *heaps = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->process != process || heap->dump_count == 0 || heap->unseen ||
            export_view_is_unknown(heap, EXPORT_MAX))
            continue;
        sum += estimate_total(heap, &heap->dumps[heap->dump_count - 1], EXPORT_MAX, false).value;
        ++*heaps;
    }
    return sum;
}

static bool has_much_absent(const struct rss_rest *rest)
{
    return rest->has_absent && rest->absent_bytes > REST_OF_RSS_BYTES &&
           rest->absent_bytes > rest->live_bytes / 3;
}

/* Print how much of the live memory is not resident. */
static void print_absent(const struct writer *writer, const struct rss_rest *rest)
{
    fprintf(writer->out,
            ". Of %s live in malloc's heap, %s was in pages that were never touched, or are "
            "swapped out",
            format_bytes(rest->live_bytes).bytes, format_bytes(rest->absent_bytes).bytes);
}

/* Print what else was resident, with the tool for it. */
static void print_parts(const struct writer *writer, const struct rss_rest *rest)
{
    uint64_t start_ns = writer->heap->start_boottime_ns;
    fprintf(writer->out, ". Of %s that were read", format_bytes((double)rest->rss_bytes).bytes);
    if (rest->boottime_ns > start_ns)
        print_since_start(writer, rest->boottime_ns - start_ns);
    fputs(", ", writer->out);
    for (size_t i = 0; i < rest->count; i++) {
        const struct rss_rest_part *part = &rest->parts[i];
        fprintf(writer->out, "%s%s", i > 0 ? ", " : "", format_bytes(part->bytes).bytes);
        if (part->margin >= 0.5)
            fprintf(writer->out, " ± %s", format_bytes(part->margin).bytes);
        fprintf(writer->out, "%s %s", i > 0 ? "" : " was", part->words);
        if (part->tool != NULL)
            fprintf(writer->out, " (" MARK "%s" MARK ")", part->tool);
    }
    fputs("; " MARK "report --rss" MARK " has all", writer->out);
}

/* Print what part of the resident memory the heaps are: if that is known by readings only, which
 * come a few times a second, at most so much. */
static void print_resident(const struct writer *writer)
{
    const struct profile_heap *heap = writer->heap;
    const struct profile_process *process = &writer->profile->processes[heap->process];
    const struct process_peak resident = process_memory_peak(process);
    size_t heaps;
    double rss = (double)resident.bytes;
    double peaks = peaks_of(writer->profile, heap->process, &heaps);
    if (rss == 0 || peaks < 0.5)
        return;
    const struct rss_moment moment = rss_moment_of(writer->profile, heap, writer->dump, 0);
    struct rss_rest rest;
    bool has_rest = rss_rest_of(&rest, &moment), is_much;
    bool is_absent = has_rest && has_much_absent(&rest);
    const char *whose = heaps > 1 ? "sum of the heaps' peaks" : "heap's peak";
    /* A peak between readings says nothing of the resident memory then. */
    if (peaks > rss && resident.is_at_least && !is_absent)
        return;
    fputs("Resident memory ", writer->out);
    if (!heap->status.from_startup && rss > (double)resident.first_bytes)
        fprintf(writer->out, "grew by %s to ",
                format_bytes(rss - (double)resident.first_bytes).bytes);
    else
        fputs("reached ", writer->out);
    fprintf(writer->out, "%s%s, ", resident.is_at_least ? "at least " : "",
            format_bytes(rss).bytes);
    if (peaks > rss)
        fprintf(writer->out, "less than the %s, %s", whose, format_bytes(peaks).bytes);
    else
        fprintf(writer->out, "of which the %s%s is at most %s", whose,
                heap->status.from_startup ? "" : " since the profile began",
                format_share(100 * peaks / rss).bytes);
    is_much = (rss - peaks > REST_OF_RSS_BYTES && peaks < rss * 2 / 3) ||
              (rest.bytes > REST_OF_RSS_BYTES && rest.bytes > (double)rest.rss_bytes / 3);
    if (is_absent)
        print_absent(writer, &rest);
    if (is_much && has_rest && rest.count > 0)
        print_parts(writer, &rest);
    else if (is_much)
        fputs("; " MARK "report --rss" MARK " shows what the rest is for", writer->out);
    fputs(".\n", writer->out);
}

/* Print the resident memory at a dump before the last, and the part that the heap's live bytes are
 * if both are of one moment. */
static void print_resident_then(const struct writer *writer)
{
    double rss = (double)process_memory_at(writer->profile, writer->heap->process, writer->dump);
    double live = bytes_in(writer, EXPORT_SPACE), age = 0;
    const struct rss_moment moment = rss_moment_of(writer->profile, writer->heap, writer->dump, 0);
    if (rss == 0)
        return;
    if (moment.snapshot != NULL)
        age = rss_age_seconds(&moment);
    fprintf(writer->out, "Resident memory was %s ", format_bytes(rss).bytes);
    if (age > 0)
        fprintf(writer->out, "%s before this dump", format_time(age).bytes);
    else
        fputs("at this dump", writer->out);
    if (age == 0 && live >= 0.5 && live <= rss)
        fprintf(writer->out, "; the heap's live bytes are %s of that",
                format_share(100 * live / rss).bytes);
    fputs(".\n", writer->out);
}

static void print_unseen(const struct writer *writer)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    if (profile_partial_reasons(writer->heap, writer->dump, reasons) > 0)
        fprintf(writer->out, "Not all was seen: %s.\n", reasons[0].words);
}

/* What is printed next is about this. */
static void print_topic(const struct writer *writer, enum summary_topic topic)
{
    fputc(TOPIC, writer->out);
    fputc('0' + (int)topic, writer->out);
}

static void print_memory(const struct writer *writer)
{
    if (holds_much(writer)) {
        /* While a program runs, what grows is the news; at its end, what is left. */
        print_topic(writer, SUMMARY_GROWTH);
        if (!has_exited(writer))
            print_grower(writer);
        print_topic(writer, SUMMARY_LIVE);
        if (print_live(writer))
            print_growth(writer);
        print_topic(writer, SUMMARY_PEAK);
        print_peak(writer);
    } else {
        print_topic(writer, SUMMARY_PEAK);
        print_peak(writer);
        print_topic(writer, SUMMARY_LIVE);
        print_rest(writer);
    }
}

/* Print all sentences, one a line, and before them what they are about. */
static void print_sentences(const struct writer *writer)
{
    print_memory(writer);
    print_topic(writer, SUMMARY_CHURN);
    print_churn(writer);
    print_topic(writer, SUMMARY_GROWTH);
    if (holds_much(writer) && has_exited(writer))
        print_grower(writer);
    print_topic(writer, SUMMARY_RESIDENT);
    if (writer->subject->has_process && is_last(writer))
        print_resident(writer);
    else if (writer->subject->has_process)
        print_resident_then(writer);
    print_topic(writer, SUMMARY_UNSEEN);
    print_unseen(writer);
}

/* --- their parts --- */

/* Divide the text into sentences, and these into parts. */
static void summary_divide(struct summary *summary)
{
    size_t sentences = 0, parts = 0;
    for (const char *at = summary->text; *at != '\0'; at++) {
        sentences += *at == '\n';
        parts += *at == '\n' || *at == *MARK;
    }
    summary->items = xcalloc(sentences + 1, sizeof(*summary->items));
    summary->parts = xcalloc(parts + 1, sizeof(*summary->parts));
    parts = 0;
    enum summary_topic topic = SUMMARY_LIVE;
    for (char *at = summary->text, *end; *at != '\0'; at = end + 1) {
        struct summary_sentence *sentence = &summary->items[summary->count];
        for (; sentence->count == 0 && *at == TOPIC && at[1] >= '0' &&
               at[1] <= '0' + (int)SUMMARY_UNSEEN;
             at += 2)
            topic = (enum summary_topic)(at[1] - '0');
        if (*at == '\0')
            break;
        sentence->topic = topic;
        if (sentence->count++ == 0)
            sentence->parts = &summary->parts[parts];
        summary->parts[parts++] = at;
        end = at + strcspn(at, MARK "\n");
        summary->count += *end == '\n';
        *end = '\0';
    }
}

void summary_make(struct summary *summary, const struct summary_subject *subject)
{
    size_t length = 0;
    struct writer writer = {
        .subject = subject,
        .profile = subject->profile,
        .heap = subject->heap,
        .dump = subject->dump,
        .stacks = {.profile = subject->profile,
                   .folding = subject->folding,
                   .simple = subject->simple_names},
    };
    *summary = (struct summary){0};
    writer.out = xopen_memstream(&summary->text, &length);
    if (*subject->profile->filter == '\0') {
        name_samples(&writer);
        print_sentences(&writer);
    }
    free(writer.named);
    xclose_memstream(writer.out);
    summary_divide(summary);
}

void summary_clear(struct summary *summary)
{
    free(summary->items);
    free(summary->parts);
    free(summary->text);
}
