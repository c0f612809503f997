/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a list of unprofiled processes: whether it is complete. If the kernel sends
 * events here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/processes/exec_events.h"
#include "recorder/server/descendants.h"

static struct server server;
static struct session session;

static pid_t run_child(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

/* Begin with a command that has ended. */
static void begin(struct descendants *descendants)
{
    session = (struct session){0};
    server.session = &session;
    descendants_open(descendants, &server, "", "");
    if (descendants->events < 0)
        skip();
    pid_t command = fork();
    if (command == 0)
        _exit(0);
    descendants_begin(descendants, command);
    assert_int_equal(waitpid(command, NULL, 0), command);
}

/* Other programs begin all the time. Those that begin after the end have no part in the session. */
static void later_events_leave_it_complete(void **state)
{
    (void)state;
    struct descendants descendants;
    begin(&descendants);
    descendants_read_rest(&descendants);
    run_child();
    assert_true(exec_events_pending(descendants.events));
    descendants_finish(&descendants);
    assert_null(session.unprofiled.why_incomplete);
    descendants_close(&descendants);
}

/* A child of the command is in the set, if it ended before the set is looked at. */
static void earlier_events_are_read(void **state)
{
    struct descendants descendants;
    (void)state;
    session = (struct session){0};
    server.session = &session;
    descendants_open(&descendants, &server, "", "");
    if (descendants.events < 0)
        skip();
    descendants_begin(&descendants, getpid());
    pid_t child = run_child();
    descendants_read_rest(&descendants);
    bool is_known = false;
    for (size_t i = 0; i < descendants.count; i++)
        is_known |= descendants.known[i].pid == child;
    assert_true(is_known);
    descendants_close(&descendants);
}

static void lost_events_make_it_incomplete(void **state)
{
    (void)state;
    struct descendants descendants;
    begin(&descendants);
    /* The kernel takes its minimum, which has no room for so many. */
    assert_int_equal(setsockopt(descendants.events, SOL_SOCKET, SO_RCVBUF, &(int){0}, sizeof(int)),
                     0);
    for (int i = 0; i < 100; i++)
        run_child();
    descendants_read_rest(&descendants);
    descendants_finish(&descendants);
    assert_non_null(session.unprofiled.why_incomplete);
    descendants_close(&descendants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_events_are_read),
        cmocka_unit_test(later_events_leave_it_complete),
        cmocka_unit_test(lost_events_make_it_incomplete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
