/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the client's own library disappear from a walk. Here the library is this program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/sample/own_frames.h"

static void a_test(void) {}

#define OWN ((uint64_t)(uintptr_t)a_test)
#define FIRST UINT64_C(0x1000)
#define SECOND UINT64_C(0x2000)
#define THIRD UINT64_C(0x3000)

static void the_others_keep_their_places(void **state)
{
    (void)state;
    uint64_t frames[] = {FIRST, OWN, OWN, SECOND, THIRD};
    uintptr_t places[] = {10, 20, 30, 40, 50, 60};
    struct unwind_walk walk = {.count = 5, .proven = 5};
    own_frames_remove(&walk, frames, places);
    assert_int_equal(walk.count, 3);
    assert_int_equal(walk.proven, 3);
    const uint64_t kept[] = {FIRST, SECOND, THIRD};
    const uintptr_t kept_places[] = {10, 40, 50, 60};
    assert_memory_equal(frames, kept, sizeof(kept));
    assert_memory_equal(places, kept_places, sizeof(kept_places));
}

/* Objects of frames that were guessed may be unloaded meanwhile. */
static void guessed_frames_stay_guessed(void **state)
{
    (void)state;
    uint64_t frames[] = {FIRST, OWN, SECOND, THIRD};
    struct unwind_walk walk = {.count = 4, .proven = 3};
    own_frames_remove(&walk, frames, NULL);
    assert_int_equal(walk.count, 3);
    assert_int_equal(walk.proven, 2);
    uint64_t late[] = {FIRST, SECOND, OWN, THIRD};
    walk = (struct unwind_walk){.count = 4, .proven = 2};
    own_frames_remove(&walk, late, NULL);
    assert_int_equal(walk.count, 3);
    assert_int_equal(walk.proven, 2);
}

static void a_walk_without_them_stays(void **state)
{
    (void)state;
    uint64_t frames[] = {FIRST, SECOND};
    struct unwind_walk walk = {.count = 2, .proven = 1};
    own_frames_remove(&walk, frames, NULL);
    assert_int_equal(walk.count, 2);
    assert_int_equal(walk.proven, 1);
}

int main(void)
{
    a_test();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_keep_their_places),
        cmocka_unit_test(guessed_frames_stay_guessed),
        cmocka_unit_test(a_walk_without_them_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
