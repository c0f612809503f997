/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended functions of allocators: what they offer besides the C and C++ standards' functions.
 * Everything that knows these functions is made from this table: the hooks of the preloaded and of
 * the attached client, the search for functions to patch, and the recognition of programs with an
 * allocator of their own. To add a function, add a row.
 *
 * Columns:
 *
 *   name
 *   library       JEMALLOC (also with the prefixes je_ and _rjem_), TCMALLOC, MIMALLOC, TOKEN or
 *                 FAST_TOKEN (any allocator that has them); only in executables, RUST (its run
 *                 time) and STANDARD (jemalloc's, with these prefixes)
 *   since         the version that the tests run on, or the oldest one in the library's change log
 *   kind          enum extended_kind, without EXTENDED_
 *   block         argument with the block that is resized or released, or with its place
 *   count, bytes  arguments that, multiplied, are the requested size
 *   nothrow       for a function that throws if memory is short: the one that returns NULL instead
 *
 * Arguments are counted from 0; _ means that there is no such argument. All functions have at most
 * six arguments, all integers or pointers.
 *
 * Functions that report no memory of their own are left out (nallocx, sallocx), and so are those
 * that the same library implements by calls of functions in the table.
 */
#ifndef HEAPPROFD_WIRE_ALLOCATOR_FUNCTIONS_H
#define HEAPPROFD_WIRE_ALLOCATOR_FUNCTIONS_H

/* clang-format off */

#define ALLOCATOR_JEMALLOC(F)                                                       \
    F(mallocx,                     JEMALLOC, 3.5, ALLOCATE,         _, _, 0, _)     \
    F(rallocx,                     JEMALLOC, 3.5, RESIZE,           0, _, 1, _)     \
    F(xallocx,                     JEMALLOC, 3.5, RESIZE_IN_PLACE,  0, _, 1, _)     \
    F(dallocx,                     JEMALLOC, 3.5, RELEASE,          0, _, _, _)     \
    F(sdallocx,                    JEMALLOC, 4.0, RELEASE,          0, _, _, _)

/* Those that are aliases of operator new or free have the same address as these, and are not
 * patched twice. */
#define ALLOCATOR_TCMALLOC(F)                                                       \
    F(tc_malloc,                   TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_malloc_skip_new_handler,  TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_calloc,                   TCMALLOC, 2.10, ALLOCATE,        _, 0, 1, _)     \
    F(tc_realloc,                  TCMALLOC, 2.10, RESIZE,          0, _, 1, _)     \
    F(tc_memalign,                 TCMALLOC, 2.10, ALLOCATE,        _, _, 1, _)     \
    F(tc_posix_memalign,           TCMALLOC, 2.10, STORE,           0, _, 2, _)     \
    F(tc_valloc,                   TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_pvalloc,                  TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_free,                     TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_cfree,                    TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_free_sized,               TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_new,                      TCMALLOC, 2.10, ALLOCATE,        _, _, 0, tc_new_nothrow)      \
    F(tc_new_nothrow,              TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_newarray,                 TCMALLOC, 2.10, ALLOCATE,        _, _, 0, tc_newarray_nothrow) \
    F(tc_newarray_nothrow,         TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_new_aligned,              TCMALLOC, 2.10, ALLOCATE,        _, _, 0, tc_new_aligned_nothrow) \
    F(tc_new_aligned_nothrow,      TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_newarray_aligned,         TCMALLOC, 2.10, ALLOCATE,        _, _, 0, tc_newarray_aligned_nothrow) \
    F(tc_newarray_aligned_nothrow, TCMALLOC, 2.10, ALLOCATE,        _, _, 0, _)     \
    F(tc_delete,                   TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_delete_sized,             TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_delete_nothrow,           TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_delete_aligned,           TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_delete_sized_aligned,     TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_delete_aligned_nothrow,   TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_deletearray,              TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_deletearray_sized,        TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_deletearray_nothrow,      TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_deletearray_aligned,      TCMALLOC, 2.10, RELEASE,         0, _, _, _)     \
    F(tc_deletearray_sized_aligned, TCMALLOC, 2.10, RELEASE,        0, _, _, _)     \
    F(tc_deletearray_aligned_nothrow, TCMALLOC, 2.10, RELEASE,      0, _, _, _)

/* mi_heap_delete is left out: the blocks of the heap live on in another. */
#define ALLOCATOR_MIMALLOC(F)                                                       \
    F(mi_malloc,                   MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_malloc_small,             MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_mallocn,                  MIMALLOC, 2.0.9, ALLOCATE,         _, 0, 1, _)     \
    F(mi_zalloc,                   MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_zalloc_small,             MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_calloc,                   MIMALLOC, 2.0.9, ALLOCATE,         _, 0, 1, _)     \
    F(mi_realloc,                  MIMALLOC, 2.0.9, RESIZE,           0, _, 1, _)     \
    F(mi_reallocn,                 MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_reallocarray,             MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_reallocf,                 MIMALLOC, 2.0.9, RESIZE_OR_FREE,   0, _, 1, _)     \
    F(mi_reallocarr,               MIMALLOC, 2.0.9, RESIZE_STORED,    0, 1, 2, _)     \
    F(mi_rezalloc,                 MIMALLOC, 2.0.9, RESIZE,           0, _, 1, _)     \
    F(mi_recalloc,                 MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_expand,                   MIMALLOC, 2.0.9, EXPAND,           0, _, 1, _)     \
    F(mi_strdup,                   MIMALLOC, 2.0.9, STRING,           _, _, _, _)     \
    F(mi_strndup,                  MIMALLOC, 2.0.9, STRING,           _, _, _, _)     \
    F(mi_memalign,                 MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_aligned_alloc,            MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_posix_memalign,           MIMALLOC, 2.0.9, STORE,            0, _, 2, _)     \
    F(mi_valloc,                   MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_pvalloc,                  MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_malloc_aligned,           MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_malloc_aligned_at,        MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_zalloc_aligned,           MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_zalloc_aligned_at,        MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_calloc_aligned,           MIMALLOC, 2.0.9, ALLOCATE,         _, 0, 1, _)     \
    F(mi_calloc_aligned_at,        MIMALLOC, 2.0.9, ALLOCATE,         _, 0, 1, _)     \
    F(mi_realloc_aligned,          MIMALLOC, 2.0.9, RESIZE,           0, _, 1, _)     \
    F(mi_realloc_aligned_at,       MIMALLOC, 2.0.9, RESIZE,           0, _, 1, _)     \
    F(mi_rezalloc_aligned,         MIMALLOC, 2.0.9, RESIZE,           0, _, 1, _)     \
    F(mi_rezalloc_aligned_at,      MIMALLOC, 2.0.9, RESIZE,           0, _, 1, _)     \
    F(mi_recalloc_aligned,         MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_recalloc_aligned_at,      MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_aligned_recalloc,         MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_aligned_offset_recalloc,  MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, _)     \
    F(mi_new,                      MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, mi_new_nothrow)         \
    F(mi_new_nothrow,              MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_new_aligned,              MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, mi_new_aligned_nothrow) \
    F(mi_new_aligned_nothrow,      MIMALLOC, 2.0.9, ALLOCATE,         _, _, 0, _)     \
    F(mi_new_n,                    MIMALLOC, 2.0.9, ALLOCATE,         _, 0, 1, mi_mallocn)             \
    F(mi_new_realloc,              MIMALLOC, 2.0.9, RESIZE,           0, _, 1, mi_realloc)             \
    F(mi_new_reallocn,             MIMALLOC, 2.0.9, RESIZE,           0, 1, 2, mi_reallocn)            \
    F(mi_free,                     MIMALLOC, 2.0.9, RELEASE,          0, _, _, _)     \
    F(mi_cfree,                    MIMALLOC, 2.0.9, RELEASE,          0, _, _, _)     \
    F(mi_free_size,                MIMALLOC, 2.0.9, RELEASE,          0, _, _, _)     \
    F(mi_free_size_aligned,        MIMALLOC, 2.0.9, RELEASE,          0, _, _, _)     \
    F(mi_free_aligned,             MIMALLOC, 2.0.9, RELEASE,          0, _, _, _)     \
    F(mi_heap_malloc,              MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_malloc_small,        MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_mallocn,             MIMALLOC, 2.0.9, ALLOCATE,         _, 1, 2, _)     \
    F(mi_heap_zalloc,              MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_calloc,              MIMALLOC, 2.0.9, ALLOCATE,         _, 1, 2, _)     \
    F(mi_heap_realloc,             MIMALLOC, 2.0.9, RESIZE,           1, _, 2, _)     \
    F(mi_heap_reallocn,            MIMALLOC, 2.0.9, RESIZE,           1, 2, 3, _)     \
    F(mi_heap_reallocf,            MIMALLOC, 2.0.9, RESIZE_OR_FREE,   1, _, 2, _)     \
    F(mi_heap_rezalloc,            MIMALLOC, 2.0.9, RESIZE,           1, _, 2, _)     \
    F(mi_heap_recalloc,            MIMALLOC, 2.0.9, RESIZE,           1, 2, 3, _)     \
    F(mi_heap_strdup,              MIMALLOC, 2.0.9, STRING,           _, _, _, _)     \
    F(mi_heap_strndup,             MIMALLOC, 2.0.9, STRING,           _, _, _, _)     \
    F(mi_heap_malloc_aligned,      MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_malloc_aligned_at,   MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_zalloc_aligned,      MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_zalloc_aligned_at,   MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, _)     \
    F(mi_heap_calloc_aligned,      MIMALLOC, 2.0.9, ALLOCATE,         _, 1, 2, _)     \
    F(mi_heap_calloc_aligned_at,   MIMALLOC, 2.0.9, ALLOCATE,         _, 1, 2, _)     \
    F(mi_heap_realloc_aligned,     MIMALLOC, 2.0.9, RESIZE,           1, _, 2, _)     \
    F(mi_heap_realloc_aligned_at,  MIMALLOC, 2.0.9, RESIZE,           1, _, 2, _)     \
    F(mi_heap_rezalloc_aligned,    MIMALLOC, 2.0.9, RESIZE,           1, _, 2, _)     \
    F(mi_heap_rezalloc_aligned_at, MIMALLOC, 2.0.9, RESIZE,           1, _, 2, _)     \
    F(mi_heap_recalloc_aligned,    MIMALLOC, 2.0.9, RESIZE,           1, 2, 3, _)     \
    F(mi_heap_recalloc_aligned_at, MIMALLOC, 2.0.9, RESIZE,           1, 2, 3, _)     \
    F(mi_heap_alloc_new,           MIMALLOC, 2.0.9, ALLOCATE,         _, _, 1, mi_heap_malloc)         \
    F(mi_heap_alloc_new_n,         MIMALLOC, 2.0.9, ALLOCATE,         _, 1, 2, mi_heap_mallocn)        \
    F(mi_heap_destroy,             MIMALLOC, 2.0.9, DESTROY_HEAP,     _, _, _, _)

/* What mimalloc 3 has besides. */
#define ALLOCATOR_MIMALLOC_3(F)                                                     \
    F(mi_free_small,               MIMALLOC, 3.4, RELEASE,          0, _, _, _)     \
    F(mi_umalloc,                  MIMALLOC, 3.4, ALLOCATE,         _, _, 0, _)     \
    F(mi_ucalloc,                  MIMALLOC, 3.4, ALLOCATE,         _, 0, 1, _)     \
    F(mi_urealloc,                 MIMALLOC, 3.4, RESIZE,           0, _, 1, _)     \
    F(mi_ufree,                    MIMALLOC, 3.4, RELEASE,          0, _, _, _)     \
    F(mi_umalloc_aligned,          MIMALLOC, 3.4, ALLOCATE,         _, _, 0, _)     \
    F(mi_uzalloc_aligned,          MIMALLOC, 3.4, ALLOCATE,         _, _, 0, _)     \
    F(mi_umalloc_small,            MIMALLOC, 3.4, ALLOCATE,         _, _, 0, _)     \
    F(mi_uzalloc_small,            MIMALLOC, 3.4, ALLOCATE,         _, _, 0, _)     \
    F(mi_heap_zalloc_small,        MIMALLOC, 3.4, ALLOCATE,         _, _, 1, _)     \
    F(mi_theap_malloc,             MIMALLOC, 3.4, ALLOCATE,         _, _, 1, _)     \
    F(mi_theap_zalloc,             MIMALLOC, 3.4, ALLOCATE,         _, _, 1, _)     \
    F(mi_theap_calloc,             MIMALLOC, 3.4, ALLOCATE,         _, 1, 2, _)     \
    F(mi_theap_malloc_small,       MIMALLOC, 3.4, ALLOCATE,         _, _, 1, _)     \
    F(mi_theap_zalloc_small,       MIMALLOC, 3.4, ALLOCATE,         _, _, 1, _)     \
    F(mi_theap_malloc_aligned,     MIMALLOC, 3.4, ALLOCATE,         _, _, 1, _)     \
    F(mi_theap_realloc,            MIMALLOC, 3.4, RESIZE,           1, _, 2, _)

/*
 * What clang 22 calls in place of malloc and operator new under -fsanitize=alloc-token: the token is
 * one more argument, or (fast) a part of the name; allocators have two of these. An operator new with
 * an argument more is left out: it has no form for the same arguments that does not throw.
 */
#define ALLOCATOR_TOKEN(F)                                                          \
    F(__alloc_token_malloc,        TOKEN, 22, ALLOCATE,         _, _, 0, _)         \
    F(__alloc_token_calloc,        TOKEN, 22, ALLOCATE,         _, 0, 1, _)         \
    F(__alloc_token_realloc,       TOKEN, 22, RESIZE,           0, _, 1, _)         \
    F(__alloc_token_reallocarray,  TOKEN, 22, RESIZE,           0, 1, 2, _)         \
    F(__alloc_token_memalign,      TOKEN, 22, ALLOCATE,         _, _, 1, _)         \
    F(__alloc_token_aligned_alloc, TOKEN, 22, ALLOCATE,         _, _, 1, _)         \
    F(__alloc_token_valloc,        TOKEN, 22, ALLOCATE,         _, _, 0, _)         \
    F(__alloc_token_pvalloc,       TOKEN, 22, ALLOCATE,         _, _, 0, _)         \
    F(__alloc_token_posix_memalign, TOKEN, 22, STORE,            0, _, 2, _)

#define ALLOCATOR_FAST_TOKEN(F)                                                     \
    F(__alloc_token_0_malloc,      FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)    \
    F(__alloc_token_0_calloc,      FAST_TOKEN, 22, ALLOCATE,         _, 0, 1, _)    \
    F(__alloc_token_0_realloc,     FAST_TOKEN, 22, RESIZE,           0, _, 1, _)    \
    F(__alloc_token_0_reallocarray, FAST_TOKEN, 22, RESIZE,           0, 1, 2, _)   \
    F(__alloc_token_0_memalign,    FAST_TOKEN, 22, ALLOCATE,         _, _, 1, _)    \
    F(__alloc_token_0_aligned_alloc, FAST_TOKEN, 22, ALLOCATE,         _, _, 1, _)  \
    F(__alloc_token_0_valloc,      FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)    \
    F(__alloc_token_0_pvalloc,     FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)    \
    F(__alloc_token_0_posix_memalign, FAST_TOKEN, 22, STORE,            0, _, 2, _) \
    F(__alloc_token_0__Znwm,       FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_0__ZnwmRKSt9nothrow_t)\
    F(__alloc_token_0__Znam,       FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_0__ZnamRKSt9nothrow_t)\
    F(__alloc_token_0__ZnwmRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_0__ZnamRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_0__ZnwmSt11align_val_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_0__ZnwmSt11align_val_tRKSt9nothrow_t)\
    F(__alloc_token_0__ZnamSt11align_val_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_0__ZnamSt11align_val_tRKSt9nothrow_t)\
    F(__alloc_token_0__ZnwmSt11align_val_tRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_0__ZnamSt11align_val_tRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_1_malloc,      FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)    \
    F(__alloc_token_1_calloc,      FAST_TOKEN, 22, ALLOCATE,         _, 0, 1, _)    \
    F(__alloc_token_1_realloc,     FAST_TOKEN, 22, RESIZE,           0, _, 1, _)    \
    F(__alloc_token_1_reallocarray, FAST_TOKEN, 22, RESIZE,           0, 1, 2, _)   \
    F(__alloc_token_1_memalign,    FAST_TOKEN, 22, ALLOCATE,         _, _, 1, _)    \
    F(__alloc_token_1_aligned_alloc, FAST_TOKEN, 22, ALLOCATE,         _, _, 1, _)  \
    F(__alloc_token_1_valloc,      FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)    \
    F(__alloc_token_1_pvalloc,     FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)    \
    F(__alloc_token_1_posix_memalign, FAST_TOKEN, 22, STORE,            0, _, 2, _) \
    F(__alloc_token_1__Znwm,       FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_1__ZnwmRKSt9nothrow_t)\
    F(__alloc_token_1__Znam,       FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_1__ZnamRKSt9nothrow_t)\
    F(__alloc_token_1__ZnwmRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_1__ZnamRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_1__ZnwmSt11align_val_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_1__ZnwmSt11align_val_tRKSt9nothrow_t)\
    F(__alloc_token_1__ZnamSt11align_val_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, __alloc_token_1__ZnamSt11align_val_tRKSt9nothrow_t)\
    F(__alloc_token_1__ZnwmSt11align_val_tRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)\
    F(__alloc_token_1__ZnamSt11align_val_tRKSt9nothrow_t, FAST_TOKEN, 22, ALLOCATE,         _, _, 0, _)

/* What rustc makes for a program's #[global_allocator]. They matter where nothing below them is
 * known. Newer versions mangle the names: _RNvCs..._7___rustc12___rust_alloc. */
#define ALLOCATOR_RUST(F)                                                           \
    F(__rust_alloc,                RUST, 1.95, ALLOCATE,            _, _, 0, _)     \
    F(__rust_alloc_zeroed,         RUST, 1.95, ALLOCATE,            _, _, 0, _)     \
    F(__rust_realloc,              RUST, 1.95, RESIZE,              0, _, 3, _)     \
    F(__rust_dealloc,              RUST, 1.95, RELEASE,             0, _, _, _)

/* What a family (below) has besides, with its prefix before each name; and jemalloc in an executable,
 * with its. Without a prefix they are hooked otherwise. */
#define ALLOCATOR_STANDARD(F)                                                       \
    F(malloc,                      STANDARD, _, ALLOCATE,           _, _, 0, _)     \
    F(calloc,                      STANDARD, _, ALLOCATE,           _, 0, 1, _)     \
    F(realloc,                     STANDARD, _, RESIZE,             0, _, 1, _)     \
    F(reallocarray,                STANDARD, _, RESIZE,             0, 1, 2, _)     \
    F(posix_memalign,              STANDARD, _, STORE,              0, _, 2, _)     \
    F(aligned_alloc,               STANDARD, _, ALLOCATE,           _, _, 1, _)     \
    F(memalign,                    STANDARD, _, ALLOCATE,           _, _, 1, _)     \
    F(valloc,                      STANDARD, _, ALLOCATE,           _, _, 0, _)     \
    F(pvalloc,                     STANDARD, _, ALLOCATE,           _, _, 0, _)     \
    F(free,                        STANDARD, _, RELEASE,            0, _, _, _)     \
    F(cfree,                       STANDARD, _, RELEASE,            0, _, _, _)     \
    F(free_sized,                  STANDARD, _, RELEASE,            0, _, _, _)     \
    F(free_aligned_sized,          STANDARD, _, RELEASE,            0, _, _, _)

/* oneTBB's, with the prefix scalable_. */
#define ALLOCATOR_TBB(F)                                                            \
    F(aligned_malloc,              TBB, _, ALLOCATE,             _, _, 0, _)     \
    F(aligned_realloc,             TBB, _, RESIZE,               0, _, 1, _)     \
    F(aligned_free,                TBB, _, RELEASE,              0, _, _, _)

#define ALLOCATOR_EXTENDED(F)                                                       \
    ALLOCATOR_JEMALLOC(F) ALLOCATOR_TCMALLOC(F) ALLOCATOR_MIMALLOC(F)                 \
    ALLOCATOR_MIMALLOC_3(F) ALLOCATOR_TOKEN(F) ALLOCATOR_FAST_TOKEN(F) ALLOCATOR_RUST(F) \
    ALLOCATOR_STANDARD(F)

/* clang-format on */

/* Families (below): libraries a process, and room for the functions of each. */
#define FAMILIES_MAX 8
#define FAMILY_FUNCTIONS 160
#define FAMILY_THUNK_BYTES 16 /* of a function's hook */

#ifndef __ASSEMBLER__

enum extended_kind {
    EXTENDED_ALLOCATE, /* return a block, or NULL */
    EXTENDED_STRING,   /* the same; the block is a string, whose size is that of the request */
    EXTENDED_STORE,    /* store the address of a block at an address, and return 0 */
    /* Resize a block, or allocate one if it is NULL. Return the new block; NULL: the old one is
     * unchanged. */
    EXTENDED_RESIZE,
    EXTENDED_RESIZE_OR_FREE,  /* the same, but a failure releases the block */
    EXTENDED_RESIZE_STORED,   /* the same as RESIZE, but the block's address is at an address */
    EXTENDED_EXPAND,          /* resize a block without moving it. Return it, or NULL */
    EXTENDED_RESIZE_IN_PLACE, /* the same by `extra` bytes more; return the new usable size */
    EXTENDED_RELEASE,
    EXTENDED_DESTROY_HEAP, /* release all blocks of a heap */
};

enum extended_library {
    EXTENDED_OF_JEMALLOC,
    EXTENDED_OF_TCMALLOC,
    EXTENDED_OF_MIMALLOC,
    EXTENDED_OF_TOKEN,
    EXTENDED_OF_FAST_TOKEN,
    EXTENDED_OF_RUST,
    EXTENDED_OF_STANDARD,
    EXTENDED_LIBRARIES,
};

/* A function that each version of the library exports, by enum extended_library. "": it is never a
 * library. */
#define EXTENDED_LIBRARY_KEYS                                                                      \
    "mallocx", "tc_malloc", "mi_malloc", "__alloc_token_malloc", "__alloc_token_0_malloc", "", ""

/* Find the blocks of a heap of mimalloc. */
#define EXTENDED_HEAP_VISIT "mi_heap_visit_blocks"

#define EXTENDED_ENUMERATOR(name, ...) EXTENDED_##name,
enum extended_function { ALLOCATOR_EXTENDED(EXTENDED_ENUMERATOR) EXTENDED_FUNCTIONS };
#undef EXTENDED_ENUMERATOR

/*
 * A family: an allocator in a library, whose functions have a prefix of their own. A wrapper of
 * malloc has a prefix, too (g_malloc, CRYPTO_malloc), and what it gives is malloc's already. So a
 * family is an allocator that exports a function that only allocators of that kind have, its key,
 * with the same prefix as malloc and free. And its library maps memory itself.
 */
enum family_kind { FAMILY_JEMALLOC, FAMILY_MIMALLOC, FAMILY_TBB, FAMILY_KINDS };

#define FAMILY_KEYS "mallocx", "malloc_aligned_at", "allocation_mode"

/* Functions by which a library maps memory. */
#define FAMILY_MAPPERS "mmap", "mmap64", "sbrk", "syscall"

/* mimalloc's functions are in the table with the prefix mi_, which is a part of a family's. */
#define FAMILY_MIMALLOC_PREFIX "mi_"

#endif

#endif
