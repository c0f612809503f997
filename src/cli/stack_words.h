/*
 * Call stacks in the tables that people read: a row's function with some of its callers, in as many
 * columns as there are, and whole stacks. Frames that are not the program's own are folded.
 */
#ifndef HEAPPROFD_CLI_STACK_WORDS_H
#define HEAPPROFD_CLI_STACK_WORDS_H

#include <stdio.h>

#include "profile/folding.h"

struct stack_words {
    const struct profile *profile;
    const struct folding *folding; /* NULL: nothing is folded */
    bool lines;                    /* functions with their source lines */
    bool simple;                   /* names without parameters, though the profile's have them */
    size_t columns;                /* of a row's text; 0: as many as it takes */
    size_t line_columns;           /* of a whole line; 0: as many as it takes */
};

/* Columns of a line that is written there: what COLUMNS says, or how wide the terminal is; 0: it is
 * no terminal, and lines may be as long as they are. */
size_t stack_words_columns(FILE *out);

/* What is left of a line's columns for a row's text, behind its figures. */
size_t stack_words_room(size_t columns, size_t figures);

/* A function's name in so many columns (0: any): first the arguments of templates and the
 * parameters become "...", then what it is qualified with; its own name always stands whole. */
void stack_words_print_name(FILE *out, const char *name, size_t columns);

/* A frame's function or address; with its line, and its module, where asked for. */
void stack_words_print_frame(const struct stack_words *words, uint32_t frame, size_t columns,
                             bool lines, bool module, FILE *out);

/* "function [module] < caller < caller < ...". */
void stack_words_print_row(const struct stack_words *words, uint32_t callsite, FILE *out);

/* All frames, one a line, with their source lines; what is folded is counted in a line. Of a stack
 * of more than `most` lines (0: any), those in the middle are counted in one. */
void stack_words_print_stack(const struct stack_words *words, uint32_t callsite, size_t most,
                             const char *indent, FILE *out);

#endif
