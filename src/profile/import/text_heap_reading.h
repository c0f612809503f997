/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of reading a heap profile in text. text_heap.c reads its lines, text_heap_places.c has
 * its mappings and symbols, and makes frames of its addresses.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_TEXT_HEAP_READING_H
#define HEAPPROFD_PROFILE_IMPORT_TEXT_HEAP_READING_H

#include "profile/import/heap_figures.h"
#include "profile/import/line_reader.h"
#include "profile/import/local_names.h"
#include "profile/import/readers.h"

#define TEXT_HEAP_FRAMES_MAX 4096u
#define TEXT_HEAP_VARIABLES_MAX 8u

/* A function that the file itself names. */
struct text_heap_name {
    uint64_t address;
    uint32_t name, file, line; /* the first two are strings of the builder */
};

/* The names of a stack or of an address, the outermost last. */
struct text_heap_names {
    size_t first;
    uint32_t count;
};

struct text_heap_places {
    struct builder *builder;
    struct text_heap_region {
        uint64_t start, end, offset, bias;
        uint32_t mapping;
        uint32_t module; /* of local names; PROFILE_NONE: it gives no names */
    } * regions;
    size_t region_count, region_capacity;
    /* "build=/path" before the mappings, which "$build" in them stands for. */
    struct text_heap_variable {
        uint32_t name, value; /* strings of the builder */
    } variables[TEXT_HEAP_VARIABLES_MAX];
    size_t variable_count;
    /* The symbols of a file that has them: by address, in order after text_heap_places_sort(). */
    struct text_heap_symbol {
        uint64_t address;
        struct text_heap_names names;
    } * symbols;
    size_t symbol_count, symbol_capacity;
    struct text_heap_name *names;
    size_t name_count, name_capacity;
    struct local_names *local; /* NULL: not wanted */
};

/* Read a line of /proc/PID/maps, or of a shorter form ("400000-401000: /bin/a (@1000) build-id").
 * Skip others. */
void text_heap_take_mapping(struct text_heap_places *places, const char *line);
/* Read "0x12 main--f": the functions at an address, the outermost first. Skip others. */
void text_heap_take_symbol(struct text_heap_places *places, const char *line);
/* Read "0x12 f (a/b.java:12)", as in heap profiles of Java. Skip others. */
void text_heap_take_java_symbol(struct text_heap_places *places, const char *line);
/* Read "#	0x12	main.f+0x14	/a/b.go:12" of Go after its "#". Return whether it is one;
 * builder->error may be set. */
bool text_heap_take_go_name(struct text_heap_places *places, const char *line);

/* Call it once, after all lines. */
void text_heap_places_sort(struct text_heap_places *places);
/* Add the code of an address to the local names that will be looked up. */
void text_heap_places_want(struct text_heap_places *places, uint64_t address);
/* Append the frames of an address of code to the callsite. `is_id`: it is not one of code. Return
 * PROFILE_NONE after an error. */
uint32_t text_heap_places_call(struct text_heap_places *places, uint32_t callsite, uint64_t address,
                               bool is_id);
/* Append the frame of a name. */
uint32_t text_heap_places_name(struct text_heap_places *places, uint32_t callsite,
                               const struct text_heap_name *name);
void text_heap_places_free(struct text_heap_places *places);

#endif
