// SPDX-License-Identifier: Apache-2.0
export function ProcessesPage() {
  return <section class="panel machine" aria-label="Processes" />;
}
