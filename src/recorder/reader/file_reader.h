/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the ELF and DWARF files of profiled processes in a helper process without any rights (the
 * reader), so that damaged or hostile files can harm nothing else. The profiler opens files with
 * its own rights and passes their descriptors. It checks replies like any other input.
 *
 * A profiler process has one reader, started when it is first needed. A reader that dies, hangs or
 * sends an invalid reply is killed. The file that it was reading is not read again, and after a few
 * such files no file is. A failed request returns -EIO, and file_reader_failure() returns the
 * reason.
 *
 * Not thread-safe.
 */
#ifndef HEAPPROFD_RECORDER_READER_FILE_READER_H
#define HEAPPROFD_RECORDER_READER_FILE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/reader/frame_rule.h"
#include "recorder/reader/program_file.h"
#include "recorder/reader/protocol.h"
#include "util/process_rights.h"

/* Time limit of most requests. Reading the symbols of a browser takes a second. */
#define FILE_READER_DEADLINE_MS 10000u

/* The file of a request. The caller keeps the descriptors. */
struct reader_file {
    const char *path; /* for messages */
    int fd;           /* -1: the reader has the file already, if it is still the same reader */
    int debug_fd;     /* its separate debug file; -1: none */
    uint32_t number;  /* from file_reader_number(), for names and unwinding */
    const uint8_t *build_id;
    size_t build_id_length;
};

/* Start the reader, so that the first request does not wait for it. */
void file_reader_start(void);

/* End the reader. The next request starts another one. */
void file_reader_close(void);
/* The same, but do not wait for its end: file_reader_close() does. */
void file_reader_dismiss(void);

/* Return the processor time of all readers so far. */
uint64_t file_reader_cpu_us(void);

/* Return the reader's pid, or 0 if there is none. */
pid_t file_reader_pid(void);

/* Return a new number for a file. */
uint32_t file_reader_number(void);

/* Open the separate debug file with this build id: below the root directory of the process, with
 * its rights, if that is not ours; else on this machine. rights NULL: only on this machine. Return
 * its descriptor, or -1 if no such file was found. */
int file_reader_open_debug_file(const uint8_t *build_id, size_t build_id_length, pid_t pid,
                                struct process_rights *rights);

/*
 * Find the functions that contain the addresses (ELF virtual addresses in ascending order, at most
 * READER_ADDRESSES_MAX). Return 0 and set names[i] to the mangled name, or to NULL if the file has
 * none. The names point into *strings, which the caller frees. -ESTALE: it is another build;
 * -ENOEXEC: not an ELF file; -EBADF: the reader does not have the file.
 */
int file_reader_names(const struct reader_file *file, const uint64_t *addresses, size_t count,
                      const char **names, char **strings);

/* Return whether the reader runs and has nothing to do. */
bool file_reader_is_idle(void);

/* Have the reader read the symbols of a file that it will be asked for, and do not wait. Return
 * false if the reader is busy: ask later. */
bool file_reader_prepare_names(const struct reader_file *file);

/* Read call frame information. Return 1: the file has more than what the process has loaded
 * (.debug_frame, or .eh_frame without .eh_frame_hdr); 0: it has no more than that; -ENOENT: it has
 * none. */
int file_reader_open_unwinding(const struct reader_file *file);
/* Get the rules for at most READER_RULES_MAX addresses. Return 0 with the rules in rules->bytes,
 * which the caller frees; -EBADF: the reader does not have the file. */
struct reader_rules {
    void *bytes;
    size_t length, at;
};
int file_reader_rules(const struct reader_file *file, const uint64_t *addresses, size_t count,
                      struct reader_rules *rules);
/* Return the rule for the next address, or NULL if the file has none for it. */
const struct frame_rule *reader_rules_next(struct reader_rules *rules, size_t *bytes);
void file_reader_close_unwinding(uint32_t number);

/* Describe the executable segment at an offset of the file. */
int file_reader_segment(const struct reader_file *file, uint64_t offset,
                        struct reader_segment *segment);

/* Read the facts of a program. */
int file_reader_program(const struct reader_file *file, unsigned deadline_ms,
                        struct program_file *program);

/* Find functions by name (`count` terminated names, one after the other; "*END": those that end so
 * after a prefix, as in READER_FUNCTIONS). Return how many were
 * found and set *functions, which the caller frees. *is_whole: the file itself lists all its
 * functions, so that a debug file has no others. */
int file_reader_functions(const struct reader_file *file, const char *names, size_t bytes,
                          size_t count, struct reader_function **functions, bool *is_whole);

/* Return why the file with this path and build id could not be read. NULL: it was read, or nobody
 * asked for it. */
const char *file_reader_failure(const char *path, const uint8_t *build_id, size_t build_id_length);

/* --- checks of replies; public for tests --- */

/* Check a reply to READER_NAMES. Return 0 or -EBADMSG. */
int reader_names_take(char *bytes, size_t length, size_t count, const char **names);
int reader_segment_take(const void *bytes, size_t length, struct reader_segment *segment);
int reader_program_take(const void *bytes, size_t length, struct program_file *program);
/* Check that the bytes are rules for `count` addresses. Return 0 or -EBADMSG. */
int reader_rules_take(const void *bytes, size_t length, size_t count);
/* Check a reply to READER_FUNCTIONS. Return the number of functions, or -EBADMSG. */
int reader_functions_take(const void *bytes, size_t length, size_t count);

#endif
