/*
 * The example in the documentation of heapprofd's Custom Allocator API, in C++: global constructors
 * register the heap.
 */
#include "heap_profile.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static uint32_t g_heap_id = AHeapProfile_registerHeap(AHeapInfo_create("invalid.example.cc"));

__attribute__((noinline)) static void *my_malloc(size_t size)
{
    void *ptr = malloc(size);
    AHeapProfile_reportAllocation(g_heap_id, reinterpret_cast<uintptr_t>(ptr), size);
    return ptr;
}

static void my_free(void *ptr)
{
    AHeapProfile_reportFree(g_heap_id, reinterpret_cast<uintptr_t>(ptr));
    free(ptr);
}

int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([] {
            for (int n = 0; n < 100; n++) {
                my_free(my_malloc(50));
                if (!my_malloc(100))
                    abort();
            }
        });
    }
    for (auto &thread : threads)
        thread.join();
    std::puts("done");
    return 0;
}
