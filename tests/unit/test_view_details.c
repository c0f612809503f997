/* SPDX-License-Identifier: Apache-2.0 */
/* The view's heap details of random stacks with types in three dumps, against sums made in the
 * simplest way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/import.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/details.h"

#define SITES 60
#define DUMPS 3
#define DEPTH_MAX 7
#define FUNCTIONS 4
#define TYPES 3 /* type 0: the allocation has no type */

static const char *const type_names[TYPES] = {"[unknown]", "Texture", "<img src=x>"};

struct made {
    struct site {
        char frames[DEPTH_MAX + 1]; /* a letter for each function, outermost first */
        int type;
        double bytes[DUMPS]; /* 0: not in this dump */
    } sites[SITES];
    struct view_profiles profiles;
};

/* --- a file of memory dumps --- */

static void write_nodes(FILE *out, const struct made *made)
{
    size_t id = 1;
    for (size_t i = 0; i < SITES; i++)
        for (const char *at = made->sites[i].frames; *at != '\0'; at++, id++) {
            fprintf(out, "%s{\"id\":%zu,\"name_sid\":%d", id == 1 ? "" : ",", id, *at - 'a' + 1);
            if (at != made->sites[i].frames)
                fprintf(out, ",\"parent\":%zu", id - 1);
            fprintf(out, "}");
        }
}

/* Write a member of the sites of a dump. */
static void write_list(FILE *out, const struct made *made, size_t dump, const char *name)
{
    size_t id = 0;
    const char *comma = "";
    fprintf(out, "\"%s\":[", name);
    for (size_t i = 0; i < SITES; i++) {
        const struct site *site = &made->sites[i];
        id += strlen(site->frames);
        if (site->bytes[dump] == 0)
            continue;
        double value = *name == 'n'   ? (double)id
                       : *name == 't' ? site->type
                       : *name == 'c' ? site->bytes[dump] / 10
                                      : site->bytes[dump];
        fprintf(out, "%s%.17g", comma, value);
        comma = ",";
    }
    fprintf(out, "]");
}

static void write_dump(FILE *out, const struct made *made, size_t dump)
{
    fprintf(out,
            "%s{\"ph\":\"v\",\"name\":\"periodic_interval\",\"id\":\"0x%zx\",\"pid\":7,\"tid\":-1,"
            "\"ts\":%zu,\"args\":{\"dumps\":{\"level_of_detail\":\"detailed\",\"heaps_v2\":{"
            "\"version\":1,\"maps\":{\"strings\":[",
            dump == 0 ? "" : ",", dump + 1, 1000 * (dump + 1));
    for (int i = 0; i < FUNCTIONS; i++)
        fprintf(out, "%s{\"id\":%d,\"string\":\"f_%c\"}", i == 0 ? "" : ",", i + 1, 'a' + i);
    for (int i = 0; i < TYPES; i++)
        fprintf(out, ",{\"id\":%d,\"string\":\"%s\"}", 100 + i, type_names[i]);
    fprintf(out, "],\"nodes\":[");
    write_nodes(out, made);
    fprintf(out, "],\"types\":[");
    for (int i = 0; i < TYPES; i++)
        fprintf(out, "%s{\"id\":%d,\"name_sid\":%d}", i == 0 ? "" : ",", i, 100 + i);
    fprintf(out, "]},\"allocators\":{\"malloc\":{");
    static const char *const lists[] = {"nodes", "types", "counts", "sizes"};
    for (size_t i = 0; i < 4; i++) {
        fprintf(out, i == 0 ? "" : ",");
        write_list(out, made, dump, lists[i]);
    }
    fprintf(out, "}}}}}}");
}

static void load(struct made *made)
{
    char *text = NULL;
    size_t length;
    struct error error = {0};
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "{\"traceEvents\":[");
    for (size_t i = 0; i < DUMPS; i++)
        write_dump(out, made, i);
    fprintf(out, "]}");
    fclose(out);
    struct profile *profile = import_profile_bytes(text, length, NULL, &error);
    assert_non_null(profile);
    assert_int_equal(profile->heaps[0].dump_count, DUMPS);
    memset(&made->profiles, 0, sizeof(made->profiles));
    assert_int_equal(view_profiles_add(&made->profiles, "made", profile, &error), 0);
    view_profiles_link(&made->profiles);
    free(text);
}

static void make_random(struct made *made, unsigned seed)
{
    srand(seed);
    for (size_t i = 0; i < SITES; i++) {
        struct site *site = &made->sites[i];
        int depth = 1 + rand() % DEPTH_MAX;
        for (int j = 0; j < depth; j++)
            site->frames[j] = (char)('a' + rand() % FUNCTIONS);
        site->frames[depth] = '\0';
        site->type = rand() % TYPES;
        for (size_t j = 0; j < DUMPS; j++)
            site->bytes[j] = rand() % 3 == 0 ? 0 : 10 * (1 + rand() % 100);
    }
    load(made);
}

/* --- the simplest sums --- */

static char letter_of(struct made *made, uint32_t function)
{
    struct function_names names;
    functions_name(&made->profiles.functions, function, &names);
    assert_int_equal(strlen(names.name), 3);
    return names.name[2];
}

static uint32_t function_of(struct made *made, char letter)
{
    for (size_t i = 0; i < made->profiles.functions.count; i++)
        if (letter_of(made, (uint32_t)i) == letter)
            return (uint32_t)i;
    return STACK_NONE;
}

/* Return whether a stack goes along a path, which upwards begins at its end. */
static bool goes_along(const struct site *site, const char *path, enum flame_direction direction)
{
    size_t length = strlen(path), depth = strlen(site->frames);
    if (length > depth)
        return false;
    if (direction == FLAME_DOWN)
        return strncmp(site->frames, path, length) == 0;
    for (size_t i = 0; i < length; i++)
        if (site->frames[depth - 1 - i] != path[i])
            return false;
    return true;
}

/* Return the bytes below a path in a dump; type -1: of all. */
static double sum_of(const struct made *made, const char *path, enum flame_direction direction,
                     int type, size_t dump)
{
    double sum = 0;
    for (size_t i = 0; i < SITES; i++)
        if ((type < 0 || made->sites[i].type == type) &&
            goes_along(&made->sites[i], path, direction))
            sum += made->sites[i].bytes[dump];
    return sum;
}

/* --- what is compared --- */

struct asked {
    struct made *made;
    struct view_selection selection; /* the last dump, and the first as base */
    struct details_request request;
    uint32_t path[DEPTH_MAX];
};

static void begin(struct asked *asked, struct made *made, const char *letters)
{
    struct error error = {0};
    const struct view_parameters parameters = {
        .items = {{"heap", "0.0"}, {"dump", "2"}, {"base", "0"}}, .count = 3};
    *asked = (struct asked){.made = made};
    assert_int_equal(view_selection_parse(&asked->selection, &made->profiles, &parameters, &error),
                     0);
    asked->request = (struct details_request){
        .profiles = &made->profiles,
        .selection = &asked->selection,
        .dumps = {asked->selection.at, asked->selection.base},
        .dump_count = 2,
        .path = asked->path,
        .path_length = strlen(letters),
    };
    assert_int_equal(view_selection_find_dump(&asked->selection, &made->profiles, "1",
                                              &asked->request.dumps[asked->request.dump_count++],
                                              &error),
                     0);
    for (size_t i = 0; i < strlen(letters); i++)
        asked->path[i] = function_of(made, letters[i]);
}

/* The dumps in the order in which they are asked for. */
static const size_t dump_order[DUMPS] = {2, 0, 1};

static void check_row(const struct asked *asked, const struct details *details,
                      const struct details_row *row, const char *path, int type)
{
    enum flame_direction direction = asked->request.direction;
    for (size_t i = 0; i < DUMPS; i++) {
        double bytes = sum_of(asked->made, path, direction, type, dump_order[i]);
        assert_float_equal(row->dumps[i].gained.bytes, bytes, 1e-6);
        assert_float_equal(row->dumps[i].gained.count, bytes / 10, 1e-6);
    }
    if (details->has_change)
        assert_float_equal(details_change(details, row, false).value,
                           sum_of(asked->made, path, direction, type, 2) -
                               sum_of(asked->made, path, direction, type, 0),
                           1e-6);
}

/* Check a level and all levels below it. Return the number of rows. */
static size_t check_level(struct made *made, const char *letters, enum flame_direction direction)
{
    struct asked asked;
    struct details details;
    size_t rows = 0;
    begin(&asked, made, letters);
    asked.request.direction = direction;
    assert_int_equal(details_make(&details, &asked.request), 0);
    assert_true(details.has_change);
    check_row(&asked, &details, &details.total, letters, -1);
    for (size_t i = 0; i < details.count; i++, rows++) {
        char below[DEPTH_MAX + 2];
        snprintf(below, sizeof(below), "%s%c", letters, letter_of(made, details.rows[i].function));
        check_row(&asked, &details, &details.rows[i], below, -1);
        if (details.rows[i].opens)
            rows += check_level(made, below, direction);
    }
    details_free(&details);
    view_selection_clear(&asked.selection);
    return rows;
}

static void test_levels(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 3; seed++) {
        struct made made;
        make_random(&made, seed);
        for (enum flame_direction direction = FLAME_DOWN; direction <= FLAME_UP; direction++) {
            /* Each path that a dump has something on is a row of some level. */
            size_t paths = 0;
            for (size_t i = 0; i < SITES; i++)
                for (size_t length = 1; length <= strlen(made.sites[i].frames); length++) {
                    char path[DEPTH_MAX + 1] = "";
                    const char *frames = made.sites[i].frames;
                    for (size_t j = 0; j < length; j++)
                        path[j] =
                            direction == FLAME_DOWN ? frames[j] : frames[strlen(frames) - 1 - j];
                    double sum = 0;
                    bool is_first = true;
                    for (size_t dump = 0; dump < DUMPS; dump++)
                        sum += sum_of(&made, path, direction, -1, dump);
                    for (size_t j = 0; j < i; j++)
                        is_first = is_first && !goes_along(&made.sites[j], path, direction);
                    paths += is_first && sum > 0;
                }
            assert_int_equal(check_level(&made, "", direction), paths);
        }
        view_profiles_free(&made.profiles);
    }
}

static void check_types(struct made *made, const char *letters, enum flame_direction direction)
{
    struct asked asked;
    struct details details;
    begin(&asked, made, letters);
    asked.request.direction = direction;
    asked.request.by = DETAILS_BY_TYPE;
    assert_int_equal(details_make(&details, &asked.request), 0);
    assert_true(details.has_types);
    check_row(&asked, &details, &details.total, letters, -1);
    for (size_t i = 0; i < details.count; i++) {
        const char *label = details.rows[i].label;
        int type = *label == '\0' ? 0 : strcmp(label, type_names[1]) == 0 ? 1 : 2;
        assert_string_equal(label, type == 0 ? "" : type_names[type]);
        check_row(&asked, &details, &details.rows[i], letters, type);
    }
    details_free(&details);
    view_selection_clear(&asked.selection);
}

static void test_types(void **state)
{
    static const char *const paths[] = {"", "a", "ab", "bca", "dddd"};
    (void)state;
    for (unsigned seed = 1; seed <= 3; seed++) {
        struct made made;
        make_random(&made, 50 + seed);
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
            check_types(&made, paths[i], FLAME_DOWN);
            check_types(&made, paths[i], FLAME_UP);
        }
        view_profiles_free(&made.profiles);
    }
}

/* --- questions --- */

/* Return the answer's code, and its text in `text`. */
static int ask(struct made *made, struct view_parameter parameter, char **text)
{
    const struct view_parameters parameters = {.items = {{"heap", "0.0"}, parameter}, .count = 2};
    struct error error = {0};
    size_t length;
    FILE *out = open_memstream(text, &length);
    int code = answer_details(&made->profiles, &parameters, out, &error);
    fclose(out);
    assert_int_equal(code < 0, *error.message != '\0');
    return code;
}

static void test_questions(void **state)
{
    static const struct view_parameter wrong[] = {
        {"by", "thread"},
        {"by", ""},
        {"direction", "callers"},
        {"order", "size"},
        {"order", "dump"},
        {"order", "dump4"},
        {"order", "dump01"},
        {"order", "--x"},
        {"root", "x"},
        {"root", "99999"},
        {"root", "0.0.0.0.0.0.0.0.0"},
        {"also", "7"},
        {"also", "1.0.0"},
        {"also", ""},
        {"limit", "0"},
        {"limit", "1e3"},
    };
    static const struct view_parameter right[] = {
        {"by", "type"},    {"order", "-name"}, {"order", "dump3"}, {"also", "0.0.1"},
        {"search", "F_A"}, {"root", ""},       {"limit", "1"},
    };
    struct made made;
    char *text;
    (void)state;
    make_random(&made, 99);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int code = ask(&made, wrong[i], &text);
        assert_true(code == -EINVAL || code == -ENOENT);
        free(text);
    }
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        assert_int_equal(ask(&made, right[i], &text), 0);
        free(text);
    }
    assert_int_equal(ask(&made, (struct view_parameter){"order", "name"}, &text), 0);
    const char *first = strstr(text, "f_a");
    assert_non_null(first);
    assert_true(first < strstr(text, "f_b") && strstr(text, "f_b") < strstr(text, "f_d"));
    free(text);
    view_profiles_free(&made.profiles);
}

/* --- limits --- */

/* Ask, with the second dump as the base of a difference or not, and check that no figure has limits
 * or that all have. */
static void check_limits(struct made *made, answer_function *answer, const char *low,
                         bool is_difference, bool are_known)
{
    const struct view_parameters parameters = {.items = {{"heap", "0.0"},
                                                         {"dump", "2"},
                                                         {"format", "json"},
                                                         {"base", is_difference ? "1" : ""}},
                                               .count = 4};
    struct error error = {0};
    char *text = NULL;
    size_t length, unknown = 0, all = 0;
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(answer(&made->profiles, &parameters, out, &error), 0);
    fclose(out);
    for (const char *at = text;
         (at = memmem(at, length - (size_t)(at - text), low, strlen(low))) != NULL; all++) {
        at += strlen(low);
        unknown += strncmp(at, "null", 4) == 0;
    }
    assert_true(all > 0);
    assert_int_equal(unknown, are_known ? 0 : all);
    free(text);
}

static void check_all_limits(struct made *made, bool is_difference, bool are_known)
{
    check_limits(made, answer_details, "\"low\":", is_difference, are_known);
    check_limits(made, answer_export, "\"low95\":", is_difference, are_known);
    check_limits(made, answer_flame, "\"low\":", is_difference, are_known);
    check_limits(made, answer_overview, "\"low\":", is_difference, are_known);
    check_limits(made, answer_table, "\"low\":", is_difference, are_known);
}

/* The page calls a figure exact if both limits are equal to it. */
static void test_limits(void **state)
{
    struct made made;
    (void)state;
    make_random(&made, 7);
    struct profile_heap *heap = &made.profiles.items[0].profile->heaps[0];
    heap->interval_bytes = heap->first_interval_bytes = 1;
    check_all_limits(&made, false, true);
    check_all_limits(&made, true, true);
    heap->status.lost[TRACE_LOST_OVERRUN] = 1;
    check_all_limits(&made, false, false);
    check_all_limits(&made, true, false);
    heap->status.lost[TRACE_LOST_OVERRUN] = 0;
    heap->status.weighed_samples = 1; /* drawn by the program itself */
    check_all_limits(&made, false, false);
    view_profiles_free(&made.profiles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
