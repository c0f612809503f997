// SPDX-License-Identifier: Apache-2.0
// The SQL tab: an editor with the tables beside it, the result as a table, and as bars if it has a
// name and a number.
import { useEffect, useRef, useState } from "preact/hooks";
import { askSql, askSqlTables, useAnswer } from "./source";
import { select, useSelection } from "./state";
import type { SqlAnswer } from "./types";
import { countInWords, plural, timeInWords } from "./words";

const ROWS_SHOWN = 2000;
const BARS_SHOWN = 20;

function Bars({ answer }: { answer: SqlAnswer }) {
  const numeric = answer.columns.map((_, i) => answer.rows.length > 0 && answer.rows.every((row) => typeof row[i] === "number" || row[i] === null));
  const value = numeric.indexOf(true);
  const name = numeric.indexOf(false);
  if (value < 0 || name < 0 || answer.rows.length < 2) return null;
  const shown = answer.rows.slice(0, BARS_SHOWN);
  const most = Math.max(...shown.map((row) => Math.abs(Number(row[value] ?? 0))), 1e-300);
  return (
    <div class="bars" role="img" aria-label={`${answer.columns[value]} by ${answer.columns[name]}`}>
      {shown.map((row, i) => (
        <div key={i}>
          <span class="key">{String(row[name] ?? "NULL")}</span>
          <i class="bar" style={{ width: `${(Math.abs(Number(row[value] ?? 0)) / most) * 50}%` }} />
          <span class="figures faint">{Number(row[value] ?? 0).toLocaleString("en")}</span>
        </div>
      ))}
    </div>
  );
}

function Result({ answer }: { answer: SqlAnswer }) {
  const shown = answer.rows.slice(0, ROWS_SHOWN);
  return (
    <>
      <p class="faint">
        {plural(answer.rows.length, "row")}{answer.more && ", and more"} in {timeInWords(answer.seconds)}
        {answer.rows.length > shown.length && `; the first ${countInWords(shown.length)} are shown`}
      </p>
      <Bars answer={answer} />
      <div class="wide">
        <table class="plain">
          <thead><tr>{answer.columns.map((column, i) => <th key={i}>{column}</th>)}</tr></thead>
          <tbody>
            {shown.map((row, i) => (
              <tr key={i}>{row.map((cell, j) => <td key={j} class={typeof cell === "number" ? "number" : cell === null ? "faint" : ""}>{cell === null ? "NULL" : String(cell)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

export function SqlPanel() {
  const tables = useAnswer("api/tables", (_, signal) => askSqlTables(signal));
  const [result, setResult] = useState<{ answer: SqlAnswer | null; error: string; runs: boolean }>({ answer: null, error: "", runs: false });
  const editor = useRef<HTMLTextAreaElement>(null);
  const control = useRef<AbortController | null>(null);
  const { sql } = useSelection();
  useEffect(() => { editor.current!.value = sql; }, [sql]);

  async function run() {
    control.current?.abort();
    const mine = (control.current = new AbortController());
    setResult((last) => ({ ...last, runs: true }));
    const statement = editor.current!.value;
    select({ sql: statement }, true);
    try {
      const answer = await askSql(statement, mine.signal);
      setResult({ answer, error: "", runs: false });
    } catch (error) {
      if (!mine.signal.aborted) setResult({ answer: null, error: (error as Error).message, runs: false });
      else if (control.current === mine) setResult((last) => ({ ...last, runs: false }));
    }
  }
  function insert(text: string) {
    const element = editor.current!;
    element.setRangeText(text, element.selectionStart, element.selectionEnd, "end");
    element.focus();
  }

  return (
    <section class="panel sql" aria-label="SQL">
      <section class="sql-tables" aria-label="Tables" tabIndex={0}>
        <h2>Tables</h2>
        {tables.error !== "" && <p class="bad">{tables.error}</p>}
        {tables.value?.map((table) => (
          <details key={table.name}>
            <summary><code>{table.name}</code></summary>
            <ul>
              {table.columns.map((column) => (
                <li key={column.name}><button type="button" class="link" onClick={() => insert(column.name)}>{column.name}</button> <span class="faint">{column.type}</span></li>
              ))}
            </ul>
          </details>
        ))}
      </section>
      <div class="sql-main">
        <textarea id="search" ref={editor} rows={6} spellcheck={false} aria-label="SQL" placeholder="SELECT name, type FROM sqlite_master"
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            void run();
          }} />
        <p>
          <button type="button" class="primary" onClick={run} disabled={result.runs}>Run</button> <span class="faint">Ctrl Enter</span>
          {result.runs && <button type="button" onClick={() => control.current?.abort()}>Cancel</button>}
        </p>
        {result.error !== "" && <pre class="bad">{result.error}</pre>}
        {result.answer && <Result answer={result.answer} />}
      </div>
    </section>
  );
}
