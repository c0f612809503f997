/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a dump, which its three parts share: dump_names.c finds names of functions,
 * dump_stacks.c makes callstacks from the ledger's nodes, dump.c writes heaps and figures.
 * dump_times.c has the times of what is live.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_DUMP_STATE_H
#define HEAPPROFD_RECORDER_DUMP_DUMP_STATE_H

#include "recorder/dump/dump.h"
#include "recorder/dump/dump_times.h"
#include "recorder/processes/diagnosis.h"
#include "util/hash_index.h"
#include "util/id_map.h"

/* Work between two pauses, in units of about 20 ns: 2 ms, or as long as one symbol file takes. */
#define WORK_UNTIL_PAUSE 100000u

/* Number of unreadable files that a remark names. */
#define DUMP_LOST_FILES_NAMED 3u

/* A file, and the names of addresses in it. */
struct dump_file {
    char *path;
    uint8_t build_id[RECORD_BUILD_ID_MAX];
    size_t build_id_length;
    uint64_t hash;   /* of its path */
    uint32_t number; /* its number in the file reader */
    bool is_at_reader;
    bool is_prepared; /* the reader was asked to read it ahead */
    struct known_name {
        const char *name; /* in `texts`; NULL: none */
        enum { NAME_UNANSWERED, NAME_WANTED, NAME_KNOWN } state;
    } * names;
    size_t name_count, name_capacity;
    struct id_map name_numbers; /* by address: indexes of names */
    char **texts;               /* the reader's replies */
    size_t text_count, text_capacity;
    /* Only for the dump that is being written. */
    uint64_t *wanted;
    size_t wanted_count, wanted_capacity;
    uint64_t start, end; /* addresses of its mapping in the process */
};

struct dump_files {
    struct dump_file **files;
    size_t count, capacity;
    struct hash_index index; /* of files */
    void (*pause)(void *context);
    void *pause_context;
    char *const *skipped_prefixes;
};

#define FRAME_TABLES 64u

/* A dump being written. Trace ids are arrays by the ledger's indices, filled on demand; 0: not
 * yet. */
struct dump {
    struct trace_writer *writer;
    struct dump_files *files;
    struct ledger *ledger;
    const struct ledger_snapshot *snapshot; /* what is written; the ledger may change */
    const struct callsite_tree *tree;
    const struct dump_request *request;
    unsigned work;         /* done since the last pause */
    char unreadable[1024]; /* about files that could not be read; "": none */
    char remark[DIAGNOSIS_BYTES_MAX + 1024];
    uint64_t *mappings;
    struct trace_place *places; /* of mappings without addresses in the trace */
    size_t place_count, place_capacity;
    struct dump_file **file_of_module; /* NULL: not found yet */
    uint64_t *callstacks;              /* by node */
    uint32_t *frame_of_node;           /* by node: stacks share their outer nodes */
    uint64_t *types, *contexts;        /* by type and context number */
    /* The first node of each frame, by module and pc. Many tables that grow one at a time: a single
     * table would take 30 ms to grow to half a million frames, without a pause. */
    struct frame_table {
        struct hash_index index; /* of nodes */
        size_t count;
    } frame_tables[FRAME_TABLES];
    /* Lists of figures by heap: index + 1 of the first, and of the next; 0: none. */
    uint32_t first_of_heap[RING_HEAPS_MAX];
    uint32_t *next_of_heap;
    /* Figures of one heap. Those of one callstack are a list. */
    struct dump_row {
        uint32_t figures;
        uint32_t next; /* index + 1 of the next row; 0: last */
    } * rows;
    size_t row_count;
    struct ledger_peak peak;              /* of that heap */
    uint64_t other_types, other_contexts; /* samples in them whose tags are beyond the bounds */
    uint32_t *first_rows;                 /* by callstack: index + 1 of the first row; 0: none */
    size_t first_count, first_capacity;
    /* The parts of the callstack that is being written. */
    struct dump_part {
        uint32_t tid, tag, figures;
    } * parts;
    size_t part_capacity;
    struct trace_thread_figures *threads;
    size_t thread_capacity;
    struct dump_times times;
};

/* Count work, and call `pause` once enough is done. The ledger's arrays may move then. */
void dump_count_work(struct dump *dump, unsigned work);

/* Get names for all frames of the snapshot from files that have them. */
void dump_names_find(struct dump *dump);

/* Return the file of a module of the tree, or of a file outside the client's modules. NULL: no
 * memory. */
struct dump_file *dump_file_of(struct dump *dump, uint32_t module);
struct dump_file *dump_file_of_non_module(struct dump *dump, const struct callsite_module *module);
void dump_file_close(struct dump_file *file);

/* Return the mangled name of the function at an ELF virtual address. NULL: unknown. */
const char *dump_file_name(const struct dump_file *file, uint64_t address);

static inline uint64_t dump_address_in_file(const struct callsite_module *module, uint64_t pc)
{
    return pc - module->start + module->file_offset + module->load_bias;
}

/* Return the trace's id of the callstack of these figures. 0: no memory, or the writer failed. */
uint64_t dump_callstack_id(struct dump *dump, const struct ledger_figures *figures);

/* Free what dump_callstack_id() remembered. */
void dump_stacks_clear(struct dump *dump);

#endif
