/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates its own code, as a JIT compiler does: a function "outer" that calls a function "inner"
 * that calls allocate(), which allocates 100 blocks of 1000 bytes. It announces the functions by:
 *
 *   hand_made map        a perf map
 *   hand_made dump       a jitdump in the working directory, mapped as perf requires
 *   hand_made shared     a perf map; the code is in memory that is mapped twice
 *   hand_made removed    a perf map that it removes before its end
 *   hand_made link       a perf map that is a link to another file
 *   hand_made stranger   a perf map of another user
 *   hand_made damaged    a perf map with invalid lines
 *   hand_made nothing    no file
 *   hand_made again      a perf map; then it executes "hand_made renamed", which writes another
 *
 * With a second argument "told" it waits for a line of its input before it runs the code, prints
 * "ok", and waits for another line before it ends.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_BYTES 4096u
#define INNER_OFFSET 64u

static void *volatile kept;

__attribute__((noinline)) static void allocate(void)
{
    for (int i = 0; i < 100; i++)
        kept = malloc(1000);
}

/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
static const uint8_t inner_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret */
static const uint8_t outer_code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                                     0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};

static void check(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void wait_for_line(void)
{
    while (getchar() != '\n' && !feof(stdin))
        ;
}

static uint8_t *make_code(int shared)
{
    uint8_t *written, *code;
    if (shared) {
        int fd = memfd_create("hand_made", MFD_CLOEXEC);
        check(fd >= 0 && ftruncate(fd, CODE_BYTES) == 0, "memfd_create");
        written = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        close(fd);
    } else {
        written = code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    check(written != MAP_FAILED && code != MAP_FAILED, "mmap");
    memcpy(written, outer_code, sizeof(outer_code));
    memcpy(written + INNER_OFFSET, inner_code, sizeof(inner_code));
    return code;
}

static void write_map(const char *path, const uint8_t *code, const char *prefix, int damaged)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    FILE *map = fd < 0 ? NULL : fdopen(fd, "w");
    check(map != NULL, path);
    if (damaged)
        fprintf(map, "this is no such line\n\n%lx\n", (unsigned long)(uintptr_t)code);
    fprintf(map, "%lx %zx %souter\n", (unsigned long)(uintptr_t)code, sizeof(outer_code), prefix);
    fprintf(map, "%lx %zx %sinner\n", (unsigned long)(uintptr_t)code + INNER_OFFSET,
            damaged ? (size_t)0 : sizeof(inner_code), prefix);
    fclose(map);
}

/* --- jitdump --- */

struct record {
    uint32_t id, size;
    uint64_t time;
};

static void write_load(FILE *dump, const uint8_t *code, uint64_t size, uint64_t index,
                       const char *name)
{
    uint64_t start = (uintptr_t)code;
    struct record head = {0, (uint32_t)(sizeof(head) + 40 + strlen(name) + 1 + size), index};
    uint32_t ids[] = {(uint32_t)getpid(), (uint32_t)getpid()};
    uint64_t numbers[] = {start, start, size, index};
    fwrite(&head, sizeof(head), 1, dump);
    fwrite(ids, sizeof(ids), 1, dump);
    fwrite(numbers, sizeof(numbers), 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(code, size, 1, dump);
}

static void write_line(FILE *dump, const uint8_t *code, uint32_t line, const char *file)
{
    uint64_t start = (uintptr_t)code, numbers[] = {start, 1, start};
    uint32_t place[] = {line, 0};
    struct record head = {
        2, (uint32_t)(sizeof(head) + sizeof(numbers) + sizeof(place) + strlen(file) + 1), 0};
    fwrite(&head, sizeof(head), 1, dump);
    fwrite(numbers, sizeof(numbers), 1, dump);
    fwrite(place, sizeof(place), 1, dump);
    fwrite(file, strlen(file) + 1, 1, dump);
}

static void write_dump(const uint8_t *code)
{
    char path[64];
    uint32_t head[10] = {0x4A695444, 1, sizeof(head), 62, 0, (uint32_t)getpid()};
    snprintf(path, sizeof(path), "jit-%d.dump", (int)getpid());
    FILE *dump = fopen(path, "w+e");
    check(dump != NULL, path);
    fwrite(head, sizeof(head), 1, dump);
    write_line(dump, code, 11, "made.src");
    write_load(dump, code, sizeof(outer_code), 1, "outer");
    write_line(dump, code + INNER_OFFSET, 22, "made.src");
    write_load(dump, code + INNER_OFFSET, sizeof(inner_code), 2, "inner");
    fflush(dump);
    check(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) != MAP_FAILED,
          "mmap of the jitdump");
    fclose(dump);
}

__attribute__((noinline)) static void run(const uint8_t *code)
{
    void (*outer)(void (*)(void), void (*)(void)) = NULL;
    void (*inner)(void) = NULL;
    const uint8_t *inner_start = code + INNER_OFFSET;
    memcpy(&outer, &code, sizeof(outer));
    memcpy(&inner, &inner_start, sizeof(inner));
    outer(inner, allocate);
}

int main(int argc, char **argv)
{
#ifndef __x86_64__
    return 77;
#endif
    const char *mode = argc > 1 ? argv[1] : "";
    char path[64], other[80];
    const uint8_t *code = make_code(strcmp(mode, "shared") == 0);
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    snprintf(other, sizeof(other), "%s.elsewhere", path);
    if (strcmp(mode, "dump") == 0)
        write_dump(code);
    else if (strcmp(mode, "link") == 0) {
        write_map(other, code, "", 0);
        check(symlink(other, path) == 0, "symlink");
    } else if (strcmp(mode, "nothing") != 0)
        write_map(path, code, strcmp(mode, "renamed") == 0 ? "new_" : "",
                  strcmp(mode, "damaged") == 0);
    if (strcmp(mode, "stranger") == 0)
        check(chmod(path, 0600) == 0 && chown(path, 12345, 12345) == 0, "chown");
    if (argc > 2)
        wait_for_line();
    run(code);
    if (argc > 2) {
        check(write(STDOUT_FILENO, "ok\n", 3) == 3, "write");
        wait_for_line();
    }
    if (strcmp(mode, "removed") == 0) {
        check(unlink(path) == 0, "unlink");
        check(write(STDOUT_FILENO, "ok\n", 3) == 3, "write");
        wait_for_line();
    }
    if (strcmp(mode, "again") == 0)
        execl("/proc/self/exe", argv[0], "renamed", (char *)NULL);
    return 0;
}
