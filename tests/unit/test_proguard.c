/* SPDX-License-Identifier: Apache-2.0 */
/* ProGuard's and R8's mapping files, line by line, and the packages of Java frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/deobfuscate/deobfuscate.h"
#include "profile/deobfuscate/proguard_map.h"
#include "profile/java_frame.h"

#define ENTRIES_MAX 16

struct read_map {
    struct entry {
        enum proguard_kind kind;
        char original[128], obfuscated[128];
        bool has_lines;
        uint32_t first_line, last_line;
        enum proguard_source source;
        uint32_t source_first, source_last;
    } entries[ENTRIES_MAX];
    size_t count, unknown;
    int status;
    struct error error;
};

static void copy(char *to, size_t size, struct proguard_text text)
{
    assert_true(text.length < size);
    memcpy(to, text.at, text.length);
    to[text.length] = '\0';
}

static struct read_map read_map(const char *text)
{
    struct read_map result = {0};
    struct proguard_entry entry;
    struct proguard_map *map = proguard_map_open_bytes("map", text, strlen(text), &result.error);
    assert_non_null(map);
    while ((result.status = proguard_map_next(map, &entry, &result.error)) > 0) {
        assert_true(result.count < ENTRIES_MAX);
        struct entry *to = &result.entries[result.count++];
        *to = (struct entry){
            .kind = entry.kind,
            .has_lines = entry.has_lines,
            .first_line = entry.first_line,
            .last_line = entry.last_line,
            .source = entry.source,
            .source_first = entry.source_first,
            .source_last = entry.source_last,
        };
        copy(to->original, sizeof(to->original), entry.original);
        copy(to->obfuscated, sizeof(to->obfuscated), entry.obfuscated);
    }
    result.unknown = proguard_map_unknown_lines(map);
    proguard_map_close(map);
    return result;
}

static void check_names(const struct entry *entry, enum proguard_kind kind, const char *original,
                        const char *obfuscated)
{
    assert_int_equal(entry->kind, kind);
    assert_string_equal(entry->original, original);
    assert_string_equal(entry->obfuscated, obfuscated);
}

static void check_lines(const struct entry *entry, uint32_t first, uint32_t last,
                        enum proguard_source source, uint32_t source_first, uint32_t source_last)
{
    assert_true(entry->has_lines);
    assert_int_equal(entry->first_line, first);
    assert_int_equal(entry->last_line, last);
    assert_int_equal(entry->source, source);
    assert_int_equal(entry->source_first, source_first);
    assert_int_equal(entry->source_last, source_last);
}

static void test_classes_and_members(void **state)
{
    (void)state;
    struct read_map map = read_map("androidx.core.Executor$Task -> a.b$c:\n"
                                   "    androidx.core.Executor delegate -> b\n"
                                   "    15:15:boolean isMainThread():116:116 -> c\n"
                                   "    void other.Class.moved(int, int[]) -> d\n"
                                   "    void <init>() -> <init>\n");
    assert_int_equal(map.status, 0);
    assert_int_equal(map.count, 5);
    check_names(&map.entries[0], PROGUARD_CLASS, "androidx.core.Executor$Task", "a.b$c");
    check_names(&map.entries[1], PROGUARD_FIELD, "delegate", "b");
    check_names(&map.entries[2], PROGUARD_METHOD, "isMainThread", "c");
    check_lines(&map.entries[2], 15, 15, PROGUARD_SOURCE_RANGE, 116, 116);
    check_names(&map.entries[3], PROGUARD_METHOD, "other.Class.moved", "d");
    assert_false(map.entries[3].has_lines);
    assert_int_equal(map.entries[3].source, PROGUARD_SOURCE_NONE);
    check_names(&map.entries[4], PROGUARD_METHOD, "<init>", "<init>");
}

static void test_lines(void **state)
{
    (void)state;
    struct read_map map = read_map("A -> a:\n"
                                   "  1:3:void x():10:12 -> x\n"
                                   "  4:void x():20 -> x\n"
                                   "  void x():7 -> x\n"
                                   "  0:65535:int y(int):0:0 -> y\n"
                                   "  2:5:void z():5:2 -> z\n"
                                   "  4294967295:4294967295:void w() -> w\n");
    assert_int_equal(map.status, 0);
    assert_int_equal(map.count, 7);
    check_lines(&map.entries[1], 1, 3, PROGUARD_SOURCE_RANGE, 10, 12);
    check_lines(&map.entries[2], 4, 4, PROGUARD_SOURCE_LINE, 20, 20);
    assert_false(map.entries[3].has_lines);
    assert_int_equal(map.entries[3].source_first, 7);
    check_lines(&map.entries[4], 0, 65535, PROGUARD_SOURCE_RANGE, 0, 0);
    check_lines(&map.entries[5], 2, 5, PROGUARD_SOURCE_RANGE, 5, 2);
    check_lines(&map.entries[6], UINT32_MAX, UINT32_MAX, PROGUARD_SOURCE_NONE, 0, 0);
}

static void test_lines_that_are_skipped(void **state)
{
    (void)state;
    struct read_map map =
        read_map("\xef\xbb\xbf# compiler: R8\r\n"
                 "# {\"id\":\"com.android.tools.r8.mapping\",\"version\":\"2.2\"}\r\n"
                 "\r\n"
                 "A -> a:\r\n"
                 "  \t \n"
                 "what is this\n"
                 "\t# {\"note\": \"x -> y\"}\n"
                 "\tvoid run() -> b \r\n"
                 "    and this");
    assert_int_equal(map.status, 0);
    assert_int_equal(map.count, 2);
    assert_int_equal(map.unknown, 2);
    check_names(&map.entries[0], PROGUARD_CLASS, "A", "a");
    check_names(&map.entries[1], PROGUARD_METHOD, "run", "b");
}

static void test_errors_name_the_line(void **state)
{
    static const char *const bad[] = {
        "A -> b\n",
        "A -> :\n",
        "A B -> c:\n",
        " -> c:\n",
        "  void x(int -> c\n",
        "  void x()5 -> c\n",
        "  void x():5: -> c\n",
        "  void x():5:6:7 -> c\n",
        "  1:2 -> c\n",
        "  3:2:void x() -> c\n",
        "  1:4294967296:void x() -> c\n",
        "  x -> c\n",
        "  void x() -> \x01\n",
        "  void x() -> c d\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "# first\nA -> a:\n%sB -> b:\n", bad[i]);
        struct read_map map = read_map(text);
        if (map.status != -EINVAL || strstr(map.error.message, "map:3: ") == NULL)
            fail_msg("%s: %d: %s", bad[i], map.status, map.error.message);
        assert_int_equal(map.count, 1);
    }
    struct read_map map = read_map("  void x() -> y\n");
    assert_int_equal(map.status, -EINVAL);
    assert_non_null(strstr(map.error.message, "map:1: "));
}

/* Entries do not depend on the boundaries of the file's blocks. */
static void test_files_of_many_blocks(void **state)
{
    char path[] = "/tmp/test-proguard-XXXXXX";
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w");
    size_t classes = 0, methods = 0, wanted = 60000;
    struct proguard_entry entry;
    struct error error;
    (void)state;
    assert_non_null(out);
    for (size_t i = 0; i < wanted; i++) {
        fprintf(out, "com.example.Class%zu -> c%zu:\n    1:2:void method%zu(int):3:4 -> m\n", i, i,
                i);
        if (i == 100)
            fprintf(out, "# %*s\n", 3 << 20, "long");
    }
    fclose(out);
    struct proguard_map *map = proguard_map_open(path, &error);
    assert_non_null(map);
    int status;
    while ((status = proguard_map_next(map, &entry, &error)) > 0) {
        char expected[64];
        bool is_class = entry.kind == PROGUARD_CLASS;
        snprintf(expected, sizeof(expected), is_class ? "com.example.Class%zu" : "method%zu",
                 is_class ? classes : methods);
        assert_int_equal(entry.original.length, strlen(expected));
        assert_memory_equal(entry.original.at, expected, entry.original.length);
        classes += is_class;
        methods += !is_class;
    }
    assert_int_equal(status, 0);
    assert_int_equal(classes, wanted);
    assert_int_equal(methods, wanted);
    assert_int_equal(proguard_map_lines(map), 2 * wanted + 1);
    proguard_map_close(map);
    unlink(path);
}

static void check_split(const char *name, const char *class_name, const char *method)
{
    struct java_text parts[2];
    if (!java_frame_split(name, strlen(name), &parts[0], &parts[1])) {
        assert_null(class_name);
        return;
    }
    assert_non_null(class_name);
    assert_int_equal(parts[0].length, strlen(class_name));
    assert_memory_equal(parts[0].at, class_name, parts[0].length);
    assert_int_equal(parts[1].length, strlen(method));
    assert_memory_equal(parts[1].at, method, parts[1].length);
}

static void test_names_of_frames(void **state)
{
    (void)state;
    check_split("fsd.a", "fsd", "a");
    check_split("a.b.c$d.<init>", "a.b.c$d", "<init>");
    check_split("void fsd.a(int, x.y)", "fsd", "a");
    check_split("x.y[] fsd.a()", "fsd", "a");
    check_split("malloc", NULL, NULL);
    check_split("", NULL, NULL);
    check_split(".a", NULL, NULL);
    check_split("a.", NULL, NULL);
    check_split("(a.b)", NULL, NULL);
}

static void check_package(const char *path, const char *package)
{
    struct java_text found;
    if (!java_package_of_path(path, &found)) {
        assert_null(package);
        return;
    }
    assert_non_null(package);
    assert_int_equal(found.length, strlen(package));
    assert_memory_equal(found.at, package, found.length);
}

static void test_packages(void **state)
{
    (void)state;
    check_package("/data/app/com.example.app-q1==/base.apk", "com.example.app");
    check_package("/data/app/~~Wk-3x==/com.example.app-q1-Z==/oat/arm64/base.odex",
                  "com.example.app");
    check_package("[anon:dalvik-classes2.dex extracted in memory from /data/app/com.example-x/a]",
                  "com.example");
    check_package("/product/app/Maps/Maps.apk", "com.google.android.apps.maps");
    check_package("/data/app/com.example.app/base.apk", NULL);
    check_package("/data/app/~~x", NULL);
    check_package("/data/app/-x/base.apk", NULL);
    check_package("/data/app/", NULL);
    check_package("/system/app/base.apk", NULL);
    check_package("", NULL);
    assert_true(java_path_is_jit("/memfd:jit-cache (deleted)"));
    assert_false(java_path_is_jit("/usr/memfd:x"));
    struct java_text text = java_package_of_command("/bin/com.a.b:remote", 19);
    assert_int_equal(text.length, 7);
    assert_memory_equal(text.at, "com.a.b", 7);
}

static void test_lists_of_maps(void **state)
{
    struct deobfuscate_maps maps = {0};
    struct error error;
    (void)state;
    assert_int_equal(deobfuscate_maps_add_list(&maps, NULL, &error), 0);
    assert_int_equal(deobfuscate_maps_add_list(&maps, "a.b=x/y.txt:c=z=1", &error), 0);
    assert_int_equal(deobfuscate_maps_add(&maps, "d=w", &error), 0);
    assert_int_equal(deobfuscate_maps_add(&maps, "plain.txt", &error), 0);
    assert_int_equal(deobfuscate_maps_add(&maps, "./e=f.txt", &error), 0);
    assert_int_equal(deobfuscate_maps_add(&maps, "a=", &error), -EINVAL);
    assert_int_equal(deobfuscate_maps_add_list(&maps, "a.b=x:file", &error), -EINVAL);
    assert_int_equal(deobfuscate_maps_add_list(&maps, "a.b=", &error), -EINVAL);
    static const char *const expected[][2] = {{"a.b", "x/y.txt"}, {"c", "z=1"},      {"d", "w"},
                                              {"", "plain.txt"},  {"", "./e=f.txt"}, {"a.b", "x"}};
    assert_int_equal(maps.count, 6);
    for (size_t i = 0; i < maps.count; i++) {
        assert_string_equal(maps.items[i].package, expected[i][0]);
        assert_string_equal(maps.items[i].path, expected[i][1]);
    }
    deobfuscate_maps_clear(&maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_and_members),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_that_are_skipped),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_files_of_many_blocks),
        cmocka_unit_test(test_names_of_frames),
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_lists_of_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
