/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the margins of a dump's figures as format_margin(), or as a word where the file or the
 * interval determines them: at interval 1 recorded figures have no error, even if they are
 * incomplete. */
#ifndef HEAPPROFD_TOOLS_PRINT_MARGIN_H
#define HEAPPROFD_TOOLS_PRINT_MARGIN_H

#include "profile/compare/estimates.h"
#include "tools/print/format.h"

/* Return the margin of a row's bytes or count. */
struct formatted margin_of_figure(const struct profile_estimate *figure, bool counts,
                                  const struct profile_heap *heap, const struct profile_dump *dump);
/* The same for a sum over the whole heap. */
struct formatted margin_of_total(const struct estimate_shown *total, enum export_view view,
                                 bool counts, const struct profile_heap *heap,
                                 const struct profile_dump *dump);

#endif
