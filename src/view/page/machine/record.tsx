// SPDX-License-Identifier: Apache-2.0
export function RecordPage() {
  return <section class="panel machine" aria-label="Record" />;
}
