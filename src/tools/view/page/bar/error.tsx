// SPDX-License-Identifier: Apache-2.0
// Why a button of the bar did nothing, whole, below the bar.
export function BarError({ message, onClose }: { message: string; onClose: () => void }) {
  if (message === "") return null;
  return <span class="bar-error" role="alert">{message}. <button type="button" class="link" onClick={onClose}>Close</button></span>;
}
