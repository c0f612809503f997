/* SPDX-License-Identifier: Apache-2.0 */
/* Finds or makes the trace, serves it, and waits for the page or a signal. */
#include "tools/cli/view/perfetto_ui.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/view/browser.h"
#include "tools/export/trace.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "tools/view/server/perfetto.h"
#include "util/base_name.h"

/* --- the trace --- */

/* Make a trace of another profiler's file. Return the descriptor of an unnamed file. */
static int make_trace(const char *path, struct error *error)
{
    /* Perfetto's page demangles names. */
    static const struct profile_read_options reading = {.demangling = DEMANGLE_NONE};
    struct profile *profile = progress_import(path, &reading, error);
    if (profile == NULL)
        return error->code;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    int code = fd < 0 ? error_set(error, -errno, "no memory for the trace: %s", strerror(errno))
                      : export_trace(profile, base_name(path), fd, error);
    profile_free(profile);
    if (code < 0 && fd >= 0)
        close(fd);
    return code < 0 ? code : fd;
}

static int open_trace(const char *path, struct error *error)
{
    struct stat status;
    if (import_kind_of_file(path) != IMPORT_TRACE)
        return make_trace(path, error);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot open '%.300s': %s", path, strerror(errno));
    if (S_ISREG(status.st_mode))
        return fd;
    close(fd);
    return error_set(error, -EINVAL, "cannot open '%.300s': not a regular file", path);
}

/* --- the wait --- */

static void tell_sent(void *context)
{
    const uint64_t one = 1;
    const int *events = context;
    if (write(*events, &one, sizeof(one)) < 0)
        return; /* it was told before */
}

/* Wait until the page has the trace, or a signal ends the wait. Return whether it has it. */
static bool wait_for_page(int events, int signals)
{
    struct pollfd waiting[] = {{.fd = events, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    while (poll(waiting, 2, -1) < 0)
        ;
    return waiting[0].revents != 0;
}

/* Block the signals that end the wait, in the server's thread, too. Return a descriptor on which
 * they arrive. */
static int take_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &ends, SFD_CLOEXEC);
}

/* --- the server --- */

static void print_url(const struct perfetto_ui_request *request, struct browser *browser,
                      const char *url)
{
    format_printf(stdout, "heap_profile: Perfetto UI reads the trace at %s\n", url);
    fflush(stdout);
    if (!request->no_browser)
        browser_open(browser, url);
}

static int serve(const struct perfetto_ui_request *request, const struct perfetto_ui *ui, int fd,
                 const char *path, struct error *error)
{
    char url[PERFETTO_URL_BYTES];
    struct browser browser = {0};
    struct perfetto perfetto;
    int signals = take_signals(), events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals < 0 || events < 0) {
        close(fd);
        return error_set(error, -errno, "cannot wait for the page: %s", strerror(errno));
    }
    perfetto_begin(&perfetto, ui);
    perfetto.sent = tell_sent;
    perfetto.context = &events;
    int code = perfetto_serve_file(&perfetto, fd, path, url, error);
    if (code == 0) {
        print_url(request, &browser, url);
        if (wait_for_page(events, signals))
            format_printf(stdout, "heap_profile: the page has the trace\n");
    }
    browser_close(&browser);
    perfetto_end(&perfetto);
    close(events);
    close(signals);
    return code;
}

int perfetto_ui_serve(const struct perfetto_ui_request *request, const char *argument)
{
    char path[PATH_MAX];
    struct perfetto_ui ui = perfetto_ui_usual;
    struct error error = {0};
    if (request->ui != NULL && perfetto_ui_parse(&ui, request->ui, &error) < 0) {
        verb_fail(&error);
        return VERB_USAGE;
    }
    int code = output_find_trace(argument, path, &error);
    if (code == 0 && strcmp(path, "-") == 0)
        code = conversion_keep_input(path, &error);
    int fd = code < 0 ? code : open_trace(path, &error);
    if (fd >= 0)
        code = serve(request, &ui, fd, path, &error);
    return code < 0 || fd < 0 ? verb_fail(&error) : VERB_DONE;
}
