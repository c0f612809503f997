/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ELF and DWARF files that profiled processes name, in a helper process without any rights
 * (the reader): damaged or hostile files can harm nothing else. The asker opens files with the
 * rights it has and passes their descriptors; what comes back is checked like any other input.
 *
 * There is one reader for a profiler process, started when it is first needed. One that dies,
 * hangs or answers nonsense is killed; the file it was reading is not read again, and after a few
 * of them nothing is. Such a request fails with -EIO, and file_reader_complaint() says why.
 *
 * Not for several threads at once.
 */
#ifndef HEAPPROFD_READER_FILE_READER_H
#define HEAPPROFD_READER_FILE_READER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "reader/frame_rule.h"
#include "reader/program_file.h"
#include "reader/protocol.h"

/* A file that a request is about. Descriptors stay the caller's. */
struct reader_file {
    const char *path; /* for people */
    int fd;           /* -1: the reader has it already, if it is still the same reader */
    int debug_fd;     /* its separate debug file; -1: none */
    uint32_t number;  /* of file_reader_number(), for names and unwinding */
    const uint8_t *build_id;
    size_t build_id_length;
};

/* Start the reader, so that the first request need not wait for it. */
void file_reader_start(void);

/* End it. The next request starts another. */
void file_reader_close(void);

/* The processor time of all readers so far. */
uint64_t file_reader_cpu_us(void);

/* The reader's process; 0: there is none. */
pid_t file_reader_pid(void);

/* A number that no file had before. */
uint32_t file_reader_number(void);

/* Open the separate debug file with this build id. -1: there is none. */
int file_reader_open_debug_file(const uint8_t *build_id, size_t build_id_length);

/*
 * Find the functions that hold the addresses (ELF virtual addresses in ascending order, at most
 * READER_ADDRESSES_MAX). Return 0 and set names[i] to the mangled name, or NULL where the file has
 * none; they lie in *strings, which the caller frees. -ESTALE: it is another build; -ENOEXEC: not
 * an ELF file; -EBADF: the reader does not have the file.
 */
int file_reader_names(const struct reader_file *file, const uint64_t *addresses, size_t count,
                      const char **names, char **strings);

/* Read call frame information. 1: the file has more than what is loaded from it; 0: it has not;
 * -ENOENT: it has none. */
int file_reader_open_unwinding(const struct reader_file *file);
/* Have the rules for at most READER_RULES_MAX addresses. 0: rules->bytes holds them, to be freed
 * by the caller; -EBADF: the reader does not have the file. */
struct reader_rules {
    void *bytes;
    size_t length, at;
};
int file_reader_rules(const struct reader_file *file, const uint64_t *addresses, size_t count,
                      struct reader_rules *rules);
/* The rule for the next address; NULL: the file has none. */
const struct frame_rule *reader_rules_next(struct reader_rules *rules, size_t *bytes);
void file_reader_close_unwinding(uint32_t number);

/* Describe the executable segment at an offset of the file. */
int file_reader_segment(const struct reader_file *file, uint64_t offset,
                        struct reader_segment *segment);

int file_reader_program(int fd, const char *path, struct program_file *program);

/* Find functions of .symtab by name (`count` terminated names, one after the other). Return how
 * many were found and set *functions, which the caller frees. */
int file_reader_functions(int fd, const char *path, const char *names, size_t bytes, size_t count,
                          struct reader_function **functions);

/* Return why the file with this path and build id was not read through; NULL: it was, or nobody
 * asked. */
const char *file_reader_complaint(const char *path, const uint8_t *build_id,
                                  size_t build_id_length);

/* --- what comes from the reader, checked; for tests --- */

/* Whether these bytes answer READER_NAMES. */
int reader_names_take(char *bytes, size_t length, size_t count, const char **names);
int reader_segment_take(const void *bytes, size_t length, struct reader_segment *segment);
int reader_program_take(const void *bytes, size_t length, struct program_file *program);
/* 0 if they are rules for `count` addresses. */
int reader_rules_take(const void *bytes, size_t length, size_t count);
/* The number of functions, or -EBADMSG. */
int reader_functions_take(const void *bytes, size_t length, size_t count);

#endif
