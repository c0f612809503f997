/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: warm frames (warm_walk.c) in one loop, all others one by one.
 *
 * A frame is identified by the address that its callee returns to. For a frame that
 * a signal interrupted, that is the interrupted pc plus ARCH_CALL_BYTES, so that
 * both kinds look up "address - ARCH_CALL_BYTES".
 *
 * Through warm frames the walk only keeps the stack pointer, the frame pointer and
 * the return address. If a frame needs another register (for example a function
 * that finds its stack by rbx), the walk begins again and interprets every frame
 * up to that one with all registers.
 */
#include "client/unwind/unwind.h"

#include <stddef.h>

#include "client/arch/unwind.h"
#include "client/client.h"
#include "client/modules/module.h"
#include "client/system.h"
#include "client/unwind/cfi.h"
#include "client/unwind/epilogue.h"
#include "client/unwind/frame_rule.h"
#include "client/unwind/go_call.h"
#include "client/unwind/unfinished_walk.h"
#include "client/unwind/unwind_memory.h"
#include "client/unwind/unwind_rule.h"
#include "client/unwind/unwind_stack.h"
#include "client/unwind/walk.h"
#include "client/unwind/walk_hash.h"
#include "wire/barrier.h"

/* Stacks that one walk may visit by frame pointers of Go: a goroutine's and the thread's, for each
 * call from Go to C and back. A damaged chain could lead from one to the other for ever. */
#define GO_STACKS_MAX 16u

static struct unwind_process facts;

int unwind_init(const struct unwind_process *process)
{
    facts = *process;
    module_init();
    unwind_stack_init(process->stack_end);
    unwind_memory_init();
    return rule_init();
}

static bool walk_read(void *context, uintptr_t address, uint64_t *value)
{
    struct walk *walk = context;
    return unwind_stack_read(&walk->stack, address, value);
}

static void walk_start(struct walk *walk)
{
    walk->frame.address = arch_strip(walk->registers->pc);
    walk->frame.sp = walk->registers->sp;
    walk->frame.fp = arch_frame_pointer(walk->registers);
    walk->interrupted = false;
    walk->guessed = false;
    walk->signalled = false;
    walk->go_stacks = 0;
    walk->count = walk->recalled = 0;
    walk->hash = 0;
    walk->power = 1;
    unwind_stack_open(&walk->stack, walk->frame.sp, true);
}

/* Begin again with all registers, up to the frame that was reached. The second
 * time, track them to the end. */
static int walk_restart_tracking(struct walk *walk)
{
    if (walk->tracking)
        return UNWIND_NO_RULE;
    walk->track_until = walk->restarts++ == 0 ? walk->count : UINT32_MAX;
    walk_start(walk);
    walk->tracking = true;
    walk->machine.known = arch_registers_spread(walk->registers, walk->machine.registers);
    return WALK_GOES_ON;
}

/* Give the interpreter the known registers of the frame. */
static void walk_fill_machine(struct walk *walk)
{
    struct cfi_machine *machine = &walk->machine;
    if (!walk->tracking) {
        /* The signal frame has just set all registers of an interrupted frame. */
        if (!walk->interrupted)
            machine->known = 0;
        machine->registers[ARCH_STACK_POINTER] = walk->frame.sp;
        machine->registers[ARCH_FRAME_POINTER] = walk->frame.fp;
    }
    if (!walk->interrupted)
        machine->registers[ARCH_RETURN_ADDRESS] = walk->frame.address;
    else if (!ARCH_HAS_LINK_REGISTER)
        machine->registers[ARCH_RETURN_ADDRESS] = walk->frame.address - ARCH_CALL_BYTES;
    machine->known |= UINT64_C(1) << ARCH_STACK_POINTER | UINT64_C(1) << ARCH_FRAME_POINTER |
                      UINT64_C(1) << ARCH_RETURN_ADDRESS;
}

static int stop_of(enum cfi_result result)
{
    switch (result) {
    case CFI_OUTERMOST:
        return UNWIND_OUTERMOST;
    case CFI_UNREADABLE:
        return UNWIND_UNREADABLE_STACK;
    case CFI_NONE:
    case CFI_UNKNOWN:
        return UNWIND_NO_RULE;
    default:
        return UNWIND_BAD_CFI;
    }
}

/* Unwind one frame by its CFI row. Not inlined, as find_row_in_code(). */
static __attribute__((noinline)) int walk_interpret(struct walk *walk, const struct cfi_row *row)
{
    uint64_t cfa;
    uintptr_t sp = walk->frame.sp;
    struct cfi_machine *machine = &walk->machine;
    walk_fill_machine(walk);
    enum cfi_result stepped = cfi_step(row, machine, &cfa);
    if (stepped == CFI_UNKNOWN)
        return walk_restart_tracking(walk);

    /* A signal trampoline was not called: its address is no return address. */
    bool trampoline = row->signal_frame && !walk->interrupted;
    walk_write(walk, walk->frame.address - (trampoline ? 0 : ARCH_CALL_BYTES));
    if (stepped != CFI_FOUND)
        return stop_of(stepped);

    uint64_t address = arch_strip(machine->registers[ARCH_RETURN_ADDRESS]);
    walk->frame.sp = machine->registers[ARCH_STACK_POINTER];
    walk->frame.fp = machine->registers[ARCH_FRAME_POINTER];
    walk->frame.address = row->signal_frame ? address + ARCH_CALL_BYTES : address;
    if (!(machine->known >> ARCH_FRAME_POINTER & 1))
        walk->frame.fp = 0;
    bool moved = walk->frame.sp > sp || (walk->frame.sp == sp && walk->interrupted);
    walk->interrupted = row->signal_frame;
    walk->signalled |= row->signal_frame;
    if (row->signal_frame)
        unwind_stack_open(&walk->stack, walk->frame.sp, false);
    else if (!moved)
        return UNWIND_NO_PROGRESS;
    return WALK_GOES_ON;
}

#ifdef ARCH_SIGNAL_REGISTERS
/* Return whether the frame is the kernel's signal trampoline. The frame record above the saved
 * registers has the same frame pointer and return address as these. */
static bool is_signal_trampoline(struct walk *walk, uintptr_t registers)
{
    uintptr_t record = walk->frame.fp;
    uint64_t fp, saved_fp, address, saved_address, code;
    if (walk->interrupted || record < walk->frame.sp ||
        record - walk->frame.sp < ARCH_SIGNAL_FRAME_BYTES || record % 16 != 0)
        return false;
    return unwind_stack_read(&walk->stack, record, &fp) &&
           unwind_stack_read(&walk->stack, record + 8, &address) &&
           unwind_stack_read(&walk->stack, registers + 8 * ARCH_FRAME_POINTER, &saved_fp) &&
           unwind_stack_read(&walk->stack, registers + 8 * ARCH_RETURN_ADDRESS, &saved_address) &&
           fp == saved_fp && address == saved_address &&
           system_read_in_use(&code, walk->frame.address, sizeof(code)) &&
           code == ARCH_SIGNAL_RETURN;
}

/* Unwind the kernel's signal trampoline to the interrupted frame, with all of its registers. Return
 * false if the frame is another one. */
static bool walk_signal_trampoline(struct walk *walk)
{
    uintptr_t registers = walk->frame.sp + ARCH_SIGNAL_REGISTERS;
    uint64_t *to = walk->machine.registers, pc;
    if (likely(!is_signal_trampoline(walk, registers)) ||
        !unwind_stack_read(&walk->stack, registers + 8 * ARCH_REGISTERS, &pc))
        return false;
    for (unsigned i = 0; i < ARCH_REGISTERS; i++) {
        if (!unwind_stack_read(&walk->stack, registers + 8 * i, &to[i]))
            return false;
    }
    walk_write(walk, walk->frame.address);
    walk->machine.known = (UINT64_C(1) << ARCH_REGISTERS) - 1;
    walk->frame = (struct rule_frame){.address = pc + ARCH_CALL_BYTES,
                                      .sp = to[ARCH_STACK_POINTER],
                                      .fp = to[ARCH_FRAME_POINTER]};
    walk->interrupted = walk->signalled = true;
    unwind_stack_open(&walk->stack, walk->frame.sp, false);
    return true;
}
#else
/* The trampoline has CFI. */
static bool walk_signal_trampoline(struct walk *walk)
{
    (void)walk;
    return false;
}
#endif

/* Return whether a frame pointer may be followed: it is further out on the same stack, or on
 * another one to which Go has changed (runtime.systemstack). Where a stack ends is known of the
 * home stack alone. */
static bool leads_outwards(struct walk *walk, uintptr_t record)
{
    bool is_further = record >= walk->frame.sp;
    if (record % sizeof(uintptr_t) != 0)
        return false;
    if (walk->go_stacks <= 1 ||
        (is_further && (walk->stack.high == 0 || record < walk->stack.high)))
        return is_further;
    walk->go_stacks--;
    unwind_stack_open(&walk->stack, record, false);
    return true;
}

/* Unwind a frame of code without CFI by its frame pointer, if that is plausible. */
static int walk_guess(struct walk *walk)
{
    uintptr_t record = walk->frame.fp;
    uint64_t fp, address;
    walk_write(walk, walk->frame.address - ARCH_CALL_BYTES);
    if (!walk->guessed)
        walk->proven = walk->count;
    walk->guessed = true;
    if (record == 0) /* the ABI's value before the first function */
        return UNWIND_OUTERMOST;
    if (!leads_outwards(walk, record))
        return UNWIND_NO_RULE;
    if (!unwind_stack_read(&walk->stack, record, &fp) ||
        !unwind_stack_read(&walk->stack, record + 8, &address))
        return UNWIND_NO_RULE;
    address = arch_strip(address);
    if (address == 0)
        return UNWIND_OUTERMOST;
    if (address >> ARCH_ADDRESS_BITS != 0)
        return UNWIND_NO_RULE;
    /* Callers outside of all modules (JIT code) must have a valid chain, too. */
    if (module_find(address - ARCH_CALL_BYTES, false) == NULL &&
        (fp <= record || fp % sizeof(uintptr_t) != 0))
        return UNWIND_NO_RULE;
    if (walk->places != NULL)
        walk->places[walk->count - 1] |= UNWIND_PLACE_GUESSED;
    walk->frame.address = address;
    walk->frame.fp = fp;
    walk->frame.sp = record + ARCH_FRAME_RECORD_BYTES;
    walk->interrupted = false;
    walk->machine.registers[ARCH_FRAME_POINTER] = fp;
    walk->machine.registers[ARCH_STACK_POINTER] = walk->frame.sp;
    walk->machine.known = UINT64_C(1) << ARCH_FRAME_POINTER | UINT64_C(1) << ARCH_STACK_POINTER;
    return WALK_GOES_ON;
}

/* Stop, and report the state from which the daemon can continue. It needs all registers. */
static int walk_stop_for_daemon(struct walk *walk, uint32_t module)
{
    struct unfinished_walk *unfinished = walk->unfinished;
    if (!walk->tracking)
        return walk_restart_tracking(walk);
    walk_fill_machine(walk);
    unfinished->module = module;
    unfinished->interrupted = walk->interrupted;
    unfinished->proven = !walk->guessed;
    unfinished->pc = walk->frame.address - ARCH_CALL_BYTES;
    unfinished->known = walk->machine.known;
    unfinished->stack_low = walk->stack.low;
    unfinished->stack_high = walk->stack.high;
    for (unsigned i = 0; i < ARCH_REGISTERS; i++)
        unfinished->registers[i] = walk->machine.registers[i];
    return UNWIND_FOR_DAEMON;
}

/* Unwind a frame of a module's code that has no loaded CFI, or stop there for the daemon. `cached`:
 * the cache already has RULE_FOR_DAEMON for the address. */
static int walk_without_cfi(struct walk *walk, const struct module *module, bool cached)
{
    uint32_t number = module_number(module);
    enum ring_unwinding daemon =
        walk->unfinished != NULL ? walk->unfinished->ask(number) : RING_UNWINDING_NONE;
    uint32_t rule = daemon == RING_UNWINDING_NONE ? RULE_NO_CFI : RULE_FOR_DAEMON;
    if (!cached || rule == RULE_NO_CFI)
        rule_insert(walk->frame.address, walk->generation_bits, rule);
    /* The copy of a stack has one stack, and Go's frame pointers are as good as its tables. */
    if (daemon == RING_UNWINDING_FOUND && walk->go_stacks == 0)
        return walk_stop_for_daemon(walk, number);
    int stop = walk_guess(walk);
    return stop == UNWIND_NO_RULE && daemon == RING_UNWINDING_UNKNOWN ? UNWIND_DAEMON_NOT_ASKED
                                                                      : stop;
}

static enum cfi_result unwind_find_row(const struct module *module, uintptr_t pc,
                                       struct cfi_copy *copy, struct cfi_row *row)
{
    struct cfi_source source = {.low = module->cfi_low,
                                .high = module->cfi_high,
                                .eh_frame_hdr = (uintptr_t)module->eh_frame_hdr};
    if (source.eh_frame_hdr == 0)
        return CFI_NONE;
    return cfi_find_row(&source, pc, copy, row);
}

/* Bytes of code before a return address that show its call, and after it that show a signal's. */
#define CALL_BYTES 8u
#define SIGNAL_CODE_BYTES 16u

/* Return whether frames return to the address. It may be any word of the stack, so the code there
 * is copied: another thread may unload it meanwhile. Not inlined: find_row_in_code() would keep its
 * part of the program's stack while it follows code. */
static __attribute__((noinline)) bool is_return_address(uintptr_t address)
{
    uint8_t code[CALL_BYTES + SIGNAL_CODE_BYTES];
    if (!module_may_exist(address))
        return false;
    const struct module *module = module_find(address - ARCH_CALL_BYTES, false);
    if (module == NULL || address < module->start || address >= module->end)
        return false;
    uintptr_t before = address - module->start, after = module->end - address;
    before = before < CALL_BYTES ? before : CALL_BYTES;
    after = after < SIGNAL_CODE_BYTES ? after : SIGNAL_CODE_BYTES;
    uintptr_t start = (uintptr_t)code;
    return system_read_in_use(code, address - before, before + after) &&
           epilogue_is_return_address(start, start + before + after, start + before);
}

/* Return whether the row leads to an address that frames return to. */
static bool leads_to_caller(struct walk *walk, const struct cfi_row *row)
{
    const struct cfi_columns *columns = &row->columns;
    uintptr_t base = columns->cfa_register == ARCH_FRAME_POINTER ? walk->frame.fp : walk->frame.sp;
    uintptr_t cfa = base + (uintptr_t)cfi_cell_value(columns->cfa);
    uint64_t address;
    return cfa > walk->frame.sp && unwind_stack_read(&walk->stack, cfa - 8, &address) &&
           is_return_address(address);
}

/* Find the row of a frame without CFI by following its code. Not inlined: that needs 600 bytes of
 * the program's stack, and so would every walk that interprets CFI. */
static __attribute__((noinline)) enum cfi_result
find_row_in_code(struct walk *walk, const struct module *module, struct cfi_row *row)
{
    if (!facts.follows_code)
        return CFI_NONE;
    struct epilogue_code code = {
        .start = module->start,
        .end = module->end,
        .exit = facts.exit,
        .pthread_exit = facts.pthread_exit,
    };
    /* An interrupted frame continues at its pc itself, as does a trampoline. */
    uintptr_t pc = walk->interrupted ? walk->frame.address - ARCH_CALL_BYTES : walk->frame.address;
    enum cfi_result found = epilogue_find_row(&code, pc, row);
    bool has_caller =
        found == CFI_FOUND && !row->signal_frame &&
        row->columns.cells[ARCH_RETURN_ADDRESS] != cfi_cell_make(CFI_RULE_UNDEFINED, 0);
    return has_caller && !leads_to_caller(walk, row) ? CFI_NONE : found;
}

/* Find the stack pointer and the return address of the caller of asmcgocall. */
static bool find_go_caller(struct walk *walk, const struct go_call *call, uint64_t *sp,
                           uint64_t *address)
{
    uintptr_t here = walk->frame.sp;
    uint64_t goroutine, distance, stack_end;
    if (!unwind_stack_read(&walk->stack, here + call->stack, &distance))
        return false;
    *sp = distance;
    if (!call->on_thread) {
        if (!unwind_stack_read(&walk->stack, here + call->goroutine, &goroutine) ||
            system_read_memory(&stack_end, goroutine + sizeof(uint64_t), sizeof(stack_end)) !=
                sizeof(stack_end))
            return false;
        *sp = stack_end - distance;
    }
    return *sp % sizeof(uint64_t) == 0 &&
           system_read_memory(address, *sp, sizeof(*address)) == sizeof(*address) &&
           is_return_address(*address);
}

/* Unwind a frame of asmcgocall to its caller, which may be on another stack. Return false if the
 * frame is another one. Not inlined, as find_row_in_code(). */
static __attribute__((noinline)) bool walk_go_call(struct walk *walk, const struct module *module)
{
    uint8_t code[GO_CALL_CODE_BYTES];
    struct go_call call;
    uint64_t sp, address;
    uintptr_t pc = walk->frame.address, left = module->end - pc;
    size_t bytes = left < sizeof(code) ? left : sizeof(code);
    if (walk->interrupted || !system_copies_memory() || pc >= module->end ||
        system_read_memory(code, pc, bytes) != (long)bytes || !go_call_read(code, bytes, &call) ||
        !find_go_caller(walk, &call, &sp, &address))
        return false;
    walk_write(walk, pc - ARCH_CALL_BYTES);
    walk->frame.address = address;
    walk->frame.sp = sp + sizeof(uint64_t);
    walk->go_stacks = 1 + GO_STACKS_MAX;
    walk->machine.registers[ARCH_STACK_POINTER] = walk->frame.sp;
    walk->machine.registers[ARCH_FRAME_POINTER] = walk->frame.fp;
    walk->machine.known = UINT64_C(1) << ARCH_FRAME_POINTER | UINT64_C(1) << ARCH_STACK_POINTER;
    unwind_stack_open(&walk->stack, walk->frame.sp, false);
    return true;
}

/* Unwind a frame of a module's code by interpreting its CFI. `cached`: the cache already has a rule
 * for the address, which needs the interpreter. */
static int walk_module(struct walk *walk, const struct module *module, struct cfi_copy *copy,
                       bool cached)
{
    struct cfi_row row;
    uint32_t rule;
    uintptr_t address = walk->frame.address;
    enum cfi_result found = unwind_find_row(module, address - ARCH_CALL_BYTES, copy, &row);
    /* No call precedes the address, but a function begins there: it was put on the
     * stack by hand, for example by makecontext below its first frame. */
    if (found == CFI_NONE && !walk->interrupted) {
        found = unwind_find_row(module, address, copy, &row);
        if (found == CFI_FOUND && !row.signal_frame) {
            walk_write(walk, address);
            return UNWIND_OUTERMOST;
        }
    }
    if (found == CFI_NONE && walk_go_call(walk, module))
        return WALK_GOES_ON;
    if (found == CFI_NONE)
        found = find_row_in_code(walk, module, &row);
    switch (found) {
    case CFI_FOUND:
        rule = rule_compile(&row);
        break;
    case CFI_NONE:
        return walk_without_cfi(walk, module, cached);
    default:
        rule = RULE_BAD_CFI;
        break;
    }
    /* A copy may fail because the object is being unloaded, or a filter came into force. */
    if (!cached && (copy == NULL || found == CFI_FOUND))
        rule_insert(address, walk->generation_bits, rule);
    if (found == CFI_FOUND)
        return walk_interpret(walk, &row);
    walk_write(walk, address - ARCH_CALL_BYTES);
    return UNWIND_BAD_CFI;
}

/* The same after a guess. The guessed frame may be in an object that is being unloaded, so copy its
 * CFI before parsing it. */
static __attribute__((noinline)) int walk_module_copying(struct walk *walk,
                                                         const struct module *module, bool cached)
{
    struct cfi_copy copy;
    return walk_module(walk, module, &copy, cached);
}

/* Return whether a frame of the walk that was reached by CFI returns into the module: it is not
 * unloaded meanwhile. */
static bool is_in_use(struct walk *walk, const struct module *module)
{
    walk_write_recalled(walk);
    for (unsigned i = 0; i < walk->proven; i++) {
        if (walk->frames[i] >= module->start && walk->frames[i] < module->end)
            return true;
    }
    return false;
}

/* Unwind a frame of code whose object has been found, after a guess. The object may be unloaded at
 * any moment, unless something else proves that it stays. */
static __attribute__((noinline)) int walk_module_guessed(struct walk *walk,
                                                         const struct module *module, bool cached)
{
    if (system_copies_memory())
        return walk_module_copying(walk, module, cached);
    if (is_in_use(walk, module) || module_is_permanent(module))
        return walk_module(walk, module, NULL, cached);
    walk_write(walk, walk->frame.address - ARCH_CALL_BYTES);
    return UNWIND_UNREAD_CFI;
}

#ifdef HEAPPROFD_ATTACHED
/* Continue at the caller of the hook if the frame is the client's own: the hook has called
 * pymalloc. */
static bool walk_own(struct walk *walk)
{
    const struct attached_thread *thread;
    if (likely(walk->frame.address - 1 - facts.own_start >= facts.own_bytes) ||
        (thread = thread_table_own()) == NULL)
        return false;
    const struct unwind_registers *caller = load_relaxed(&thread->hook_caller);
    if (caller == NULL || caller->sp <= walk->frame.sp)
        return false;
    walk->frame = (struct rule_frame){
        .address = arch_strip(caller->pc), .sp = caller->sp, .fp = arch_frame_pointer(caller)};
    walk->interrupted = false;
    if (walk->tracking)
        walk->machine.known = arch_registers_spread(caller, walk->machine.registers);
    return true;
}
#else
static bool walk_own(struct walk *walk)
{
    (void)walk;
    return false;
}
#endif

/* Unwind one frame by any means. Return the reason to stop, or WALK_GOES_ON. */
static __attribute__((noinline)) int walk_cold(struct walk *walk)
{
    struct rule_frame *frame = &walk->frame;
    if (frame->address == 0)
        return UNWIND_OUTERMOST;
    if (walk_own(walk))
        return WALK_GOES_ON;
    uint32_t rule = 0;
    if (frame->address >> ARCH_ADDRESS_BITS == 0)
        rule = rule_find(rule_table, frame->address, walk->generation_bits) & RULE_MASK;
    if ((rule & RULE_IS_PLAIN) && !walk->tracking) {
        uint64_t pc = frame->address - ARCH_CALL_BYTES;
        struct rule_slots slots;
        if (!arch_rule_apply(rule, frame, UINTPTR_MAX, &walk->stack, &slots)) {
            walk_write(walk, pc);
            return UNWIND_UNREADABLE_STACK;
        }
        walk_write(walk, pc);
        walk->interrupted = false;
        return WALK_GOES_ON;
    }
    if (walk_signal_trampoline(walk))
        return WALK_GOES_ON;
    if (rule == RULE_OUTERMOST || rule == RULE_BAD_CFI) {
        /* If the rule is younger than the frames that end here, forget them. The next walk
         * remembers this one, too. */
        if (rule == RULE_OUTERMOST && unwind_memory_end(walk->memory)->sp == frame->sp)
            walk->memory->generation = 0;
        walk_write(walk, frame->address - ARCH_CALL_BYTES);
        return rule == RULE_OUTERMOST ? UNWIND_OUTERMOST : UNWIND_BAD_CFI;
    }
    if (rule == RULE_NO_CFI)
        return walk_guess(walk);
    uint64_t pc = frame->address - ARCH_CALL_BYTES;
    const struct module *module = module_find(pc, !walk->guessed);
    if (module == NULL && walk->guessed && module_is_unread(pc)) {
        walk_write(walk, pc);
        return UNWIND_UNREAD_CFI;
    }
    if (module == NULL)
        return walk_guess(walk);
    if (rule == RULE_FOR_DAEMON)
        return walk_without_cfi(walk, module, true);
    if (walk->guessed)
        return walk_module_guessed(walk, module, rule != 0);
    return walk_module(walk, module, NULL, rule != 0);
}

static uint64_t hash_finish(uint64_t hash, uint32_t generation)
{
    hash ^= (uint64_t)(generation + 1) * WALK_HASH_STEP;
    hash = (hash ^ hash >> 32) * WALK_HASH_PC;
    hash = (hash ^ hash >> 29) * WALK_HASH_STEP;
    hash ^= hash >> 32;
    return hash != 0 ? hash : 1;
}

struct unwind_walk unwind_callstack(const struct unwind_registers *registers,
                                    struct unwind_stack_bounds *bounds,
                                    struct unwind_memory *memory, uint64_t *frames,
                                    uintptr_t *places, unsigned max,
                                    struct unfinished_walk *unfinished)
{
    struct walk walk;
    uint32_t generation = module_generation();
    rule_begin(generation);
    walk.registers = registers;
    walk.memory = memory;
    walk.unfinished = unfinished;
    walk.frames = frames;
    walk.places = places;
    walk.max = max;
    walk.generation = generation;
    walk.generation_bits = rule_generation_bits(generation);
    walk.recalled_at = 0;
    walk.tracking = false;
    walk.restarts = 0;
    walk.machine.read = walk_read;
    walk.machine.context = &walk;
    walk.stack.bounds = bounds;
    walk_start(&walk);

    int stop = WALK_GOES_ON;
    while (stop == WALK_GOES_ON) {
        if (walk.tracking && walk.count > walk.track_until)
            walk.tracking = false;
        if (!walk.tracking)
            stop = places == NULL ? walk_warm(&walk) : walk_warm_with_places(&walk);
        if (stop != WALK_GOES_ON)
            break;
        if (places != NULL)
            places[walk.count] = walk.frame.sp;
        stop = walk.count < max ? walk_cold(&walk) : UNWIND_TRUNCATED;
        /* The next frames may take the place of the remembered ones. */
        if (stop == WALK_GOES_ON)
            walk_write_recalled(&walk);
    }
    if (places != NULL)
        places[walk.count] = walk.frame.sp;
    return (struct unwind_walk){
        .count = walk.count,
        .proven = walk.guessed ? walk.proven : walk.count,
        .stop = (enum unwind_stop)stop,
        .hash = hash_finish(walk.hash, generation),
        .uninterrupted = stop == UNWIND_OUTERMOST && !walk.guessed && !walk.signalled,
        .signalled = walk.signalled,
        .recalled_at = walk.recalled_at,
        .recalled = walk.recalled,
    };
}

void unwind_write_recalled(struct unwind_walk *walk, const struct unwind_memory *memory,
                           uint64_t *frames)
{
    unwind_memory_write(memory, frames + walk->recalled_at, walk->recalled);
    walk->recalled = 0;
}
