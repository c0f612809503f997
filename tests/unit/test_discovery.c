/* SPDX-License-Identifier: Apache-2.0 */
/* Rings are read while many processes are examined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/server/server.h"
#include "recorder/server/target_discovery.h"
#include "uint_in_range.h"

#define PROCESSES 40
#define EACH_US 5000

static unsigned examined, readings;

bool __real_process_info_comm(pid_t pid, char comm[16]);
bool __wrap_process_info_comm(pid_t pid, char comm[16]);
void __wrap_session_serve_meanwhile(void *context);

/* Each process takes some time, as one with many mappings does. */
bool __wrap_process_info_comm(pid_t pid, char comm[16])
{
    examined++;
    usleep(EACH_US);
    return __real_process_info_comm(pid, comm);
}

void __wrap_session_serve_meanwhile(void *context)
{
    (void)context;
    readings++;
}

static void rings_are_read_during_a_scan(void **state)
{
    static struct server server;
    static struct session session;
    static const struct server_user user;
    char *names[] = {"no-process-has-this-name", NULL};
    pid_t children[PROCESSES];
    struct heap_config config;
    struct access_policy policy = {0};
    struct error error;
    (void)state;
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
    heap_config_init(&config);
    config.process_cmdline = names;
    int trace = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(server_open_without_socket(&server, &user, "/nowhere/socket", &error), 0);
    assert_int_equal(session_open(&session, &config, false, SESSION_TRACE_FILE, trace), 0);
    session.of_command = false;
    session.owner = access_self();
    session.policy = &policy;
    server_begin_session(&server, &session);
    discovery_running(&server);
    assert_uint_in_range(examined, PROCESSES, UINT32_MAX);
    /* Every 20 ms. */
    assert_uint_in_range(readings, examined / 8, examined);
    server_remove_session(&server);
    session_close(&session);
    server_close(&server);
    close(trace);
    config.process_cmdline = NULL;
    heap_config_clear(&config);
    for (unsigned i = 0; i < PROCESSES; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_are_read_during_a_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
