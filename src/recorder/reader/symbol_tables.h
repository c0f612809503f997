/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a program, wherever they are: in .symtab, or, if that was stripped, in .dynsym,
 * .gnu_debugdata and a separate debug file. Runs in the file reader: files are untrusted.
 */
#ifndef HEAPPROFD_RECORDER_READER_SYMBOL_TABLES_H
#define HEAPPROFD_RECORDER_READER_SYMBOL_TABLES_H

#include <gelf.h>
#include <stdbool.h>

#include "recorder/reader/program_file.h"

/* Takes one symbol. `type`: SHT_SYMTAB or SHT_DYNSYM, its table. */
typedef void take_table_symbol(void *context, const char *name, const GElf_Sym *symbol,
                               unsigned type, enum program_symbols source);

/* What was read. */
struct symbol_tables {
    bool is_whole; /* .symtab or .gnu_debugdata was found: a debug file has no further functions */
    enum program_debug_use debug_file;
};

/*
 * Read the symbols of a file. `debug_fd`: the file that may be its debug file, or -1. It is used if
 * it has the file's build id or, without one, the checksum in the file's .gnu_debuglink.
 */
struct symbol_tables symbol_tables_read(Elf *elf, int debug_fd, take_table_symbol *take,
                                        void *context);

#endif
