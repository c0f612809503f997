/* heap_profile status: what the running daemon does. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/daemon_client.h"
#include "cli/suggest.h"
#include "util/json.h"

static const char help[] =
    "usage: heap_profile status [--json]\n"
    "\n"
    "Says what the running heapprofd does: its sessions, and of your own (root: of all) the\n"
    "processes, with samples and losses; and what memory and CPU time it has used.\n"
    "\n"
    "Exit code: 0, 1 if no heapprofd runs.\n";

static const struct option options[] = {
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};

static void print_text(const Heapprofd__ControlStatus *status)
{
    printf("heapprofd %s, process %d, %s, up %.0f s, %.1f MB resident, %.2f s of CPU time\n",
           status->version, status->pid, status->run_directory, (double)status->elapsed_ms / 1e3,
           (double)status->rss_bytes / 1e6, (double)status->cpu_us / 1e6);
    if (status->has_told_of_newcomers && status->told_of_newcomers)
        puts("programs that begin: told of by the kernel");
    else if (status->has_told_of_newcomers)
        printf("programs that begin: found by a look through /proc, ten times a second (%s)\n",
               status->not_told_because);
    if (status->n_sessions == 0)
        puts("no sessions");
    for (size_t i = 0; i < status->n_sessions; i++) {
        const Heapprofd__ControlSession *session = status->sessions[i];
        printf("\nsession %llu of user %u: %.1f s, interval %llu bytes, %u process%s now, %u "
               "profiled in all,\n  %.1f MB live, %llu samples, %llu lost\n",
               (unsigned long long)session->id, session->uid, (double)session->elapsed_ms / 1e3,
               (unsigned long long)session->interval_bytes, session->process_count,
               session->process_count == 1 ? "" : "es", session->profiled,
               session->live_bytes / 1e6, (unsigned long long)session->samples,
               (unsigned long long)session->lost);
        for (size_t j = 0; j < session->n_processes; j++) {
            const Heapprofd__ControlProcess *process = session->processes[j];
            printf("  %7d %-20s %10.1f MB live %12llu samples %8llu lost%s\n", process->pid,
                   process->name, process->live_bytes / 1e6, (unsigned long long)process->samples,
                   (unsigned long long)process->lost, process->attached ? "  attached" : "");
        }
    }
}

static void print_session_json(const Heapprofd__ControlSession *session)
{
    printf(
        "{\"id\":%llu,\"uid\":%u,\"elapsed_ms\":%llu,\"interval_bytes\":%llu,\"profiled\":%u,"
        "\"process_count\":%u,\"live_bytes\":%.0f,\"samples\":%llu,\"lost\":%llu,\"processes\":[",
        (unsigned long long)session->id, session->uid, (unsigned long long)session->elapsed_ms,
        (unsigned long long)session->interval_bytes, session->profiled, session->process_count,
        session->live_bytes, (unsigned long long)session->samples,
        (unsigned long long)session->lost);
    for (size_t i = 0; i < session->n_processes; i++) {
        const Heapprofd__ControlProcess *process = session->processes[i];
        printf("%s{\"pid\":%d,\"name\":", i > 0 ? "," : "", process->pid);
        json_print_string(stdout, process->name);
        printf(",\"live_bytes\":%.0f,\"samples\":%llu,\"lost\":%llu,\"attached\":%s}",
               process->live_bytes, (unsigned long long)process->samples,
               (unsigned long long)process->lost, process->attached ? "true" : "false");
    }
    fputs("]}", stdout);
}

static void print_json(const Heapprofd__ControlStatus *status)
{
    fputs("{\"version\":", stdout);
    json_print_string(stdout, status->version);
    printf(",\"pid\":%d,\"run_directory\":", status->pid);
    json_print_string(stdout, status->run_directory);
    printf(",\"told_of_newcomers\":%s", status->told_of_newcomers ? "true" : "false");
    printf(",\"elapsed_ms\":%llu,\"rss_bytes\":%llu,\"cpu_us\":%llu,\"sessions\":[",
           (unsigned long long)status->elapsed_ms, (unsigned long long)status->rss_bytes,
           (unsigned long long)status->cpu_us);
    for (size_t i = 0; i < status->n_sessions; i++) {
        fputs(i > 0 ? "," : "", stdout);
        print_session_json(status->sessions[i]);
    }
    puts("]}");
}

int cmd_status(int argc, char **argv)
{
    bool json = false;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option != 'j') {
            suggest_option("heap_profile status", argv, option, options);
            return 2;
        }
        json = true;
    }
    if (optind < argc) {
        fputs(help, stderr);
        return 2;
    }
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    request.has_status = request.status = true;
    struct error error = {0};
    Heapprofd__ControlReply *reply = daemon_ask(&request, &error);
    if (reply == NULL || reply->status == NULL) {
        fprintf(stderr, "heap_profile: %s\n",
                reply == NULL ? error.message : "the daemon says nothing of itself");
        return 1;
    }
    (json ? print_json : print_text)(reply->status);
    heapprofd__control_reply__free_unpacked(reply, NULL);
    return 0;
}
