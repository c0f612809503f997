/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of known frames (known_frames.h): one line for each group, with its modules, and the
 * functions that belong to it in any module. A pattern that ends in '*' is a prefix; any other is a
 * whole name. Names are simple ones, without parameters and template arguments; suffixes of clones
 * (clones.h) do not count.
 */
#include "profile/known_frames.h"

#include <string.h>

#include "profile/symbols/clones.h"

struct group {
    struct known_frames known;
    const char *const *modules, *const *names; /* NULL ends them; names NULL: none */
    const char *const *programs; /* the only modules in which the names count; NULL: all modules */
};

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE ((const char *const[]){NULL})

/* The first matching group counts. */
static const struct group groups[] = {
    {{"the allocator", true, false},
     LIST("libjemalloc.so*", "libtcmalloc*", "libmimalloc*", "libheapprofd_*", "libasan.so*",
          "liblsan.so*", "libhwasan.so*"),
     LIST("malloc", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc",
          "posix_memalign", "valloc", "pvalloc", "operator new*", "__libc_malloc", "__libc_calloc",
          "__libc_realloc", "__libc_memalign", "__libc_valloc", "_mid_memalign", "_int_malloc",
          "_int_realloc", "_int_memalign", "malloc_consolidate", "sysmalloc", "tcache_init",
          /* jemalloc, tcmalloc, mimalloc */
          "je_*", "tc_malloc*", "tc_calloc", "tc_realloc", "tc_new*", "tc_memalign",
          "tc_posix_memalign", "tcmalloc::*", "_rjem_*", "mi_malloc*", "mi_calloc*", "mi_realloc*",
          "mi_new*", "mi_heap_*", "_mi_*", "rallocx", "mallocx",
          /* as called by many programs, libiberty, gnulib, git and bash */
          "xmalloc*", "xcalloc*", "xzalloc*", "xrealloc*", "xstrdup*", "xstrndup*", "xmemdup*",
          "xnmalloc*", "xnrealloc*", "x2realloc*", "x2nrealloc*", "xcharalloc", "xpalloc",
          "ximalloc*", "xicalloc*", "xirealloc*", "xireallocarray", "xreallocarray", "imalloc",
          "icalloc", "irealloc", "ireallocarray", "do_xmalloc*", "do_xmallocz*", "sh_xmalloc",
          "sh_xrealloc", "mem_pool_alloc*", "mem_pool_calloc", "safe_malloc*", "safe_calloc",
          "safe_realloc", "emalloc", "ecalloc", "erealloc", "checked_malloc", "safemalloc*",
          "_obstack_*", "_objalloc_alloc", "objalloc_create", "bfd_malloc*", "bfd_zmalloc*",
          "bfd_realloc*", "bfd_alloc*", "bfd_zalloc*", "ggc_internal_*", "ggc_alloc*",
          "__gmp_default_*", "__gmp_tmp_reentrant_alloc", "lmalloc", "lrealloc",
          /* redis */
          "zmalloc*", "zcalloc*", "zrealloc*", "ztrymalloc*", "ztrycalloc*", "ztryrealloc*",
          "zstrdup", "valkey_malloc*",
          /* glib */
          "g_malloc*", "g_try_malloc*", "g_realloc*", "g_try_realloc*", "g_slice_alloc*",
          "g_slice_copy", "g_memdup*", "g_strdup", "g_strndup", "g_aligned_alloc*",
          "g_rc_box_alloc*", "g_atomic_rc_box_alloc*", "g_rc_box_acquire",
          "slab_allocator_alloc_chunk", "allocator_add_slab", "allocator_memalign",
          "thread_memory_magazine*", "magazine_cache_*", "standard_malloc", "standard_calloc",
          "standard_realloc",
          /* SQLite */
          "sqlite3Mem*", "sqlite3Malloc*", "sqlite3_malloc*", "sqlite3DbMalloc*",
          "sqlite3DbRealloc*", "sqlite3DbStrDup", "sqlite3DbStrNDup", "sqlite3Realloc*",
          "sqlite3_realloc*", "sqlite3PageMalloc", "pcache1Alloc*", "pcache1InitBulk",
          "mallocWithAlarm", "dbMallocRawFinish", "dbReallocFinish",
          /* other libraries */
          "CRYPTO_malloc*", "CRYPTO_zalloc", "CRYPTO_calloc", "CRYPTO_realloc*",
          "CRYPTO_clear_realloc", "CRYPTO_strdup", "CRYPTO_strndup", "CRYPTO_memdup",
          "CRYPTO_aligned_alloc", "OPENSSL_malloc*", "OPENSSL_zalloc*", "OPENSSL_realloc*",
          "PORT_Alloc*", "PORT_ZAlloc*", "PORT_ArenaAlloc*", "PR_Malloc", "PR_Calloc",
          "apr_palloc*", "apr_pcalloc*", "apr_pstrdup", "apr_pstrndup", "apr_pstrmemdup",
          "apr_pmemdup", "apr_allocator_alloc", "ngx_alloc", "ngx_calloc", "ngx_palloc*",
          "ngx_pcalloc", "ngx_pnalloc", "ngx_pmemalign", "ngx_memalign", "ngx_create_pool",
          "palloc", "palloc0", "palloc_extended", "palloc_aligned", "repalloc*", "pstrdup",
          "pnstrdup", "MemoryContextAlloc*", "MemoryContextStrdup", "AllocSetAlloc*",
          "AllocSetRealloc", "SlabAlloc*", "GenerationAlloc*", "pg_malloc*", "pg_realloc*",
          "pg_strdup", "talloc_*", "_talloc_*", "xmlMemMalloc", "xmlMallocLoc",
          "xmlMallocAtomicLoc", "xmlReallocLoc", "xmlMemRealloc", "xmlMemStrdup*", "av_malloc*",
          "av_mallocz*", "av_realloc*", "av_calloc", "av_strdup", "av_fast_malloc*",
          "av_fast_realloc", "jv_mem_*", "uv__malloc", "uv__calloc", "uv__realloc*", "uv__strdup",
          "nettle_xalloc", "_gcry_malloc*", "_gcry_xmalloc*", "_gcry_xcalloc*", "_gcry_xrealloc*",
          "_gcry_calloc*", "_gcry_private_malloc*", "gcry_malloc*", "gcry_xmalloc*", "gcry_calloc*",
          "gpgrt_malloc", "gpgrt_realloc", "_gpgrt_malloc", "_gpgrt_realloc", "greedy_realloc*",
          "malloc_multiply", "cairo_malloc*", "_cairo_malloc*", "FT_Alloc*", "ft_mem_*", "ft_alloc",
          "ft_realloc", "png_malloc*", "BrotliAllocate", "ZSTD_customMalloc", "ZSTD_customCalloc",
          "kmalloc", "kcalloc", "krealloc",
          /* C++ libraries */
          "llvm::safe_malloc", "llvm::safe_calloc", "llvm::safe_realloc", "llvm::allocate_buffer",
          "llvm::BumpPtrAllocatorImpl::*", "llvm::SpecificBumpPtrAllocator::*",
          "llvm::MallocAllocator::*", "node::NodeArrayBufferAllocator::*", "node::Malloc",
          "node::Calloc", "node::Realloc", "node::UncheckedMalloc", "node::UncheckedCalloc",
          "node::UncheckedRealloc", "qMallocAligned", "qReallocAligned", "WTF::fastMalloc*",
          /* languages: the rest of their interpreters is below */
          "PyMem_*", "_PyMem_*", "PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc",
          "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc", "_PyObject_Arena*",
          "_PyObject_GC_*", "PyObject_GC_*", "_PyObject_New*", "_PyType_AllocNoTrack",
          "PyType_GenericAlloc", "PyType_GenericNew", "_PyArena_Malloc", "PyArena_Malloc",
          "pymalloc_alloc", "pymalloc_realloc", "allocate_from_new_pool", "arena_map_*",
          "Perl_safesys*", "Perl_more_sv", "Perl_more_bodies", "S_more_sv", "S_new_SV",
          "objspace_xmalloc*", "objspace_xcalloc*", "objspace_xrealloc*", "ruby_xmalloc*",
          "ruby_xcalloc*", "ruby_xrealloc*", "rb_xmalloc*", "rb_gc_impl_malloc",
          "rb_gc_impl_calloc", "rb_gc_impl_realloc", "_emalloc*", "_ecalloc*", "_erealloc*",
          "_estrdup*", "_estrndup*", "_safe_emalloc", "_safe_erealloc", "_femalloc",
          "_safe_femalloc", "_safe_ferealloc", "_safe_malloc", "_safe_realloc", "__zend_malloc",
          "__zend_calloc", "__zend_realloc", "zend_strndup", "zend_mm_*", "l_alloc", "luaM_*",
          "GC_*", "caml_stat_*", "caml_alloc*", "stgMallocBytes", "stgCallocBytes",
          "stgReallocBytes", "erts_alloc*", "erts_sys_alloc", "erts_sys_realloc", "erts_alcu_*",
          "swift_slowAlloc*", "swift_allocObject*", "_swift_allocObject_*", "__rust_alloc*",
          "__rust_realloc", "__rdl_*", "__rg_*", "__rustc::*", "os::malloc", "os::realloc",
          "AllocateHeap", "ReallocateHeap", "ChunkPool::*", "Arena::grow", "Arena::Amalloc*",
          "Arena::AmallocWords"),
     NULL},
    {{"the allocator", true, false},
     NONE,
     LIST("new_arena", "block_alloc", "block_new", "gc_alloc"),
     LIST("libpython*", "python*")},
    {{"the allocator", true, false},
     NONE,
     LIST("alloc", "alloc_clear", "lalloc*", "mem_realloc"),
     LIST("vim*")},
    {{"libc++", false, false},
     LIST("libc++.so*", "libc++abi.so*"),
     LIST("std::__1::*", "std::__ndk1::*"),
     NULL},
    {{"libstdc++", false, false},
     LIST("libstdc++.so*"),
     LIST("std::*", "__gnu_cxx::*", "__cxxabiv1::*", "__cxa_*"),
     NULL},
    {{"LLVM's containers", false, false},
     NONE,
     LIST("llvm::SmallVectorBase::*", "llvm::SmallVectorTemplate*", "llvm::SmallVectorImpl::*",
          "llvm::SmallVector::*", "llvm::DenseMap*", "llvm::detail::DenseMap*",
          "llvm::SmallDenseMap::*", "llvm::StringMap*", "llvm::FoldingSetBase::*",
          "llvm::SmallPtrSet*", "llvm::function_ref::*", "llvm::any_*"),
     NULL},
    {{"Qt's containers", false, false},
     NONE,
     LIST("QArrayData::*", "QTypedArrayData::*", "QListData::*", "QHashData::*", "QMapData*",
          "QVector::*", "QList::*", "QHash::*", "QMap::*", "QByteArray::reallocData",
          "QString::reallocData", "QHashPrivate::*", "QtPrivate::*"),
     NULL},
    {{"the Java VM", false, true}, LIST("libjvm.so"), NULL, NULL},
    {{"V8", false, true}, NONE, LIST("v8::*", "Builtins_*"), NULL},
    {{".NET's run time", false, true},
     LIST("libcoreclr.so", "libclrjit.so", "libmono*", "mono-sgen*"),
     NULL,
     NULL},
    {{"Go's run time", false, true},
     LIST("libgo.so*"),
     LIST("runtime.*", "_cgo_*", "x_cgo_*", "_cgoexp_*", "crosscall*", "main._Cfunc_*"),
     NULL},
    {{"Swift's run time", false, true}, LIST("libswiftCore.so"), NULL, NULL},
    {{"libgfortran", false, false}, LIST("libgfortran.so*"), NULL, NULL},
    {{"Python's interpreter", false, true},
     LIST("libpython3.*", "python3", "python3.*"),
     LIST("_PyEval_*", "PyEval_*", "_PyFunction_Vectorcall*", "PyObject_Call*", "_PyObject_Call*",
          "PyObject_Vectorcall*", "_PyObject_Vectorcall*", "_PyObject_FastCall*",
          "_PyObject_MakeTpCall", "PyVectorcall_*", "_PyVectorcall_*", "method_vectorcall*",
          "cfunction_vectorcall*", "cfunction_call*", "vectorcall_*", "slot_tp_*", "type_call",
          "object_vacall", "function_code_fastcall", "call_function", "do_call_core",
          "_PyObject_Call_Prepend"),
     NULL},
    {{"Perl's interpreter", false, true}, NONE, LIST("Perl_runops_*", "Perl_pp_entersub"), NULL},
    {{"Ruby's interpreter", false, true},
     LIST("libruby*", "ruby", "ruby2*", "ruby3*"),
     LIST("vm_exec*", "vm_call_*", "rb_vm_exec", "vm_sendish", "rb_ec_exec_node"),
     NULL},
    {{"PHP's engine", false, true},
     LIST("php", "php5*", "php7*", "php8*", "php-*", "libphp*"),
     LIST("execute_ex", "zend_call_function", "zend_call_known_*", "zend_execute*"),
     NULL},
    {{"the C library", false, false},
     LIST("libc.so*", "libc-2.*", "libc.musl-*", "libm.so*", "libm-2.*", "libmvec*", "libpthread*",
          "libdl.so*", "libdl-2.*", "librt.so*", "librt-2.*", "libresolv*", "libnss_*",
          "libanl.so*", "ld-linux*", "ld-musl-*", "ld-2.*", "ld.so*", "ld64.so*", "libgcc_s.so*",
          "libunwind.so*", "libffi.so*", "linux-vdso*", "[vdso]"),
     LIST("_start", "__libc_start_main*", "__libc_start_call_main", "__libc_csu_init", "strdup",
          "strndup", "__strdup", "__strndup", "asprintf", "vasprintf"),
     NULL},
};

static const struct known_frames rust_library = {"Rust's standard library", false, false};

/* Return whether the first `length` bytes of a text are like a pattern. */
static bool is_like(const char *text, size_t length, const char *pattern)
{
    if (*text != *pattern)
        return false;
    size_t wanted = strlen(pattern);
    if (pattern[wanted - 1] == '*')
        return length >= wanted - 1 && memcmp(text, pattern, wanted - 1) == 0;
    return length == wanted && memcmp(text, pattern, wanted) == 0;
}

/* Classes can have their own operator new. */
static bool is_operator_new(const char *name, size_t length)
{
    const char *found = strstr(name, "operator new");
    if (found == NULL || (found != name && found[-1] != ':'))
        return false;
    const char *end = found + strlen("operator new");
    return end + strspn(end, "[]") == name + length;
}

static bool is_any_of(const char *text, size_t length, const char *const *patterns)
{
    for (; *text != '\0' && patterns != NULL && *patterns != NULL; patterns++)
        if (is_like(text, length, *patterns))
            return true;
    return false;
}

static bool is_any(const char *text, const char *const *patterns)
{
    return is_any_of(text, strlen(text), patterns);
}

/* Return whether a Rust path begins in one of the crates that come with the compiler. */
static bool is_rust_crate(const char *path)
{
    static const char *const crates[] = {"std::*",
                                         "core::*",
                                         "alloc::*",
                                         "hashbrown::*",
                                         "rustc_std_workspace*",
                                         "proc_macro::*",
                                         "test::*",
                                         "std_detect::*",
                                         NULL};
    return is_any(path, crates);
}

/*
 * "core::ops::f", "<alloc::vec::Vec as ...>::f". For functions of any type, as in "<T as
 * alloc::...>::f", the trait decides. A type without a path is built in, or a placeholder.
 */
static bool is_rust_library(const char *name)
{
    if (*name != '<')
        return is_rust_crate(name);
    name++;
    name += strspn(name, "&*[(");
    if (strncmp(name, "mut ", 4) == 0 || strncmp(name, "dyn ", 4) == 0)
        name += 4;
    if (is_rust_crate(name))
        return true;
    const char *trait = strstr(name, " as "), *end = strchr(name, '>');
    const char *colons = strstr(name, "::");
    if (trait == NULL || (end != NULL && end < trait))
        return end != NULL && (colons == NULL || end < colons);
    return (colons == NULL || colons > trait) && is_rust_crate(trait + strlen(" as "));
}

/* Debug information may have only the last part of a function's name. */
static const struct known_frames *find_source(const char *source_file)
{
    static const struct known_frames cxx = {"libstdc++", false, false},
                                     llvm_cxx = {"libc++", false, false};
    if (strncmp(source_file, "/rustc/", strlen("/rustc/")) == 0)
        return &rust_library;
    if (strstr(source_file, "/include/c++/v1/") != NULL)
        return &llvm_cxx;
    return strstr(source_file, "/include/c++/") != NULL ? &cxx : NULL;
}

const struct known_frames *known_frames_find(const char *module, const char *name, bool is_rust,
                                             const char *source_file)
{
    if (is_rust && is_rust_library(name))
        return &rust_library;
    size_t length = clones_name_length(name);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        const struct group *group = &groups[i];
        if (is_any(module, group->modules))
            return &group->known;
        if (group->programs != NULL && !is_any(module, group->programs))
            continue;
        if (is_any_of(name, length, group->names) || (i == 0 && is_operator_new(name, length)))
            return &group->known;
    }
    return find_source(source_file);
}
