/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of a status: their text, unknown figures, and sums over processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "production/metrics/render.h"
#include "production/metrics/server.h"
#include "production/metrics/status_file.h"
#include "tools/cli/record/collector_file.h"

static const struct collector_status empty = {
    .started_ns = 1000000000,
    .gap_ms = -1,
    .period_ms = 60000,
    .budget = {NAN, NAN, COLLECTOR_UNKNOWN},
    .cpu_seconds = NAN,
    .cpu_share = NAN,
    .memory_bytes = COLLECTOR_UNKNOWN,
};

/* A process with one heap. Its figures are known. */
struct process {
    struct period_label label;
    struct collector_heap heap;
    struct collector_loss loss;
    struct collector_program program;
};

static void make_process(struct process *process, const char *program, const char *service, int pid,
                         double allocated)
{
    process->label = (struct period_label){"service_name", service};
    process->heap =
        (struct collector_heap){"libc.malloc", 1000, 970, 1030, 10, allocated, 100, true, false};
    process->loss = (struct collector_loss){"overrun", 2};
    process->program = (struct collector_program){
        .name = program,
        .labels = &process->label,
        .label_count = 1,
        .pid = pid,
        .since_ns = 5000000000,
        .heaps = &process->heap,
        .heap_count = 1,
        .interval_bytes = 4096,
        .samples = 50,
        .samples_per_hour = NAN,
        .losses = &process->loss,
        .loss_count = 1,
        .last_dump_ns = 7000000000,
        .problem = "",
    };
}

/* Return the text of a status; the caller frees it. */
static char *render(struct program_totals *totals, const struct collector_status *status,
                    bool is_open_metrics)
{
    char *text = NULL;
    size_t length = 0;
    struct exposition exposition = {.out = open_memstream(&text, &length),
                                    .is_open_metrics = is_open_metrics};
    assert_int_equal(program_totals_update(totals, status, 1000), 0);
    metrics_render(&exposition, status, totals);
    fclose(exposition.out);
    return text;
}

static void check_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return;
    fail_msg("no line '%s' in:\n%s", line, text);
}

static void unknown_figures_are_left_out(void **state)
{
    (void)state;
    struct program_totals totals = {0};
    char *text = render(&totals, &empty, false);
    assert_null(strstr(text, "cpu_seconds"));
    assert_null(strstr(text, "heapprofd_memory"));
    assert_null(strstr(text, "budget"));
    assert_null(strstr(text, "gap"));
    assert_null(strstr(text, "live_bytes"));
    check_line(text, "heapprofd_start_time_seconds 1");
    check_line(text, "heapprofd_dumps_total 0");
    free(text);

    struct process process;
    make_process(&process, "redis", "cache", 7, NAN);
    process.program.interval_bytes = COLLECTOR_UNKNOWN;
    process.program.samples = COLLECTOR_UNKNOWN;
    process.program.loss_count = 0;
    process.program.last_dump_ns = 0;
    struct collector_status status = empty;
    status.programs = &process.program;
    status.program_count = 1;
    text = render(&totals, &status, false);
    check_line(text, "heapprofd_processes{program=\"redis\",service=\"cache\"} 1");
    check_line(text, "heapprofd_processes_measured{program=\"redis\",service=\"cache\"} 0");
    assert_null(strstr(text, "allocated_bytes"));
    assert_null(strstr(text, "live_bytes"));
    assert_null(strstr(text, "samples_total"));
    assert_null(strstr(text, "interval"));
    assert_null(strstr(text, "losses"));
    assert_null(strstr(text, "last_dump"));
    free(text);
    program_totals_clear(&totals);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    struct program_totals totals = {0};
    struct process process;
    make_process(&process, "a\"b\\c\nd", "\xc3\xa9\xff\xed\xa0\x80", 7, 100);
    struct collector_status status = empty;
    status.programs = &process.program;
    status.program_count = 1;
    char *text = render(&totals, &status, false);
    check_line(text,
               "heapprofd_live_bytes{program=\"a\\\"b\\\\c\\nd\",service=\"\xc3\xa9"
               "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",heap=\"libc.malloc\"} 1000");
    free(text);
    program_totals_clear(&totals);
}

static void processes_of_a_program_are_summed(void **state)
{
    (void)state;
    struct program_totals totals = {0};
    struct process processes[2];
    make_process(&processes[0], "redis", "cache", 7, 100);
    make_process(&processes[1], "redis", "cache", 8, 200);
    processes[1].heap.live_bytes_low = 960;
    processes[0].heap.live_bytes_high = 1060;
    processes[1].heap.live_bytes_high = 1080;
    processes[1].heap.is_partial = true;
    processes[1].program.interval_bytes = 8192;
    processes[1].program.last_dump_ns = 6500000000;
    struct collector_program programs[] = {processes[0].program, processes[1].program};
    struct collector_status status = empty;
    status.programs = programs;
    status.program_count = 2;
    char *text = render(&totals, &status, false);
#define OF "{program=\"redis\",service=\"cache\""
    check_line(text, "heapprofd_processes" OF "} 2");
    check_line(text, "heapprofd_live_bytes" OF ",heap=\"libc.malloc\"} 2000");
    check_line(text, "heapprofd_live_low_bytes" OF ",heap=\"libc.malloc\"} 1950");
    check_line(text, "heapprofd_live_high_bytes" OF ",heap=\"libc.malloc\"} 2100");
    check_line(text, "heapprofd_live_margin_bytes" OF ",heap=\"libc.malloc\"} 100");
    check_line(text, "heapprofd_heaps_partial" OF ",heap=\"libc.malloc\"} 1");
    check_line(text, "heapprofd_allocated_bytes_total" OF ",heap=\"libc.malloc\"} 300");
    check_line(text, "heapprofd_samples_total" OF "} 100");
    check_line(text, "heapprofd_losses_total" OF ",reason=\"overrun\"} 4");
    check_line(text, "heapprofd_losses_total" OF ",reason=\"buffer_overran\"} 0");
    check_line(text, "heapprofd_sampling_interval_bytes" OF "} 8192");
    check_line(text, "heapprofd_last_dump_timestamp_seconds" OF "} 6.5");
    free(text);
    program_totals_clear(&totals);
}

static void counters_only_grow(void **state)
{
    (void)state;
    struct program_totals totals = {0};
    struct process processes[2];
    make_process(&processes[0], "redis", "cache", 7, 100);
    make_process(&processes[1], "redis", "cache", 8, 200);
    struct collector_program programs[] = {processes[0].program, processes[1].program};
    struct collector_status status = empty;
    status.programs = programs;
    status.program_count = 2;
    free(render(&totals, &status, false));
    /* Again: nothing was added. */
    free(render(&totals, &status, false));

    /* One has ended, the other one has allocated more, and its profile began anew. */
    processes[1].heap.allocated_bytes = 250;
    status.programs = &processes[1].program;
    status.program_count = 1;
    char *text = render(&totals, &status, false);
    check_line(text, "heapprofd_allocated_bytes_total" OF ",heap=\"libc.malloc\"} 350");
    check_line(text, "heapprofd_live_bytes" OF ",heap=\"libc.malloc\"} 1000");
    free(text);
    /* A process is known before its first dump says when its profile began: it is the same. */
    processes[0].program.since_ns = 0;
    programs[0] = processes[0].program;
    programs[0].pid = 9;
    programs[1] = processes[1].program;
    status.programs = programs;
    status.program_count = 2;
    free(render(&totals, &status, false));
    programs[0].since_ns = 7000000000;
    text = render(&totals, &status, false);
    check_line(text, "heapprofd_allocated_bytes_total" OF ",heap=\"libc.malloc\"} 450");
    check_line(text, "heapprofd_samples_total" OF "} 150");
    free(text);
    status.programs = &processes[1].program;
    status.program_count = 1;
    processes[1].program.since_ns++;
    processes[1].heap.allocated_bytes = 40;
    text = render(&totals, &status, false);
    check_line(text, "heapprofd_allocated_bytes_total" OF ",heap=\"libc.malloc\"} 490");
    check_line(text, "heapprofd_samples_total" OF "} 200");
    free(text);

    /* Without processes: counters stay for an hour, gauges go. */
    status.program_count = 0;
    text = render(&totals, &status, false);
    check_line(text, "heapprofd_allocated_bytes_total" OF ",heap=\"libc.malloc\"} 490");
    assert_null(strstr(text, "heapprofd_live_bytes"));
    free(text);
    assert_int_equal(program_totals_update(&totals, &status, 1000 + PROGRAM_TOTALS_KEPT_MS), 0);
    assert_int_equal(totals.count, 0);
    program_totals_clear(&totals);
}

static void programs_and_heaps_are_bounded(void **state)
{
    (void)state;
    enum { PROCESSES = PROGRAM_TOTALS_MAX + 20, HEAPS = PROGRAM_HEAPS_MAX + 4 };
    static struct process processes[PROCESSES];
    static struct collector_program programs[PROCESSES];
    static char names[PROCESSES][300], heap_names[HEAPS][8];
    static struct collector_heap heaps[HEAPS];
    struct program_totals totals = {0};
    for (int i = 0; i < PROCESSES; i++) {
        snprintf(names[i], sizeof(names[i]), "%04d%0250d", i, 0);
        make_process(&processes[i], names[i], "", 100 + i, 1);
        programs[i] = processes[i].program;
    }
    for (int i = 0; i < HEAPS; i++) {
        snprintf(heap_names[i], sizeof(heap_names[i]), "h%d", i);
        heaps[i] = (struct collector_heap){
            .name = heap_names[i],
            .live_bytes = 1,
            .live_bytes_low = 1,
            .live_bytes_high = 1,
            .live_count = 1,
            .allocated_bytes = 1,
            .allocated_count = 1,
        };
    }
    programs[0].heaps = heaps;
    programs[0].heap_count = HEAPS;
    struct collector_status status = empty;
    status.programs = programs;
    status.program_count = PROCESSES;
    for (int round = 0; round < 2; round++) {
        char *text = render(&totals, &status, false);
        assert_int_equal(totals.count, PROGRAM_TOTALS_MAX + 1);
        check_line(text, "heapprofd_processes{program=\"_others_\",service=\"\"} 20");
        check_line(text, "heapprofd_allocated_bytes_total{program=\"_others_\",service=\"\","
                         "heap=\"libc.malloc\"} 20");
        check_line(text, "heapprofd_processes_unnamed 20");
        free(text);
    }
    const struct program_total *first = &totals.items[0];
    assert_int_equal(first->heap_count, PROGRAM_HEAPS_MAX + 1);
    assert_string_equal(first->heaps[PROGRAM_HEAPS_MAX].name, PROGRAM_TOTALS_OTHERS);
    assert_true(first->heaps[PROGRAM_HEAPS_MAX].live_bytes == 4);
    assert_true(first->heaps[PROGRAM_HEAPS_MAX].counters.allocated_bytes == 4);
    assert_int_equal(strlen(first->program), PROGRAM_NAME_BYTES - 1);
    program_totals_clear(&totals);
}

static void open_metrics_has_its_own_heads(void **state)
{
    (void)state;
    struct program_totals totals = {0};
    char *text = render(&totals, &empty, true);
    check_line(text, "# TYPE heapprofd_dumps counter");
    check_line(text, "heapprofd_dumps_total 0");
    check_line(text, "# UNIT heapprofd_start_time_seconds seconds");
    assert_string_equal(text + strlen(text) - strlen("# EOF\n"), "# EOF\n");
    free(text);
    program_totals_clear(&totals);
}

static void formats_are_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        bool is_open_metrics;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"*/*", false},
        {"text/plain", false},
        {"application/openmetrics-text", true},
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
         "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         true},
        {"application/openmetrics-text; version=0.0.1", false},
        {"application/openmetrics-text;q=0, text/plain", false},
        {"text/plain, application/openmetrics-text;q=0.5", false},
        {"text/*;q=0.2 ,\tApplication/OpenMetrics-Text; q=0.3", true},
        {"application/openmetrics-text;", true},
        {";;;,,;q=,;", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(exposition_wants_open_metrics(cases[i].accept), cases[i].is_open_metrics);
}

static void the_status_file_keeps_what_is_known(void **state)
{
    (void)state;
    char directory[] = "/tmp/test-status-XXXXXX";
    struct process process;
    struct sink_figures sink = {
        .name = "disk", .kind = "directory", .sent_bytes = 5, .lag_ms = 1500, .last_error = "away"};
    struct error error = {0};
    struct stat found;
    char path[64];
    assert_non_null(mkdtemp(directory));
    make_process(&process, "redis", "cache", 7, 100);
    process.heap.live_bytes = NAN;
    process.program.problem = "it is setuid";
    struct collector_status status = empty;
    status.programs = &process.program;
    status.sinks = &sink;
    status.program_count = status.sink_count = 1;
    assert_null(collector_file_read(directory, &error));
    assert_int_equal(error.code, -ENOENT);
    assert_int_equal(status_file_write(directory, &status, "", &error), 0);
    snprintf(path, sizeof(path), "%s/" COLLECTOR_FILE_NAME, directory);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    Heapprofd__CollectorStatus *read = collector_file_read(directory, &error);
    assert_non_null(read);
    assert_int_equal(read->pid, getpid());
    assert_false(read->has_gap_ms || read->has_cpu_seconds || read->has_memory_bytes);
    assert_null(read->metrics_address);
    assert_int_equal(read->n_programs, 1);
    assert_string_equal(read->programs[0]->labels[0]->value, "cache");
    assert_string_equal(read->programs[0]->problem, "it is setuid");
    assert_false(read->programs[0]->heaps[0]->has_live_bytes);
    assert_true(read->programs[0]->heaps[0]->allocated_bytes == 100);
    assert_int_equal(read->programs[0]->losses[0]->amount, 2);
    assert_int_equal(read->sinks[0]->lag_ms, 1500);
    assert_string_equal(read->sinks[0]->last_error, "away");
    heapprofd__collector_status__free_unpacked(read, NULL);

    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "\xff\xff\xff", 3), 3);
    close(fd);
    assert_null(collector_file_read(directory, &error));
    assert_int_equal(error.code, -EBADMSG);
    status_file_remove(directory);
    assert_int_equal(rmdir(directory), 0);
}

/* --- the server --- */

static uint64_t ahead_ms; /* of our clock, of the real one, which libmicrohttpd reads */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    int code = __real_clock_gettime(clock, time);
    time->tv_sec += (time_t)(ahead_ms / 1000);
    return code;
}

static int write_nothing(void *context, FILE *out, bool is_open_metrics)
{
    (void)context;
    (void)is_open_metrics;
    fputs("# none\n", out);
    return 0;
}

static int connect_to(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(fd, (const struct sockaddr *)address, sizeof(*address)));
    return fd;
}

/* Four times as many connections as are served at once ask for nothing. A scrape behind them waits
 * until they were cut, which takes far less time than they have when nobody waits. */
static void test_idle_connections_give_way(void **state)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    const struct server_text text = {.write = write_nothing};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int idle[4 * SERVER_CONNECTIONS_MAX];
    char answer[16] = "";
    struct error error;
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&address, length));
    assert_int_equal(0, listen(listener, 128));
    assert_int_equal(0, getsockname(listener, (struct sockaddr *)&address, &length));
    struct metrics_server *server = metrics_server_open(listener, &text, &error);
    assert_non_null(server);
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        idle[i] = connect_to(&address);
    int scraper = connect_to(&address);
    assert_int_equal(sizeof(request) - 1, write(scraper, request, sizeof(request) - 1));
    bool is_answered = false;
    unsigned rounds = 0;
    ahead_ms = 0;
    /* In each round a second passes, which is longer than a crowded connection may stay. */
    for (; rounds < 200 && !is_answered; rounds++) {
        for (int i = 0; i < 50 && !is_answered; i++) {
            unsigned timeout_ms = 1000;
            metrics_server_work(server, &timeout_ms);
            is_answered = recv(scraper, answer, 12, MSG_DONTWAIT | MSG_PEEK) == 12;
        }
        if (!is_answered)
            ahead_ms += 1000;
    }
    assert_true(is_answered);
    assert_true(ahead_ms <= 4000);
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        close(idle[i]);
    close(scraper);
    metrics_server_close(server);
    ahead_ms = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_connections_give_way),
        cmocka_unit_test(unknown_figures_are_left_out),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(processes_of_a_program_are_summed),
        cmocka_unit_test(counters_only_grow),
        cmocka_unit_test(programs_and_heaps_are_bounded),
        cmocka_unit_test(open_metrics_has_its_own_heads),
        cmocka_unit_test(formats_are_asked_for),
        cmocka_unit_test(the_status_file_keeps_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
