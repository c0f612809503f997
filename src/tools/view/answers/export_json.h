/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a question as JSON for other programs: its nodes with their figures, which are named
 * as in report --json. docs/view.md describes it. */
#ifndef HEAPPROFD_VIEW_EXPORT_JSON_H
#define HEAPPROFD_VIEW_EXPORT_JSON_H

#include "tools/view/answers/answers.h"

answer_function export_json;

#endif
