// SPDX-License-Identifier: Apache-2.0
// Style sheets are bundled, not imported as values.
declare module "*.css";
