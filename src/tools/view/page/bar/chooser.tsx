// SPDX-License-Identifier: Apache-2.0
// A choice of one among very many: a button that opens a list with a search. Of the list only a part is
// on the page, around the choice or the best matches.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Option {
  value: string;
  title: string;
  note?: string; // at the right
}

const SHOWN = 50;

/** Return the options that match a search, those that begin with it first; without one, those around the choice. */
export function matchOptions(options: Option[], search: string, value: string): { shown: Option[]; all: number } {
  const wanted = search.trim().toLowerCase();
  if (wanted === "") {
    const chosen = Math.max(options.findIndex((one) => one.value === value), 0);
    const first = Math.max(Math.min(chosen - SHOWN / 2, options.length - SHOWN), 0);
    return { shown: options.slice(first, first + SHOWN), all: options.length };
  }
  const begins: Option[] = [];
  const contains: Option[] = [];
  for (const option of options) {
    const at = option.title.toLowerCase().indexOf(wanted);
    if (at >= 0) (at === 0 ? begins : contains).push(option);
  }
  return { shown: [...begins, ...contains].slice(0, SHOWN), all: begins.length + contains.length };
}

function List({ id, label, value, options, onChoose, onClose }: {
  id: string; label: string; value: string; options: Option[]; onChoose: (value: string) => void; onClose: () => void;
}) {
  const [search, setSearch] = useState("");
  const { shown, all } = matchOptions(options, search, value);
  const [active, setActive] = useState(Math.max(shown.findIndex((one) => one.value === value), 0));
  const list = useRef<HTMLUListElement>(null);
  const at = Math.min(active, shown.length - 1);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at, search]);
  function onKeyDown(event: KeyboardEvent) {
    switch (event.key) {
      case "ArrowDown": setActive(Math.min(at + 1, shown.length - 1)); break;
      case "ArrowUp": setActive(Math.max(at - 1, 0)); break;
      case "Enter": if (shown[at]) onChoose(shown[at].value); break;
      case "Escape": onClose(); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
  return (
    <div class="chooser-list">
      <input role="combobox" aria-expanded="true" aria-controls={id} aria-label={`Search: ${label}`} aria-activedescendant={shown[at] ? `${id}-${at}` : undefined}
        placeholder="Search" value={search} spellcheck={false} autocomplete="off" ref={(element) => { if (element && search === "") element.focus(); }}
        onInput={(event) => { setSearch(event.currentTarget.value); setActive(0); }} onKeyDown={onKeyDown} />
      <ul role="listbox" id={id} aria-label={label} ref={list}>
        {shown.map((option, i) => (
          <li key={option.value} id={`${id}-${i}`} role="option" aria-selected={i === at} class={option.value === value ? "chosen" : ""}
            onMouseDown={(event) => { event.preventDefault(); onChoose(option.value); }}>
            <span>{option.title}</span>{option.note !== undefined && <span class="faint figures">{option.note}</span>}
          </li>
        ))}
      </ul>
      <p class="faint" role="status">{shown.length === 0 ? "No match" : shown.length < all ? `${shown.length} of ${all}: search for the others` : ""}</p>
    </div>
  );
}

export function Chooser({ label, value, title, options, onChange }: {
  label: string; value: string; title: string; options: () => Option[]; onChange: (value: string) => void;
}) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const id = `chooser-${label.replace(/\W/g, "")}`;
  const close = () => {
    setOpen(false);
    box.current?.querySelector("button")?.focus();
  };
  return (
    <div class="choice chooser" ref={box} onFocusOut={(event) => { if (!box.current?.contains(event.relatedTarget as Node | null)) setOpen(false); }}>
      <span>{label}</span>
      <button type="button" aria-haspopup="listbox" aria-expanded={isOpen} aria-label={`${label}: ${title}`} onClick={() => setOpen(!isOpen)}>{title}</button>
      {isOpen && <List id={id} label={label} value={value} options={options()} onClose={close} onChoose={(chosen) => { close(); onChange(chosen); }} />}
    </div>
  );
}
