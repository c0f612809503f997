// All forms of C++ operator new and delete, and their guarantees: alignment, nothrow, bad_alloc,
// the new handler.
#include <cstdint>
#include <cstdio>
#include <new>

extern "C" {
#include "truth.h"
}

static const int ROUNDS = 100;

static CALLSITE void use_plain()
{
    ::operator delete(kept(::operator new(11)));
    ::operator delete (kept(::operator new(11)), std::size_t{11});
    ::operator delete[](kept(::operator new[](13)));
    ::operator delete[](kept(::operator new[](13)), std::size_t{13});
}

static CALLSITE void use_nothrow()
{
    ::operator delete(kept(::operator new(17, std::nothrow)), std::nothrow);
    ::operator delete[](kept(::operator new[](19, std::nothrow)), std::nothrow);
}

static bool aligned = true;

static CALLSITE void *check(void *block)
{
    aligned = aligned && reinterpret_cast<std::uintptr_t>(block) % 64 == 0;
    return block;
}

static CALLSITE void use_aligned()
{
    std::align_val_t to{64};
    ::operator delete(check(::operator new(23, to)), to);
    ::operator delete (check(::operator new(23, to)), std::size_t{23}, to);
    ::operator delete[](check(::operator new[](29, to)), to);
    ::operator delete[](check(::operator new[](29, to)), std::size_t{29}, to);
}

static CALLSITE void use_aligned_nothrow()
{
    std::align_val_t to{64};
    ::operator delete(check(::operator new(31, to, std::nothrow)), to, std::nothrow);
    ::operator delete[](check(::operator new[](37, to, std::nothrow)), to, std::nothrow);
}

static int handled;

static void on_failure()
{
    if (++handled % 3 == 0)
        std::set_new_handler(nullptr);
}

template <typename F> static const char *attempt(F allocate)
{
    std::set_new_handler(on_failure);
    try {
        return kept(allocate()) ? "block" : "null";
    } catch (const std::bad_alloc &) {
        return "bad_alloc";
    }
}

int main()
{
    for (int i = 0; i < ROUNDS; i++) {
        use_plain();
        use_nothrow();
        use_aligned();
        use_aligned_nothrow();
    }
    volatile std::size_t too_much = ~std::size_t{0} / 2 + 1;
    std::align_val_t to{64};
    std::printf("%s\n", attempt([&] { return ::operator new(too_much); }));
    std::printf("%s\n", attempt([&] { return ::operator new[](too_much); }));
    std::printf("%s\n", attempt([&] { return ::operator new(too_much, std::nothrow); }));
    std::printf("%s\n", attempt([&] { return ::operator new[](too_much, std::nothrow); }));
    std::printf("%s\n", attempt([&] { return ::operator new(too_much, to); }));
    std::printf("%s\n", attempt([&] { return ::operator new[](too_much, to); }));
    std::printf("%s\n", attempt([&] { return ::operator new(too_much, to, std::nothrow); }));
    std::printf("%s\n", attempt([&] { return ::operator new[](too_much, to, std::nothrow); }));
    std::printf("new handler called %d times, aligned %d\n", handled, aligned);
    truth("use_plain", ROUNDS * (2 * 11 + 2 * 13), ROUNDS * 4);
    truth("use_nothrow", ROUNDS * (17 + 19), ROUNDS * 2);
    truth_of_calls("use_aligned", ROUNDS * 4);
    truth_of_calls("use_aligned_nothrow", ROUNDS * 2);
    return 0;
}
