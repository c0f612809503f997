/* SPDX-License-Identifier: Apache-2.0 */
/* The view's flame graphs, filters and tables of random stacks, against sums made in the simplest
 * way; and who may ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/import.h"
#include "tools/view/answers/table.h"
#include "tools/view/server/access.h"
#include "tools/view/server/perfetto.h"

#define STACKS 80
#define DEPTH_MAX 9
#define FUNCTIONS 6
#define TEXT_MAX 256

/* --- stacks --- */

struct stack {
    char frames[DEPTH_MAX + 1]; /* a letter for each function, outermost first */
    double bytes;
};

struct made {
    struct stack stacks[STACKS];
    size_t count;
    struct view_profiles profiles;
};

static void load(struct made *made)
{
    char *text = NULL;
    size_t length;
    struct error error = {0};
    FILE *out = open_memstream(&text, &length);
    memset(&made->profiles, 0, sizeof(made->profiles));
    for (size_t i = 0; i < made->count; i++) {
        for (const char *at = made->stacks[i].frames; *at != '\0'; at++)
            fprintf(out, "%sf_%c", at == made->stacks[i].frames ? "" : ";", *at);
        fprintf(out, " %.0f\n", made->stacks[i].bytes);
    }
    fclose(out);
    struct profile *profile = import_profile_bytes(text, length, NULL, &error);
    assert_non_null(profile);
    assert_int_equal(view_profiles_add(&made->profiles, "made", profile, &error), 0);
    view_profiles_link(&made->profiles);
    free(text);
}

/* Distinct stacks: a file of collapsed stacks may name one twice, but this is not the matter. */
static void make_random(struct made *made, unsigned seed)
{
    srand(seed);
    made->count = 0;
    while (made->count < STACKS) {
        struct stack *stack = &made->stacks[made->count];
        int depth = 1 + rand() % DEPTH_MAX;
        bool is_new = true;
        for (int i = 0; i < depth; i++)
            stack->frames[i] = (char)('a' + rand() % FUNCTIONS);
        stack->frames[depth] = '\0';
        stack->bytes = 1 + rand() % 1000;
        for (size_t i = 0; i < made->count; i++)
            is_new = is_new && strcmp(made->stacks[i].frames, stack->frames) != 0;
        made->count += is_new;
    }
    load(made);
}

static uint32_t function_of(struct made *made, char letter)
{
    const char wanted[] = {'f', '_', letter, '\0'};
    struct function_names names;
    for (size_t i = 0; i < made->profiles.functions.count; i++) {
        functions_name(&made->profiles.functions, (uint32_t)i, &names);
        if (strcmp(names.name, wanted) == 0)
            return (uint32_t)i;
    }
    return STACK_NONE;
}

static char letter_of(struct made *made, uint32_t function)
{
    struct function_names names;
    functions_name(&made->profiles.functions, function, &names);
    assert_int_equal(strlen(names.name), 3);
    return names.name[2];
}

/* --- sums in the simplest way --- */

struct sums {
    struct sum {
        char path[DEPTH_MAX + 2];
        double bytes, self;
    } items[STACKS * (DEPTH_MAX + 2)];
    size_t count;
};

static struct sum *sum_of(struct sums *sums, const char *path)
{
    for (size_t i = 0; i < sums->count; i++)
        if (strcmp(sums->items[i].path, path) == 0)
            return &sums->items[i];
    struct sum *sum = &sums->items[sums->count++];
    memset(sum, 0, sizeof(*sum));
    snprintf(sum->path, sizeof(sum->path), "%s", path);
    return sum;
}

static void reverse(char *text)
{
    for (size_t i = 0, j = strlen(text); i + 1 < j; i++, j--) {
        char c = text[i];
        text[i] = text[j - 1];
        text[j - 1] = c;
    }
}

/* Add a stack to the sum of each of its beginnings. */
static void add_path(struct sums *sums, const char *path, double bytes)
{
    char part[DEPTH_MAX + 2];
    for (size_t length = 0; length <= strlen(path); length++) {
        snprintf(part, sizeof(part), "%.*s", (int)length, path);
        struct sum *sum = sum_of(sums, part);
        sum->bytes += bytes;
        sum->self += length == strlen(path) ? bytes : 0;
    }
}

/* --- graphs --- */

static struct view_selection select_all(struct made *made, const char *const *filters, size_t count)
{
    struct view_selection selection;
    struct view_parameters parameters = {.items = {{"heap", "0.0"}}, .count = 1};
    struct error error = {0};
    for (size_t i = 0; i < count; i++)
        parameters.items[parameters.count++] = (struct view_parameter){"filter", filters[i]};
    assert_int_equal(view_selection_parse(&selection, &made->profiles, &parameters, &error), 0);
    return selection;
}

/* Compare a graph with sums: every path is there once, with its bytes and what ends at it. The sums
 * have the root under "". */
static void check_graph(struct made *made, const struct flame *flame, struct sums *sums,
                        const char *begins_with)
{
    char(*paths)[DEPTH_MAX + 2] = calloc(flame->count, sizeof(*paths));
    assert_int_equal(flame->count, sums->count);
    for (size_t i = 0; i < flame->count; i++) {
        const struct flame_node *node = &flame->nodes[i];
        if (i == 0)
            snprintf(paths[i], sizeof(paths[i]), "%s", begins_with);
        else
            snprintf(paths[i], sizeof(paths[i]), "%.*s%c", DEPTH_MAX, paths[node->parent],
                     letter_of(made, node->function));
        const struct sum *sum = sum_of(sums, paths[i]);
        assert_float_equal(node->sum.gained.bytes, sum->bytes, 1e-6);
        assert_float_equal(node->sum.width, sum->bytes, 1e-6);
        if (i > 0)
            assert_float_equal(node->self.gained.bytes, sum->self, 1e-6);
        /* Siblings are together, the largest first. */
        if (i > 1 && node->parent == flame->nodes[i - 1].parent)
            assert_true(node->sum.width <= flame->nodes[i - 1].sum.width);
        else if (i > 1)
            assert_true(node->parent > flame->nodes[i - 1].parent);
    }
    assert_int_equal(flame->count, sums->count); /* sum_of() made no new one */
    free(paths);
}

static struct flame_request request_of(struct made *made, const struct view_leaves *leaves,
                                       enum flame_direction direction)
{
    return (struct flame_request){.tree = view_profiles_tree(&made->profiles),
                                  .leaves = leaves->items,
                                  .leaf_count = leaves->count,
                                  .function_count = made->profiles.functions.count,
                                  .direction = direction};
}

/* The innermost part of a stack from the outermost `letter`, or the outer part up to it. */
static bool part_of(const char *frames, char letter, bool inner, char part[DEPTH_MAX + 1])
{
    const char *at = strchr(frames, letter);
    if (at == NULL)
        return false;
    if (inner)
        snprintf(part, DEPTH_MAX + 1, "%s", at);
    else
        snprintf(part, DEPTH_MAX + 1, "%.*s", (int)(at - frames) + 1, frames);
    return true;
}

static void check_direction(struct made *made, const struct view_leaves *leaves,
                            enum flame_direction direction, char letter)
{
    struct flame_request request = request_of(made, leaves, direction);
    struct sums *sums = calloc(1, sizeof(*sums));
    struct flame flame;
    char part[DEPTH_MAX + 1];
    bool of_function = direction >= FLAME_CALLEES;
    for (size_t i = 0; i < made->count; i++) {
        snprintf(part, sizeof(part), "%s", made->stacks[i].frames);
        if (of_function &&
            !part_of(made->stacks[i].frames, letter, direction == FLAME_CALLEES, part))
            continue;
        if (direction == FLAME_UP || direction == FLAME_CALLERS)
            reverse(part);
        /* A graph of a function has the function as its root. */
        add_path(sums, part, made->stacks[i].bytes);
    }
    request.function = of_function ? function_of(made, letter) : 0;
    int code = flame_make(&request, &flame);
    if (of_function && sums->count == 0) {
        assert_int_equal(code, -ENOENT);
    } else {
        const char root[] = {of_function ? letter : '\0', '\0'};
        assert_int_equal(code, 0);
        assert_false(flame.pruned);
        if (of_function) /* the empty path is no node */
            memmove(&sums->items[0], &sums->items[1], --sums->count * sizeof(sums->items[0]));
        check_graph(made, &flame, sums, root);
        flame_free(&flame);
    }
    free(sums);
}

static void test_directions(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct made made;
        struct view_leaves leaves;
        make_random(&made, seed);
        struct view_selection selection = select_all(&made, NULL, 0);
        view_leaves_make(&leaves, &made.profiles, &selection);
        check_direction(&made, &leaves, FLAME_DOWN, 0);
        check_direction(&made, &leaves, FLAME_UP, 0);
        for (char letter = 'a'; letter < 'a' + FUNCTIONS; letter++) {
            check_direction(&made, &leaves, FLAME_CALLEES, letter);
            check_direction(&made, &leaves, FLAME_CALLERS, letter);
        }
        view_leaves_free(&leaves);
        view_selection_clear(&selection);
        view_profiles_free(&made.profiles);
    }
}

/* --- filters --- */

/* Apply the filters to a stack as docs/view.md says. Return false if it is left out. */
static bool filtered(const char *frames, const char *focus, const char *ignore, const char *hide,
                     const char *show_from, char left[DEPTH_MAX + 1])
{
    size_t count = 0;
    const char *begin = frames;
    if (strpbrk(frames, focus) == NULL || strpbrk(frames, ignore) != NULL)
        return false;
    if (*show_from != '\0') {
        begin = strpbrk(frames, show_from);
        while (begin != NULL && strchr(hide, *begin) != NULL)
            begin = strpbrk(begin + 1, show_from);
        if (begin == NULL)
            return false;
    }
    for (const char *at = begin; *at != '\0'; at++)
        if (strchr(hide, *at) == NULL)
            left[count++] = *at;
    left[count] = '\0';
    return count > 0;
}

static void test_filters(void **state)
{
    static const struct {
        const char *patterns[4], *focus, *ignore, *hide, *show_from;
        size_t count;
    } cases[] = {
        {{"focus:f_b"}, "b", "", "", "", 1},
        {{"ignore:f_[bc]"}, "abcdef", "bc", "", "", 1},
        {{"hide:f_a"}, "abcdef", "", "a", "", 1},
        {{"hide:f_a", "hide:f_[bcd]"}, "abcdef", "", "abcd", "", 2},
        {{"show-from:f_c"}, "abcdef", "", "", "c", 1},
        {{"hide:f_c", "show-from:f_[cd]"}, "abcdef", "", "c", "cd", 2},
        {{"focus:f_e", "hide:f_[ab]", "show-from:f_d", "ignore:f_f"}, "e", "f", "ab", "d", 4},
    };
    (void)state;
    for (unsigned seed = 1; seed <= 10; seed++) {
        struct made made;
        make_random(&made, 100 + seed);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct view_selection selection = select_all(&made, cases[i].patterns, cases[i].count);
            struct sums *sums = calloc(1, sizeof(*sums));
            struct view_leaves leaves;
            struct flame flame;
            double out = 0;
            char left[DEPTH_MAX + 1];
            sum_of(sums, "");
            for (size_t j = 0; j < made.count; j++) {
                if (filtered(made.stacks[j].frames, cases[i].focus, cases[i].ignore, cases[i].hide,
                             cases[i].show_from, left))
                    add_path(sums, left, made.stacks[j].bytes);
                else
                    out += made.stacks[j].bytes;
            }
            view_leaves_make(&leaves, &made.profiles, &selection);
            assert_float_equal(leaves.left_out.gained.bytes, out, 1e-6);
            struct flame_request request = request_of(&made, &leaves, FLAME_DOWN);
            assert_int_equal(flame_make(&request, &flame), 0);
            check_graph(&made, &flame, sums, "");
            flame_free(&flame);
            view_leaves_free(&leaves);
            view_selection_clear(&selection);
            free(sums);
        }
        view_profiles_free(&made.profiles);
    }
}

/* Two patterns of show-from: the second sees what the first has left. */
static void test_show_from_twice(void **state)
{
    static const char *const filters[] = {"show-from:f_b", "show-from:f_a"};
    struct made made = {.stacks = {{"abca", 1}, {"ab", 2}, {"bca", 4}, {"cab", 8}}, .count = 4};
    struct view_leaves leaves;
    (void)state;
    load(&made);
    struct view_selection selection = select_all(&made, filters, 2);
    view_leaves_make(&leaves, &made.profiles, &selection);
    assert_int_equal(leaves.count, 1); /* "a", of abca and bca */
    assert_float_equal(leaves.items[0].own.gained.bytes, 5, 0);
    assert_float_equal(leaves.left_out.gained.bytes, 10, 0);
    view_leaves_free(&leaves);
    view_selection_clear(&selection);
    view_profiles_free(&made.profiles);
}

/* What earlier filters left is not taken for what others leave, whatever their text is. */
static void test_filter_with_line_break(void **state)
{
    char joined[64];
    const char *const two[] = {"focus:f_a", "hide:f_b"}, *const one[] = {joined};
    struct made made = {.stacks = {{"ab", 1}}, .count = 1};
    struct view_leaves leaves;
    (void)state;
    load(&made);
    snprintf(joined, sizeof(joined), "%s\n%d f_b", two[0], (int)PROFILE_HIDE);
    struct view_selection selection = select_all(&made, two, 2);
    view_selection_clear(&selection);
    selection = select_all(&made, one, 1);
    view_leaves_make(&leaves, &made.profiles, &selection);
    assert_float_equal(leaves.left_out.gained.bytes, 1, 0);
    view_leaves_free(&leaves);
    view_selection_clear(&selection);
    view_profiles_free(&made.profiles);
}

/* --- what is left out, and paths --- */

static void test_least_and_path(void **state)
{
    struct made made = {.stacks = {{"abc", 600}, {"abd", 300}, {"ae", 90}, {"f", 10}}, .count = 4};
    struct view_leaves leaves;
    struct flame flame;
    (void)state;
    load(&made);
    struct view_selection selection = select_all(&made, NULL, 0);
    view_leaves_make(&leaves, &made.profiles, &selection);
    struct flame_request request = request_of(&made, &leaves, FLAME_DOWN);
    request.least = 0.05;
    assert_int_equal(flame_make(&request, &flame), 0);
    assert_true(flame.pruned);
    assert_int_equal(flame.count, 6); /* all but f */
    flame_free(&flame);
    for (size_t enough = 6; enough <= 7; enough++) {
        request.enough = enough;
        assert_int_equal(flame_make(&request, &flame), 0);
        assert_int_equal(flame.count, enough);
        assert_int_equal(flame.pruned, enough == 6);
        flame_free(&flame);
    }
    request.enough = 0;

    const uint32_t path[] = {function_of(&made, 'a'), function_of(&made, 'b')};
    request.path = path;
    request.path_length = 2;
    assert_int_equal(flame_make(&request, &flame), 0);
    assert_false(flame.pruned);
    assert_int_equal(flame.count, 3);
    assert_int_equal(flame.nodes[0].function, path[1]);
    assert_float_equal(flame.nodes[0].sum.gained.bytes, 900, 1e-9);
    flame_free(&flame);

    const uint32_t wrong[] = {path[1]};
    request.path = wrong;
    request.path_length = 1;
    assert_int_equal(flame_make(&request, &flame), -ENOENT);
    view_leaves_free(&leaves);
    view_selection_clear(&selection);
    view_profiles_free(&made.profiles);
}

/* --- tables --- */

static void test_table(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 10; seed++) {
        struct made made;
        struct view_leaves leaves;
        struct table table;
        struct error error = {0};
        make_random(&made, 200 + seed);
        struct view_selection selection = select_all(&made, NULL, 0);
        view_leaves_make(&leaves, &made.profiles, &selection);
        assert_int_equal(
            table_make(&table, &made.profiles, &selection, &leaves, VIEW_FUNCTION, &error), 0);
        assert_int_equal(table.count, FUNCTIONS);
        for (size_t i = 0; i < table.count; i++) {
            char letter = letter_of(&made, table.rows[i].function);
            double total = 0, self = 0;
            for (size_t j = 0; j < made.count; j++) {
                const struct stack *stack = &made.stacks[j];
                total += strchr(stack->frames, letter) != NULL ? stack->bytes : 0;
                self += stack->frames[strlen(stack->frames) - 1] == letter ? stack->bytes : 0;
            }
            assert_float_equal(table.rows[i].total.gained.bytes, total, 1e-6);
            assert_float_equal(table.rows[i].self.gained.bytes, self, 1e-6);
        }
        table_free(&table);
        view_leaves_free(&leaves);
        view_selection_clear(&selection);
        view_profiles_free(&made.profiles);
    }
}

/* --- questions --- */

static void test_wrong_questions(void **state)
{
    static const struct view_parameter wrong[] = {
        {"heap", "0"},
        {"heap", "1.0"},
        {"heap", "0.1"},
        {"heap", "0.0.0"},
        {"heap", "0.0x"},
        {"heap", "-1.0"},
        {"heap", ""},
        {"dump", "1"},
        {"dump", ""},
        {"dump", "0x"},
        {"dump", "99999999999999999999999"},
        {"base", "7"},
        {"base", "0.0"},
        {"base", "0.0.5"},
        {"view", "spaces"},
        {"view", ""},
        {"filter", "focus"},
        {"filter", "focus:"},
        {"filter", "focus:["},
        {"filter", "keep:x"},
        {"only", "thread"},
        {"only", "thread:"},
        {"only", "thread:-1"},
        {"only", "thread:99999999999"},
        {"only", "size:3"},
        {"only", "lifetime:x"},
        {"only", "type:t"},
        {"only", "function:f_a"},
        {"only", "function:@"},
        {"only", "holder:99999999999999999999"},
        {"only", "colour:red"},
    };
    struct made made = {.stacks = {{"ab", 1}}, .count = 1};
    (void)state;
    load(&made);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct view_parameters parameters = {.items = {wrong[i], {"heap", "0.0"}}, .count = 2};
        struct view_selection selection;
        struct error error = {0};
        int code = view_selection_parse(&selection, &made.profiles, &parameters, &error);
        assert_true(code == -EINVAL || code == -ENOENT);
        assert_string_not_equal(error.message, "");
        view_selection_clear(&selection);
    }
    view_profiles_free(&made.profiles);
}

/* --- who may ask --- */

static void test_access(void **state)
{
    static const struct {
        const char *host, *origin, *fetch_site, *page;
        enum access_answer answer;
    } cases[] = {
        {"127.0.0.1:8000", NULL, NULL, "api/tree", ACCESS_GRANTED},
        {"localhost:8000", "http://localhost:8000", "same-origin", "api/tree", ACCESS_GRANTED},
        {"[::1]:8000", "http://127.0.0.1:8000", NULL, "api/tree", ACCESS_GRANTED},
        {"127.0.0.1:8000", NULL, "cross-site", "", ACCESS_GRANTED},
        {NULL, NULL, NULL, "api/tree", ACCESS_WRONG_HOST},
        {"example.org:8000", NULL, NULL, "api/tree", ACCESS_WRONG_HOST},
        {"127.0.0.1.example.org:8000", NULL, NULL, "api/tree", ACCESS_WRONG_HOST},
        {"127.0.0.1", NULL, NULL, "api/tree", ACCESS_WRONG_HOST},
        {"127.0.0.1:80001", NULL, NULL, "api/tree", ACCESS_WRONG_HOST},
        {"127.0.0.1:8000", "http://example.org", NULL, "api/tree", ACCESS_WRONG_ORIGIN},
        {"127.0.0.1:8000", "https://127.0.0.1:8000", NULL, "api/tree", ACCESS_WRONG_ORIGIN},
        {"127.0.0.1:8000", "null", NULL, "api/tree", ACCESS_WRONG_ORIGIN},
        {"127.0.0.1:8000", NULL, "cross-site", "api/tree", ACCESS_WRONG_ORIGIN},
        {"127.0.0.1:8000", NULL, "same-site", "api/tree", ACCESS_WRONG_ORIGIN},
    };
    struct access access;
    char path[TEXT_MAX];
    const char *page;
    (void)state;
    assert_int_equal(access_begin(&access, 8000), 0);
    assert_int_equal(strlen(access.token), ACCESS_TOKEN_LENGTH);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(path, sizeof(path), "/%s/%s", access.token, cases[i].page);
        const struct access_request request = {path, cases[i].host, cases[i].origin,
                                               cases[i].fetch_site};
        assert_int_equal(access_judge(&access, &request, &page), cases[i].answer);
        if (cases[i].answer == ACCESS_GRANTED)
            assert_string_equal(page, cases[i].page);
    }
    /* Each digit of the token counts, and so does the end of it. */
    for (size_t i = 0; i <= ACCESS_TOKEN_LENGTH; i++) {
        snprintf(path, sizeof(path), "/%s/api/tree", access.token);
        path[1 + i] = path[1 + i] == 'x' ? 'y' : 'x';
        const struct access_request request = {path, "localhost:8000", NULL, NULL};
        assert_int_equal(access_judge(&access, &request, &page), ACCESS_WRONG_TOKEN);
        path[1 + i] = '\0';
        assert_int_equal(access_judge(&access, &request, &page), ACCESS_WRONG_TOKEN);
    }
    /* A unix socket is reached through any port. */
    access.port = 0;
    snprintf(path, sizeof(path), "/%s/", access.token);
    const struct access_request forwarded = {path, "localhost:1234", NULL, NULL};
    assert_int_equal(access_judge(&access, &forwarded, &page), ACCESS_GRANTED);
    const struct access_request foreign = {path, "localhost.example.org", NULL, NULL};
    assert_int_equal(access_judge(&access, &foreign, &page), ACCESS_WRONG_HOST);
}

static void test_perfetto(void **state)
{
    static const char own[] = "127.0.0.1:9001", perfetto[] = "https://ui.perfetto.dev";
    static const struct {
        const char *method, *host, *origin, *name;
        enum perfetto_answer answer;
    } cases[] = {
        {"GET", own, perfetto, "raw-trace", PERFETTO_FILE},
        {"HEAD", own, perfetto, "raw-trace", PERFETTO_FILE},
        {"GET", own, NULL, "raw-trace", PERFETTO_FILE},
        {"OPTIONS", own, perfetto, "raw-trace", PERFETTO_PREFLIGHT},
        {"OPTIONS", own, NULL, "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"OPTIONS", own, "https://example.org", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"OPTIONS", own, perfetto, "", PERFETTO_WRONG_PATH},
        {"GET", NULL, perfetto, "raw-trace", PERFETTO_WRONG_HOST},
        {"GET", "127.0.0.1", perfetto, "raw-trace", PERFETTO_WRONG_HOST},
        {"GET", "127.0.0.1:90010", perfetto, "raw-trace", PERFETTO_WRONG_HOST},
        {"GET", "localhost:9001", perfetto, "raw-trace", PERFETTO_WRONG_HOST},
        {"GET", "example.org:9001", perfetto, "raw-trace", PERFETTO_WRONG_HOST},
        {"GET", "ui.perfetto.dev", perfetto, "raw-trace", PERFETTO_WRONG_HOST},
        {"GET", own, "http://ui.perfetto.dev", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"GET", own, "https://ui.perfetto.dev.example.org", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"GET", own, "https://ui.perfetto.dev:8443", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"GET", own, "http://127.0.0.1:9001", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"GET", own, "null", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"GET", own, "", "raw-trace", PERFETTO_WRONG_ORIGIN},
        {"GET", own, perfetto, "raw-trace2", PERFETTO_WRONG_PATH},
        {"GET", own, perfetto, "raw-trac", PERFETTO_WRONG_PATH},
        {"GET", own, perfetto, "raw-trace/", PERFETTO_WRONG_PATH},
        {"POST", own, perfetto, "raw-trace", PERFETTO_WRONG_METHOD},
        {"PUT", own, NULL, "raw-trace", PERFETTO_WRONG_METHOD},
        {"get", own, perfetto, "raw-trace", PERFETTO_WRONG_METHOD},
    };
    struct access access;
    char path[TEXT_MAX];
    (void)state;
    assert_int_equal(access_begin(&access, PERFETTO_PORT), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(path, sizeof(path), "/%s/%s", access.token, cases[i].name);
        const struct perfetto_request request = {cases[i].method, path, cases[i].host,
                                                 cases[i].origin};
        assert_int_equal(perfetto_judge(&access, PERFETTO_UI, "raw-trace", &request),
                         cases[i].answer);
    }
    /* Each digit of the token counts, and so does its end. */
    for (size_t i = 0; i <= ACCESS_TOKEN_LENGTH; i++) {
        snprintf(path, sizeof(path), "/%s/raw-trace", access.token);
        path[1 + i] = path[1 + i] == 'x' ? 'y' : 'x';
        const struct perfetto_request request = {"GET", path, own, perfetto};
        assert_int_equal(perfetto_judge(&access, PERFETTO_UI, "raw-trace", &request),
                         PERFETTO_WRONG_PATH);
        path[1 + i] = '\0';
        assert_int_equal(perfetto_judge(&access, PERFETTO_UI, "raw-trace", &request),
                         PERFETTO_WRONG_PATH);
    }
}

/* The page that a user hosts: only an address that a link and a header line can contain. */
static void test_perfetto_page(void **state)
{
    static const struct {
        const char *given, *address, *origin; /* NULL: refused */
    } cases[] = {
        {"https://ui.perfetto.dev", "https://ui.perfetto.dev", "https://ui.perfetto.dev"},
        {"https://ui.perfetto.dev/", "https://ui.perfetto.dev", "https://ui.perfetto.dev"},
        {"http://localhost:10000", "http://localhost:10000", "http://localhost:10000"},
        {"http://A.Example:80/b/c//", "http://A.Example:80/b/c", "http://a.example"},
        {"https://a.example:443", "https://a.example:443", "https://a.example"},
        {"https://a.example:4430/v~1", "https://a.example:4430/v~1", "https://a.example:4430"},
        {"", NULL, NULL},
        {"https://", NULL, NULL},
        {"https:///x", NULL, NULL},
        {"https://:80", NULL, NULL},
        {"ftp://a", NULL, NULL},
        {"ui.perfetto.dev", NULL, NULL},
        {"https://a/?x", NULL, NULL},
        {"https://a/#x", NULL, NULL},
        {"https://a\r\nX: y", NULL, NULL},
        {"https://a/\"onload", NULL, NULL},
        {"https://user@a", NULL, NULL},
        {"https://a:80x", NULL, NULL},
    };
    char longest[PERFETTO_UI_BYTES + 1] = "https://";
    struct perfetto_ui ui;
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int code = perfetto_ui_parse(&ui, cases[i].given, &error);
        assert_int_equal(code, cases[i].address == NULL ? -EINVAL : 0);
        if (code == 0) {
            assert_string_equal(ui.address, cases[i].address);
            assert_string_equal(ui.origin, cases[i].origin);
        }
    }
    memset(longest + 8, 'a', sizeof(longest) - 9);
    assert_int_equal(perfetto_ui_parse(&ui, longest, &error), -EINVAL);
    longest[sizeof(longest) - 2] = '\0';
    assert_int_equal(perfetto_ui_parse(&ui, longest, &error), 0);
}

/* Sums in another order differ in their last bits; different figures stay different. */
static void test_rank(void **state)
{
    (void)state;
    double one = 0.1 + 0.2 + 0.3, other = 0.3 + 0.2 + 0.1;
    assert_true(one != other);
    assert_true(flame_rank(one) == flame_rank(other));
    assert_true(flame_rank(-one) == flame_rank(-other));
    assert_true(flame_rank(16777217) > flame_rank(16777216));
    assert_true(flame_rank(0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_show_from_twice),
        cmocka_unit_test(test_least_and_path),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_wrong_questions),
        cmocka_unit_test(test_access),
        cmocka_unit_test(test_perfetto),
        cmocka_unit_test(test_perfetto_page),
        cmocka_unit_test(test_filter_with_line_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
