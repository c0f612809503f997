/* SPDX-License-Identifier: Apache-2.0 */
/* MemoryInfra's JSON in pieces, as string literals. */
#ifndef HEAPPROFD_TESTS_MEMORY_INFRA_JSON_H
#define HEAPPROFD_TESTS_MEMORY_INFRA_JSON_H

#define DUMP(dumps) "{\"traceEvents\":[{\"args\":{\"dumps\":{" dumps "}},\"ph\":\"v\",\"pid\":7}]}"
#define HEAPS(maps, allocators)                                                                    \
    DUMP("\"heaps_v2\":{\"allocators\":{" allocators "},\"maps\":{" maps "},\"version\":1}")
#define COLUMNS(nodes, types, counts, sizes)                                                       \
    "\"malloc\":{\"nodes\":[" nodes "],\"types\":[" types "],\"counts\":[" counts                  \
    "],\"sizes\":[" sizes "]}"

#endif
