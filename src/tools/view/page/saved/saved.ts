// SPDX-License-Identifier: Apache-2.0
// Whether the page is a file with its data inside, in the element #saved, and its answers then.
import { SavedAnswers } from "./answers";
import type { Packed } from "./blocks";

export { NOT_SAVED, NotSaved } from "./answers";

const element = typeof document === "undefined" ? null : document.getElementById("saved");

/** Whether the page is a file, without a server. */
export const isSaved = element !== null;

let answers: SavedAnswers | null = null;

/** Answer a question from the file. */
export async function savedAnswer(path: string): Promise<Response> {
  answers ??= new SavedAnswers(JSON.parse(element?.textContent ?? "{}") as Packed);
  return new Response(await answers.answer(path));
}
