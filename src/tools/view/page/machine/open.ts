// SPDX-License-Identifier: Apache-2.0
// Opens profiles: the server reads them, then the page goes to them.
import { askOverview, post, refresh } from "../source";
import { NOTHING_SELECTED, select } from "../state";

/** Show these profiles in place of those that are shown. */
export async function openProfiles(paths: string[]) {
  await post("api/open", { paths });
  await refresh();
}

/** Show the same profiles with the interpreters' own frames, or without them. */
export async function showNative(native: boolean) {
  await post("api/open", { paths: [], add: true, native });
  await refresh();
}

/** Show these profiles, and go to the first of them; of two, to what the second changed. */
export async function goToProfiles(paths: string[]) {
  await openProfiles(paths);
  const { opening, profiles } = await askOverview(new AbortController().signal);
  const [before, after] = profiles.map((profile) => profile.heaps[0]);
  const last = before ? before.dumps.length - 1 : -1;
  const isPair = paths.length === 2 && before && after && last >= 0 && after.dumps.length > 0;
  if (isPair) select({ ...NOTHING_SELECTED, heap: after.id, base: `${before.id}.${last}`, tab: "flame" });
  else select({ ...NOTHING_SELECTED, heap: opening?.heap ?? "", view: opening?.view ?? NOTHING_SELECTED.view });
}
