/* SPDX-License-Identifier: Apache-2.0 */
/* The block of a page that is a file: what is read gives the answers of what was written, and no
 * damage makes the reader, or an answer, do more than refuse. The profiles are the fuzzers'
 * corpora. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/import.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/export_json.h"
#include "tools/view/saved/saved_profiles.h"

#define DAMAGES 150u /* of a block, at about so many places */
#define HEAPS_ASKED 4u

struct block {
    char *bytes;
    size_t length;
};

/* --- questions --- */

static const struct question {
    answer_function *answer;
    struct view_parameter parameter;
} questions[] = {
    {answer_flame, {"direction", "up"}},
    {answer_flame, {"group", "thread"}},
    {answer_flame, {"group", "heap"}},
    {answer_flame, {"group", "process"}},
    {export_json, {"view", "alloc_objects"}},
    {export_json, {"view", "max"}},
    {answer_table, {"by", "holder"}},
    {answer_table, {"by", "type"}},
    {answer_table, {"by", "lifetime"}},
    {answer_course, {"by", "module"}},
    {answer_table, {"course", "3"}},
    {answer_details, {"by", "backtrace"}},
    {answer_details, {"by", "type"}},
    {answer_range, {"base", "0"}},
    {export_json, {"base", "0"}},
    {answer_memory, {"dump", "0"}},
    {answer_allocators, {"dump", "0"}},
    {answer_budgets, {"budgets", "max-live=1k\nmax-leak=*a*=1\nmax-temporary=1%"}},
    {answer_leaks, {"search", "a"}},
    {answer_leaks, {"base", "0"}},
    {answer_runs, {"before", "0"}},
    {answer_table, {"filter", "hide:a|main"}},
    {answer_functions, {"numbering", ""}},
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* Return the answer, or the reason of the failure; malloc'd. */
static struct block ask(struct view_profiles *profiles, const char *heap,
                        const struct question *question)
{
    const struct view_parameters parameters = {{{"heap", heap}, question->parameter}, 2, false};
    struct error error = {0};
    struct block answer;
    FILE *out = open_memstream(&answer.bytes, &answer.length);
    int code = question->answer(profiles, &parameters, out, &error);
    if (code < 0)
        fprintf(out, "refused: %s", error.message);
    fclose(out);
    return answer;
}

/* --- profiles --- */

/* Add the profile of a corpus' file. Return false if it is none. */
static bool load(struct view_profiles *profiles, const char *path)
{
    struct error error = {0};
    struct profile *profile = import_profile(path, NULL, &error);
    if (profile == NULL)
        return false;
    assert_int_equal(view_profiles_add(profiles, path, profile, &error), 0);
    view_profiles_link(profiles);
    return true;
}

static struct block write_block(struct view_profiles *profiles)
{
    static const struct view_choice everything = {.with_earlier = true};
    const struct view_opening opening = {.tab = NULL};
    struct view_kept kept;
    struct block block;
    view_kept_make(&kept, profiles, &everything);
    FILE *out = open_memstream(&block.bytes, &block.length);
    saved_profiles_write(profiles, &kept, &opening, out);
    fclose(out);
    view_kept_clear(&kept);
    return block;
}

static void ask_all(struct view_profiles *profiles)
{
    char heap[32];
    for (size_t i = 0; i < HEAPS_ASKED; i++) {
        snprintf(heap, sizeof(heap), "0.%zu", i);
        for (size_t j = 0; j < QUESTIONS; j++)
            free(ask(profiles, heap, &questions[j]).bytes);
    }
    const struct question overview = {answer_overview, {"", ""}};
    free(ask(profiles, "", &overview).bytes);
}

static void compare(struct view_profiles *profiles, struct view_profiles *read, const char *path)
{
    char heap[32];
    for (size_t i = 0; i < profiles->items[0].profile->heap_count; i++) {
        snprintf(heap, sizeof(heap), "0.%zu", i);
        for (size_t j = 0; j < QUESTIONS; j++) {
            struct block wanted = ask(profiles, heap, &questions[j]),
                         answer = ask(read, heap, &questions[j]);
            if (wanted.length != answer.length ||
                memcmp(wanted.bytes, answer.bytes, wanted.length) != 0)
                fail_msg("%s, heap %s, question %zu: %s\nwanted: %s", path, heap, j, answer.bytes,
                         wanted.bytes);
            free(wanted.bytes);
            free(answer.bytes);
        }
    }
}

/* Read a damaged block. Whatever it is then, it is refused or answers. */
static void read_damaged(const struct block *block, size_t length)
{
    struct saved_profiles saved;
    struct error error = {0};
    /* A copy of this length, so that a sanitizer sees what is read behind it. */
    char *copy = malloc(length + 1);
    memcpy(copy, block->bytes, length);
    int code = saved_profiles_read(&saved, copy, length, &error);
    if (code == 0)
        ask_all(&saved.profiles);
    else
        assert_non_null(strstr(error.message, "damaged at byte"));
    saved_profiles_free(&saved);
    free(copy);
}

static void damage(const struct block *block)
{
    static const char changes[] = {1, 2, 0x40, (char)0xff};
    size_t step = block->length / DAMAGES + 1;
    for (size_t at = 0; at < block->length; at += step) {
        char kept = block->bytes[at];
        block->bytes[at] = (char)(kept ^ changes[at / step % sizeof(changes)]);
        read_damaged(block, block->length);
        block->bytes[at] = kept;
        read_damaged(block, at);
    }
}

/* --- tests --- */

static void try(const char *path, size_t *tried)
{
    struct view_profiles profiles = {0};
    struct saved_profiles saved;
    struct error error = {0};
    if (load(&profiles, path)) {
        struct block block = write_block(&profiles);
        if (saved_profiles_read(&saved, block.bytes, block.length, &error) < 0)
            fail_msg("%s: %s", path, error.message);
        compare(&profiles, &saved.profiles, path);
        saved_profiles_free(&saved);
        damage(&block);
        free(block.bytes);
        ++*tried;
    }
    view_profiles_free(&profiles);
}

static void blocks_are_read_as_written(void **state)
{
    static const char *const corpora[] = {"import", "trace"};
    size_t tried = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(corpora) / sizeof(corpora[0]); i++) {
        char directory[4096], path[8192];
        snprintf(directory, sizeof(directory), "%s/%s", CORPUS, corpora[i]);
        DIR *files = opendir(directory);
        assert_non_null(files);
        for (struct dirent *file; (file = readdir(files)) != NULL;) {
            snprintf(path, sizeof(path), "%s/%s", directory, file->d_name);
            if (file->d_name[0] != '.')
                try(path, &tried);
        }
        closedir(files);
    }
    assert_true(tried > 20);
}

static void another_version_is_refused(void **state)
{
    struct saved_profiles saved;
    struct error error = {0};
    (void)state;
    assert_int_equal(saved_profiles_read(&saved, "\377\0\0\0\0\0\0\0\0\0\0\0", 12, &error),
                     -EBADMSG);
    assert_non_null(strstr(error.message, "another version"));
    saved_profiles_free(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_read_as_written),
        cmocka_unit_test(another_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
