// SPDX-License-Identifier: Apache-2.0
// Starts the page.
import { render } from "preact";
/* esbuild makes page.css of it. */
import "./page.css";
import "./details/details.css";
import "./machine/machine.css";
import "./table/table.css";
import "./machine/record.css";
import { App } from "./app";
import { startPolling } from "./source";
import { startSpelling } from "./spell_out";
import { startTheme } from "./theme";

startSpelling();
startTheme();
startPolling();
render(<App />, document.getElementById("page")!);
