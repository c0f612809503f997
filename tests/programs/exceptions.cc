// C++ exceptions that are thrown through frames that allocate, caught by distant callers, rethrown
// in another thread, and thrown by operator new itself.
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "truth.h"
}

static const int ROUNDS = 2000;

static CALLSITE void *allocate_before_throw(size_t size)
{
    return kept(::operator new(size));
}

struct holder {
    void *block = allocate_before_throw(96);
    ~holder()
    {
        ::operator delete(block);
    }
};

static CALLSITE int descend(int depth)
{
    holder here;
    if (depth == 0)
        throw std::runtime_error("from the bottom, with a text that needs memory of its own");
    return descend(depth - 1) + 1;
}

int main()
{
    int caught = 0;
    for (int i = 0; i < ROUNDS; i++) {
        try {
            descend(10);
        } catch (const std::runtime_error &error) {
            caught += std::string(error.what()).size() > 20;
        }
    }
    std::exception_ptr carried;
    try {
        descend(3);
    } catch (...) {
        carried = std::current_exception();
    }
    std::thread([&] {
        try {
            std::rethrow_exception(carried);
        } catch (const std::exception &) {
            caught++;
        }
    }).join();
    volatile size_t too_much = ~size_t{0} / 2;
    for (int i = 0; i < 100; i++) {
        try {
            ::operator delete(kept(::operator new(too_much)));
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    std::printf("caught %d\n", caught);
    truth("allocate_before_throw", 96ull * (ROUNDS * 11 + 4), ROUNDS * 11 + 4);
    return 0;
}
