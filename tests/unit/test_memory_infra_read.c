/* SPDX-License-Identifier: Apache-2.0 */
/* MemoryInfra's JSON: the reader's reports, with positions and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory_infra_json.h"
#include "profile/memory_infra/read.h"

/* --- reports as text --- */

struct report {
    char text[8192];
    size_t length;
    const char *json;
};

static void append(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void append(struct report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report->length += (size_t)vsnprintf(report->text + report->length,
                                        sizeof(report->text) - report->length, format, arguments);
    va_end(arguments);
    assert_true(report->length < sizeof(report->text));
}

#define TEXT(text) (int)(text).length, (text).at

static int on_event_end(void *context, const struct memory_infra_event *event)
{
    struct report *report = context;
    assert_int_equal(report->json[event->begin], '{');
    append(report, "event %d %.*s %.*s %.*s pid %lld%s\n", (int)event->number, TEXT(event->phase),
           TEXT(event->name), TEXT(event->id), (long long)event->pid,
           event->spoilt ? " spoilt" : "");
    return 0;
}

static int on_problem(void *context, const struct error *problem)
{
    append(context, "problem %s\n", problem->message);
    return 0;
}

static int on_string(void *context, uint64_t id, struct memory_infra_text text)
{
    append(context, "string %llu %.*s\n", (unsigned long long)id, TEXT(text));
    return 0;
}

static int on_node(void *context, const struct memory_infra_node *node)
{
    append(context, "node %llu name %llu parent %lld file %lld line %u\n",
           (unsigned long long)node->id, (unsigned long long)node->name_sid,
           (long long)node->parent, (long long)node->file_sid, node->line);
    return 0;
}

static int on_type(void *context, uint64_t id, uint64_t name)
{
    append(context, "type %llu name %llu\n", (unsigned long long)id, (unsigned long long)name);
    return 0;
}

static int on_heap(void *context, const struct memory_infra_heap *heap)
{
    append(context, "heap %.*s", TEXT(heap->name));
    for (size_t i = 0; i < heap->count; i++)
        append(context, " %llu/%llu %gx%g", (unsigned long long)heap->nodes[i],
               (unsigned long long)heap->types[i], heap->counts[i], heap->sizes[i]);
    append(context, "\n");
    return 0;
}

static int on_region(void *context, const struct memory_infra_region *region)
{
    append(context, "region %llx+%llx %.*s id %.*s pf %u dirty %llu\n",
           (unsigned long long)region->start, (unsigned long long)region->size, TEXT(region->file),
           TEXT(region->build_id), region->protection, (unsigned long long)region->private_dirty);
    return 0;
}

static int on_total(void *context, struct memory_infra_text name, double value)
{
    append(context, "total %.*s %g\n", TEXT(name), value);
    return 0;
}

static int on_attribute(void *context, const struct memory_infra_attribute *attribute)
{
    append(context, "attribute %.*s %.*s %g '%.*s'\n", TEXT(attribute->allocator),
           TEXT(attribute->name), attribute->value, TEXT(attribute->text));
    return 0;
}

static int on_metadata(void *context, struct memory_infra_text key, struct memory_infra_text inner,
                       struct memory_infra_text value)
{
    append(context, "metadata %.*s.%.*s = %.*s\n", TEXT(key), TEXT(inner), TEXT(value));
    return 0;
}

static const struct memory_infra_visitor visitor = {
    .event_end = on_event_end,
    .problem = on_problem,
    .string = on_string,
    .node = on_node,
    .type = on_type,
    .heap = on_heap,
    .region = on_region,
    .total = on_total,
    .attribute = on_attribute,
    .metadata = on_metadata,
};

/* Read the text as a whole and byte by byte; the reports are the same. The last line is the reason
 * for the end. */
static void make_report(const char *json, size_t length, struct report *report)
{
    for (int pass = 0; pass < 2; pass++) {
        size_t size = pass == 0 ? length + 1 : 1;
        struct report piecewise = {.json = json};
        struct error error = {0};
        struct memory_infra_reader *reader = memory_infra_reader_new(&visitor, &piecewise);
        int code = 0;
        for (size_t at = 0; at < length && code == 0; at += size)
            code = memory_infra_reader_feed(reader, json + at,
                                            length - at < size ? length - at : size, &error);
        if (code == 0)
            code = memory_infra_reader_end(reader, &error);
        if (code < 0)
            append(&piecewise, "error %s\n", error.message);
        memory_infra_reader_free(reader);
        if (pass == 0)
            *report = piecewise;
        else
            assert_string_equal(piecewise.text, report->text);
    }
}

static void check_report(const char *json, const char *wanted)
{
    struct report report;
    make_report(json, strlen(json), &report);
    assert_string_equal(report.text, wanted);
}

static void check_error(const char *json, const char *part)
{
    struct report report;
    make_report(json, strlen(json), &report);
    if (strstr(report.text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, report.text);
}

static void a_dump_is_reported_in_file_order(void **state)
{
    (void)state;
    check_report(
        "{\"x\":[{}], \"traceEvents\" : [ {\"args\":{\"dumps\":{\"level_of_detail\":\"detailed\","
        "\"heaps_v2\":{\"version\":1,\"allocators\":{\"malloc\":{\"counts\":[2,0.5],\"sizes\":[16,"
        "1e3],\"types\":[0,1],\"nodes\":[2,9007199254740993]}},\"maps\":{\"types\":[{\"id\":0,"
        "\"name_sid\":3}],\"nodes\":[{\"parent\":1,\"id\":2,\"name_sid\":1,\"file_sid\":3,\"line\":"
        "8,\"more\":{\"id\":5}}],\"strings\":[{\"string\":\"f\",\"id\":1}]}}}},\"id\":\"0x1\","
        "\"ph\":\"v\",\"name\":\"periodic_interval\",\"pid\":7,\"ts\":1}],\"metadata\":{\"a\":1.50,"
        "\"b\":{\"c\":true,\"d\":[1]}}}",
        "heap malloc 2/0 2x16 9007199254740993/1 0.5x1000\n"
        "type 0 name 3\n"
        "node 2 name 1 parent 1 file 3 line 8\n"
        "string 1 f\n"
        "event 0 v periodic_interval 0x1 pid 7\n"
        "metadata a. = 1.50\n"
        "metadata b.c = true\n");
}

static void blanks_nulls_and_repeated_members_do_not_matter(void **state)
{
    (void)state;
    check_report(
        HEAPS("\"strings\":[ {\"id\":1 , \"string\":\"\\u0041\"},null ] ,\"nodes\":[{\"x\":[1],"
              "\"line\":1e1, \"name_sid\" : 1.0,\"id\":2 },{\"file_sid\":1,\"parent\":null,"
              "\"id\":3,\"name_sid\":7,\"name_sid\":1}]",
              ""),
        "string 1 A\n"
        "node 2 name 1 parent -1 file -1 line 10\n"
        "node 3 name 1 parent -1 file 1 line 0\n"
        "event 0 v   pid 7\n");
}

static void regions_totals_and_attributes_are_hexadecimal(void **state)
{
    (void)state;
    check_report(
        DUMP("\"process_totals\":{\"resident_set_bytes\":\"1f4\",\"is_peak_rss_resetable\":"
             "true},\"process_mmaps\":{\"vm_regions\":[{\"sa\":\"7FFF\",\"sz\":\"10\","
             "\"pf\":134,\"mf\":\"/a\",\"id\":\"ABCdef01\",\"bs\":{\"pd\":\"1000\",\"new\":"
             "\"x\"}},{\"sa\":\"g\",\"sz\":\"1\"}]},\"allocators\":{\"malloc\":{\"guid\":"
             "\"1\",\"attrs\":{\"size\":{\"type\":\"scalar\",\"units\":\"bytes\",\"value\":"
             "\"ff\"},\"name\":{\"value\":\"n\",\"type\":\"string\"}}}}"),
        "total resident_set_bytes 500\n"
        "total is_peak_rss_resetable 1\n"
        "region 7fff+10 /a id abcdef01 pf 134 dirty 4096\n"
        "problem at byte 237, in event 0: \"sa\" is \"g\", not a hexadecimal number\n"
        "problem at byte 247, in event 0: a region without a start (sa) or a size (sz)\n"
        "attribute malloc size 255 'ff'\n"
        "attribute malloc name 0 'n'\n"
        "event 0 v   pid 7\n");
}

static void heaps_of_the_old_format_are_a_problem_if_there_are_no_others(void **state)
{
    (void)state;
#define OLD_HEAPS "\"heaps\":{\"malloc\":{\"entries\":[{\"bt\":\"a\",\"size\":\"10\"}]}}"
    check_report(
        DUMP("\"process_totals\":{\"vm\":\"1\"}," OLD_HEAPS),
        "total vm 1\n"
        "problem at byte 118, in event 0: its heaps are in the format of Chrome before version 59 "
        "(stackFrames), which is not read: Catapult's trace2html shows them\n"
        "event 0 v   pid 7\n");
    check_report(DUMP(OLD_HEAPS ",\"heaps_v2\":{\"version\":1}"), "event 0 v   pid 7\n");
    check_report(DUMP("\"heaps_v2\":{\"version\":1}," OLD_HEAPS), "event 0 v   pid 7\n");
}

static void a_byte_order_mark_is_skipped(void **state)
{
    (void)state;
    check_report("\xef\xbb\xbf{\"traceEvents\":[]}", "");
    check_error("\xef\xbb\xbf{\"traceEvents\":[}", "at byte 20: this is not JSON");
    check_error(" \xbb\xbf{\"traceEvents\":[]}", "this is not JSON");
}

static void texts_are_decoded(void **state)
{
    (void)state;
    check_error(
        HEAPS("\"strings\":[{\"id\":1,\"string\":\"\\u00e9\\ud83d\\ude00 \\\"\\\\\\/\\n\"}]", ""),
        "string 1 \xc3\xa9\xf0\x9f\x98\x80 \"\\/\n\n");
    check_error(HEAPS("\"strings\":[{\"id\":1,\"string\":\"a\\u0000b\"}]", ""),
                "string 1 a\xef\xbf\xbd"
                "b\n");
    check_error(HEAPS("\"strings\":[{\"id\":1,\"string\":\"\xff\xc3\"}]", ""),
                "string 1 \xff\xc3\n");
    /* Half of a surrogate pair is no character. (Older versions of yajl lose the character after a
     * first half.) */
    check_error(HEAPS("\"strings\":[{\"id\":1,\"string\":\".\\ude00 \\ud83d\"}]", ""),
                "string 1 .\xed\xb8\x80 ?\n");
}

static void numbers_are_exact(void **state)
{
    (void)state;
    check_error(HEAPS("\"nodes\":[{\"id\":12345678,\"name_sid\":1},{\"parent\":123456789,"
                      "\"name_sid\":1234567890123456,\"id\":0,\"line\":4294967296,"
                      "\"file_sid\":9},{\"id\":1,\"id\":2,\"name_sid\":3}]",
                      ""),
                "node 12345678 name 1 parent -1 file -1 line 0\n"
                "node 0 name 1234567890123456 parent 123456789 file 9 line 0\n"
                "node 2 name 3 parent -1 file -1 line 0\n");
    check_error(HEAPS("", COLUMNS("1234567,12345678,123456789", "0,0,0",
                                  "9007199254740992,9007199254740993,1", "0,10,100")),
                "1234567/0 9.0072e+15x0 12345678/0 9.0072e+15x10 123456789/0 1x100");
}

static void an_invalid_figure_spoils_only_its_event(void **state)
{
    (void)state;
    static const struct {
        const char *json, *problem;
    } cases[] = {
        {HEAPS("", COLUMNS("1", "0", "1", "\"64\"")), "\"sizes\" is \"64\", not a number"},
        {HEAPS("", COLUMNS("1", "0", "-1", "64")), "\"counts\" is -1, not a number"},
        {HEAPS("", COLUMNS("1", "0", "1e999", "64")), "\"counts\" is 1e999, not a number"},
        {HEAPS("", COLUMNS("1.5", "0", "1", "64")), "\"nodes\" is 1.5, not the number"},
        {HEAPS("", COLUMNS("1", "-1", "1", "64")), "\"types\" is -1, not the number"},
        {HEAPS("", COLUMNS("1", "0", "null", "64")), "\"counts\" is null, not a number"},
        {HEAPS("", COLUMNS("1", "0", "[1]", "64")), "an element of a list is a list"},
        {HEAPS("", COLUMNS("1,2", "0", "1", "64")), "has 2 nodes, 1 types, 1 counts and 1 sizes"},
        {HEAPS("\"nodes\":[{\"id\":\"1\",\"name_sid\":1}]", ""), "\"id\" is \"1\", not a whole"},
        {HEAPS("\"nodes\":[{\"id\":1}]", ""), "a node without a name"},
        {HEAPS("\"strings\":[{\"string\":\"x\"}]", ""), "a string without a number for its id"},
        {HEAPS("\"strings\":{}", ""), "\"strings\" is an object"},
        {HEAPS("\"strings\":[5]", ""), "an element of a list is a number"},
        {DUMP("\"heaps_v2\":{\"version\":2}"), "heaps_v2 of version 2: only 1 is supported"},
        {DUMP("\"heaps_v2\":{\"version\":\"1\"}"), "heaps_v2 of version 1: only 1 is supported"},
        {DUMP("\"heaps_v2\":{}"), "heaps_v2 without a version"},
        {DUMP("\"heaps_v2\":[]"), "\"heaps_v2\" is a list"},
        {DUMP("\"heaps\":[]"), "\"heaps\" is a list"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_error(cases[i].json, cases[i].problem);
        check_error(cases[i].json, ", in event 0: ");
        check_error(cases[i].json, "pid 7 spoilt\n");
    }
}

static void numbers_may_be_written_otherwise(void **state)
{
    (void)state;
    check_error(HEAPS("", COLUMNS("1e0,2.0", "0,18014398509481984", "1E2,0.125", "-0,1e-3")),
                "heap malloc 1/0 100x-0 2/18014398509481984 0.125x0.001\n");
}

static void events_of_others_may_be_anything(void **state)
{
    (void)state;
    check_report(
        "{\"traceEvents\":[{\"ph\":\"X\",\"args\":{\"dumps\":[1,{}],\"name\":{\"a\":[]},"
        "\"stackFrames\":3},\"pid\":\"x\",\"ts\":null,\"id\":12}, 5, null, [[]], \"x\", {}]}",
        "event 0 X  12 pid -9223372036854775808\n"
        "event 1    pid -9223372036854775808\n");
}

static void malformed_files_are_reported_with_their_position(void **state)
{
    (void)state;
    check_error("", "error at byte 0: there is no list of events");
    check_error("{}", "there is no list of events");
    check_error("5 ", "the file is a number, not an object or list");
    check_error("{\"traceEvents\":{}}", "traceEvents is an object, not a list");
    check_error("[{\"ph\":", "error at byte 7, in event 0: the file is cut off");
    check_error("{\"traceEvents\":[{}]", "error at byte 19: the file is cut off");
    check_error("[{\"a\":NaN}]", "in event 0: this is not JSON");
    check_error("[{}]]", "this is not JSON");
    /* A killed writer leaves the closing bracket out. */
    check_report("[{}", "event 0    pid -9223372036854775808\n");
    check_report("[{},\n", "event 0    pid -9223372036854775808\n");
    char deep[2000] = "[{\"a\":";
    memset(deep + 6, '[', 1000);
    check_error(deep, "in event 0: objects and lists deeper than 512");
}

static void skipped_values_may_be_large(void **state)
{
    (void)state;
    static const size_t lengths[] = {12u << 20, 20u << 20};
    for (size_t i = 0; i < 2; i++) {
        struct report report = {.json = "{}"};
        struct error error = {0};
        struct memory_infra_visitor none = {0};
        struct memory_infra_reader *reader = memory_infra_reader_new(&none, &report);
        char *text = malloc(lengths[i]);
        memset(text, 'x', lengths[i]);
        assert_int_equal(memory_infra_reader_feed(reader, "[{\"a\":\"", 7, &error), 0);
        int code = memory_infra_reader_feed(reader, text, lengths[i], &error);
        if (i == 0) {
            assert_int_equal(code, 0);
            assert_int_equal(memory_infra_reader_feed(reader, "\"}]", 3, &error), 0);
            assert_int_equal(memory_infra_reader_end(reader, &error), 0);
        } else {
            assert_int_equal(code, -EBADMSG);
            assert_non_null(strstr(error.message, "more than 16 MiB"));
        }
        free(text);
        memory_infra_reader_free(reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_is_reported_in_file_order),
        cmocka_unit_test(blanks_nulls_and_repeated_members_do_not_matter),
        cmocka_unit_test(regions_totals_and_attributes_are_hexadecimal),
        cmocka_unit_test(heaps_of_the_old_format_are_a_problem_if_there_are_no_others),
        cmocka_unit_test(a_byte_order_mark_is_skipped),
        cmocka_unit_test(texts_are_decoded),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(an_invalid_figure_spoils_only_its_event),
        cmocka_unit_test(numbers_may_be_written_otherwise),
        cmocka_unit_test(events_of_others_may_be_anything),
        cmocka_unit_test(malformed_files_are_reported_with_their_position),
        cmocka_unit_test(skipped_values_may_be_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
