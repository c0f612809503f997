/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrite hostile dumps. Input: MemoryInfra JSON. Its frames get made-up names, some with inlined
 * functions, and some get no name. The written file must be readable and have the expected number
 * of unnamed frames.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "profile/memory_infra/symbolize_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct source_place places[6];
static struct answer answers[] = {{0, 1}, {1, 2}, {3, 3}};

static void make_places(struct memory_infra_symbols *symbols)
{
    static const char *const names[] = {"main", "a \"b\" \\ \n\xff", "pc:1", "\xc3\xa9", "x", "x"};
    for (size_t i = 0; i < 6; i++) {
        places[i].function = texts_add(&symbols->texts, names[i], strlen(names[i]));
        places[i].file = i % 3 == 0 ? NONE : texts_add(&symbols->texts, "/a.c", 4);
        places[i].line = (uint32_t)i * 7;
    }
    /* Names that look like addresses would count as unnamed frames again. */
    places[2].function = places[0].function;
    symbols->places = places;
    symbols->answers = answers;
    symbols->answer_count = 3;
}

static size_t nameless(const struct memory_infra_symbols *symbols, bool left)
{
    size_t count = 0;
    for (size_t i = 0; i < symbols->use_count; i++)
        count += !left || symbols->uses[i].answer == NONE;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_infra_symbols symbols = {0}, again = {0};
    struct error error = {0};
    char in[FUZZ_PATH_BYTES], out[FUZZ_PATH_BYTES];
    int in_fd = fuzz_file(in, data, size), out_fd = fuzz_file(out, NULL, 0);
    if (symbols_collect(&symbols, in, &error) == 0) {
        make_places(&symbols);
        for (size_t i = 0; i < symbols.use_count; i++) {
            symbols.uses[i].answer = i % 4 == 3 ? NONE : (uint32_t)(i % 4);
            symbols.frames[symbols.uses[i].frame].is_kept |= i % 4 == 3;
        }
        if (memory_infra_symbols_write(&symbols, in, out_fd, false, &error) < 0) {
            fprintf(stderr, "not written: %s\n", error.message);
            abort();
        }
        int read = symbols_collect(&again, out, &error);
        /* The new ids may have used up all ids. */
        if (read != -EOVERFLOW &&
            (read < 0 || nameless(&again, false) != nameless(&symbols, true))) {
            fprintf(stderr, "%zu frames for %zu: %s\n", nameless(&again, false),
                    nameless(&symbols, true), error.message);
            abort();
        }
    } else if (*error.message == '\0') {
        abort();
    }
    symbols_clear_collected(&symbols);
    symbols_clear_collected(&again);
    close(in_fd);
    close(out_fd);
    return 0;
}
