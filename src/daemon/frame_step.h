/*
 * From a frame's registers to its caller's, by call frame information that libdw has read.
 *
 * Memory is a copy of the stack, and nothing else. Expressions are evaluated in bounded steps.
 */
#ifndef HEAPPROFD_DAEMON_FRAME_STEP_H
#define HEAPPROFD_DAEMON_FRAME_STEP_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/record.h"

#if defined(__x86_64__)
#define FRAME_REGISTERS 17u
#define FRAME_POINTER 6u
#define FRAME_STACK_POINTER 7u
#define FRAME_CALL_BYTES 1u /* a return address less this lies inside the call */
#define FRAME_ADDRESS_BITS 47
#elif defined(__aarch64__)
#define FRAME_REGISTERS 32u
#define FRAME_POINTER 29u
#define FRAME_STACK_POINTER 31u
#define FRAME_CALL_BYTES 4u
#define FRAME_ADDRESS_BITS 48
#endif

struct frame_machine {
    uint64_t registers[FRAME_REGISTERS]; /* by DWARF's numbers */
    uint64_t known;                      /* bit n: registers[n] is known */
    const uint64_t *stack;               /* of [stack_low, stack_high) */
    uint64_t stack_low, stack_high;
    unsigned steps_left; /* of expressions, for the whole walk */
    bool read_beyond;    /* something at or above stack_high was asked for */
};

enum frame_result {
    FRAME_FOUND,
    FRAME_OUTERMOST, /* the return address is marked as undefined */
    FRAME_UNKNOWN,   /* a register that is needed is not known */
    FRAME_UNREADABLE,
    FRAME_BAD,
};

/* The 8 bytes at address; false: they are not in the copy. */
bool frame_read(struct frame_machine *machine, uint64_t address, uint64_t *value);

/* Replaces the machine's registers with the caller's, *address with what is returned to, or what
 * was interrupted where *signal. The machine is as it was if the result is not FRAME_FOUND. */
enum frame_result frame_step(Dwarf_Frame *frame, struct frame_machine *machine, uint64_t *address,
                             bool *signal);

#endif
