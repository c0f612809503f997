/* Functions that hold memory in containers of the standard library, each through its own templates:
 * lists at least 400,000 bytes, names at least 100,000, table at least 200,000. */
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unistd.h>
#include <vector>

namespace shop {

std::vector<int> *lists;
std::vector<std::string> *names;
std::unordered_map<int, std::vector<long>> *table;

__attribute__((noinline)) void fill_lists(int count)
{
    lists = new std::vector<int>;
    for (int i = 0; i < count; i++)
        lists->push_back(i);
}

__attribute__((noinline)) void fill_names(int count)
{
    names = new std::vector<std::string>;
    names->reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; i++)
        names->push_back(std::string(100, 'x'));
}

template <typename Value> struct basket {
    __attribute__((noinline)) static void fill(int count);
};

template <typename Value> void basket<Value>::fill(int count)
{
    table = new std::unordered_map<int, std::vector<Value>>;
    for (int i = 0; i < count; i++)
        (*table)[i].assign(20, static_cast<Value>(i));
}

} // namespace shop

int main()
{
    shop::fill_lists(100000);
    shop::fill_names(1000);
    shop::basket<long>::fill(1000);
    _exit(0);
}
