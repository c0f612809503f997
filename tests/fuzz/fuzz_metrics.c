/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: any names of programs, services and heaps, any figures, and any Accept header. The input
 * is lines: an Accept header, then a program, a service and a heap for each process; the first byte
 * of a line decides about figures. */
#include <math.h>
#include <string.h>

#include "fuzzing.h"
#include "production/metrics/render.h"
#include "util/utf8.h"

#define PROCESSES_MAX 400u

/* Every line is a comment or one of ours, with balanced quotes, and all of it is UTF-8. */
static void check_text(const char *text)
{
    for (const char *line = text; *line != '\0';) {
        bool is_quoted = false;
        check(*line == '#' || strncmp(line, "heapprofd_", 10) == 0);
        for (; *line != '\n'; line += utf8_length((const unsigned char *)line)) {
            check(*line != '\0' && utf8_length((const unsigned char *)line) > 0);
            if (*line == '\\' && is_quoted) {
                line++;
                check(*line == '\\' || *line == '"' || *line == 'n');
            } else if (*line == '"') {
                is_quoted = !is_quoted;
            }
        }
        check(!is_quoted);
        line++;
    }
}

static double figure(char seed)
{
    static const double figures[] = {0, 1, 1e300, NAN, INFINITY, -1, 4096.5, 1e-9};
    return figures[(unsigned char)seed % 8];
}

static void render(struct program_totals *totals, const struct collector_status *status,
                   bool is_open_metrics, uint64_t now_ms)
{
    char *text = NULL;
    size_t length = 0;
    struct exposition exposition = {.out = open_memstream(&text, &length),
                                    .is_open_metrics = is_open_metrics};
    check(exposition.out != NULL);
    check(program_totals_update(totals, status, now_ms) == 0);
    metrics_render(&exposition, status, totals);
    check(fclose(exposition.out) == 0 && strlen(text) == length);
    check(totals->count <= PROGRAM_TOTALS_MAX + 1);
    check_text(text);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct collector_program programs[PROCESSES_MAX];
    static struct collector_heap heaps[PROCESSES_MAX];
    static struct period_label labels[PROCESSES_MAX];
    struct program_totals totals = {0};
    char *input = malloc(size + 1), *rest = input;
    check(input != NULL);
    memcpy(input, data, size);
    input[size] = '\0';
    bool is_open_metrics = exposition_wants_open_metrics(strsep(&rest, "\r"));
    size_t count = 0;
    for (; rest != NULL && count < PROCESSES_MAX; count++) {
        const char *name = strsep(&rest, "\r");
        const char *service = rest != NULL ? strsep(&rest, "\r") : "";
        const char *heap = rest != NULL ? strsep(&rest, "\r") : "";
        labels[count] = (struct period_label){"service_name", service};
        heaps[count] = (struct collector_heap){
            .name = heap,
            .live_bytes = figure(*name),
            .live_bytes_low = figure(*service),
            .live_bytes_high = figure(*heap),
            .live_count = figure(*name),
            .allocated_bytes = figure(*heap),
            .allocated_count = figure(*service),
            .allocated_is_exact = *heap == 0,
            .is_partial = *name == 0,
        };
        programs[count] = (struct collector_program){.name = name,
                                                     .labels = &labels[count],
                                                     .label_count = 1,
                                                     .pid = (int)(count / 2),
                                                     .since_ns = *service,
                                                     .heaps = &heaps[count],
                                                     .heap_count = 1,
                                                     .interval_bytes = (uint64_t)*heap,
                                                     .samples = *name != 0 ? 7 : COLLECTOR_UNKNOWN,
                                                     .last_dump_ns = *service,
                                                     .problem = heap};
    }
    struct collector_status status = {.programs = programs, .program_count = count};
    render(&totals, &status, is_open_metrics, 0);
    status.program_count /= 2;
    render(&totals, &status, !is_open_metrics, PROGRAM_TOTALS_KEPT_MS);
    program_totals_clear(&totals);
    free(input);
    return 0;
}
