// SPDX-License-Identifier: Apache-2.0
export function HomePage() {
  return <section class="panel machine" aria-label="Home" />;
}
