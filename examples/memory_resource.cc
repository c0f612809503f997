/*
 * A std::pmr::memory_resource that shows in the profile: the allocations of containers from it are
 * a separate heap. It is in front of another resource, here a pool, and sees each request, while
 * malloc sees only the pool's large blocks.
 */
#include <heap_profile.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory_resource>
#include <string>
#include <vector>

class profiled_resource : public std::pmr::memory_resource
{
  public:
    profiled_resource(const char *name, std::pmr::memory_resource *upstream)
        : heap_(AHeapProfile_registerHeap(AHeapInfo_create(name))), upstream_(upstream)
    {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *memory = upstream_->allocate(bytes, alignment);
        AHeapProfile_reportAllocation(heap_, reinterpret_cast<std::uintptr_t>(memory), bytes);
        return memory;
    }

    /* Report the free first: afterwards another thread can get the memory at once. */
    void do_deallocate(void *memory, std::size_t bytes, std::size_t alignment) override
    {
        AHeapProfile_reportFree(heap_, reinterpret_cast<std::uintptr_t>(memory));
        upstream_->deallocate(memory, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return this == &other;
    }

    std::uint32_t heap_;
    std::pmr::memory_resource *upstream_;
};

using index_of_words = std::pmr::map<std::pmr::string, std::pmr::vector<int>>;

static void add_words(index_of_words &index, int count)
{
    HeapProfileScopeGuard scope("add words");
    for (int i = 0; i < count; i++)
        index["the word that has the number " + std::pmr::string(std::to_string(i % 500))]
            .push_back(i);
}

int main()
{
    std::pmr::unsynchronized_pool_resource pool;
    profiled_resource resource("example.pmr", &pool);
    index_of_words index(&resource);
    add_words(index, 20000);
    std::printf("%zu words\n", index.size());
    return 0;
}
