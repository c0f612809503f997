/* SPDX-License-Identifier: Apache-2.0 */
/* The producer sees its service's socket appear, also in a directory that is made later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/tracing/producer/socket_watch.h"

struct place {
    char directory[64], below[96], socket[128], other[128];
    struct socket_watch watch;
};

static void listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
}

static int set_up(void **state)
{
    static struct place place;
    snprintf(place.directory, sizeof(place.directory), "/tmp/test-socket-watch-XXXXXX");
    if (mkdtemp(place.directory) == NULL || !socket_watch_open(&place.watch))
        return -1;
    snprintf(place.below, sizeof(place.below), "%s/perfetto", place.directory);
    snprintf(place.socket, sizeof(place.socket), "%s/producer.sock", place.below);
    snprintf(place.other, sizeof(place.other), "%s/other", place.below);
    *state = &place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    socket_watch_close(&place->watch);
    unlink(place->socket);
    unlink(place->other);
    rmdir(place->below);
    return rmdir(place->directory);
}

static void a_socket_that_appears_is_seen(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place->below, 0700), 0);
    socket_watch_begin(&place->watch, place->socket);
    assert_false(socket_watch_read(&place->watch));
    listen_at(place->other);
    assert_false(socket_watch_read(&place->watch));
    listen_at(place->socket);
    assert_true(socket_watch_read(&place->watch));
    assert_false(socket_watch_read(&place->watch));
}

static void its_directory_may_appear_first(void **state)
{
    struct place *place = *state;
    socket_watch_begin(&place->watch, place->socket);
    assert_int_equal(mkdir(place->below, 0700), 0);
    assert_true(socket_watch_read(&place->watch));
    socket_watch_begin(&place->watch, place->socket);
    listen_at(place->socket);
    assert_true(socket_watch_read(&place->watch));
}

/* As systemd does with the directory of a service that is restarted. */
static void its_directory_may_be_made_again(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place->below, 0700), 0);
    listen_at(place->socket);
    socket_watch_begin(&place->watch, place->socket);
    assert_int_equal(unlink(place->socket), 0);
    assert_int_equal(rmdir(place->below), 0);
    assert_true(socket_watch_read(&place->watch));
    socket_watch_begin(&place->watch, place->socket);
    assert_int_equal(mkdir(place->below, 0700), 0);
    assert_true(socket_watch_read(&place->watch));
    socket_watch_begin(&place->watch, place->socket);
    listen_at(place->socket);
    assert_true(socket_watch_read(&place->watch));
}

static void after_the_end_nothing_is_seen(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place->below, 0700), 0);
    socket_watch_begin(&place->watch, place->socket);
    socket_watch_end(&place->watch);
    listen_at(place->socket);
    assert_false(socket_watch_read(&place->watch));
    socket_watch_begin(&place->watch, "@abstract");
    assert_false(socket_watch_read(&place->watch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_socket_that_appears_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_directory_may_appear_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_directory_may_be_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_the_end_nothing_is_seen, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
