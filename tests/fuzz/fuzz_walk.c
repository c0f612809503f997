/*
 * A module's file and a walk that came to its code, both anybody's: the file's bytes behind the
 * first 64 words, which are the walk's registers, frames and stack.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/finish_walk.h"

#define WORDS 64u
#define START UINT64_C(0x10000)
#define LENGTH_MAX (1u << 16)

/* With room for as many words as the file begins behind. */
static uint64_t sent[sizeof(struct record_walk) / 8 + WORDS];

static void add_module(struct callsite_tree *tree, int fd)
{
    uint64_t words[sizeof(struct record_module) / 8 + 8] = {0};
    struct record_module *module = (void *)words;
    module->start = START;
    module->end = START + (1u << 20);
    module->path_length = (uint16_t)snprintf((char *)module->bytes, 64, "/proc/self/fd/%d", fd);
    if (callsite_tree_add_module(tree, module) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct callsite_tree tree;
    enum ring_unwinding answer;
    struct record_walk *walk = (void *)sent;
    size_t head = WORDS * 8;
    if (size < head || size > LENGTH_MAX)
        return 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data + head, size - head) < 0 || callsite_tree_init(&tree) < 0)
        abort();
    add_module(&tree, fd);
    memcpy(walk->words, data, head);
    walk->token = 1;
    walk->register_count = 17;
    walk->frame_count = 1;
    walk->flags = walk->words[16] & 3;
    walk->known = walk->words[15];
    walk->pc = START + (walk->words[14] & 0xffff);
    walk->stack_address = walk->words[7] & ~UINT64_C(7);
    walk->stack_bytes = (WORDS - 18) * 8;
    struct walk_finisher *finisher = walk_finisher_open(getpid());
    if (finisher == NULL)
        abort();
    if (walk->stack_address <= UINT64_MAX - walk->stack_bytes) {
        const struct record_stack *stack = walk_finish(finisher, &tree, walk, &answer);
        if (stack->hash == 0 || stack->count == 0 || stack->count > 1024)
            abort();
        callsite_tree_add_stack(&tree, stack);
    }
    walk_finisher_close(finisher);
    callsite_tree_clear(&tree);
    close(fd);
    return 0;
}
