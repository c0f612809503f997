// SPDX-License-Identifier: Apache-2.0
// The menu of a frame: what can be done with it. Each entry names its key.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

export interface MenuEntry {
  title: string;
  key: string;
  run: () => void;
}

interface Props {
  title: string;
  entries: MenuEntry[];
  x: number;
  y: number;
  onClose: () => void;
}

export function Menu({ title, entries, x, y, onClose }: Props) {
  const list = useRef<HTMLUListElement>(null);
  const before = useRef(document.activeElement);
  const buttons = () => [...list.current!.querySelectorAll("button")];

  useLayoutEffect(() => {
    const element = list.current!;
    const { width, height } = element.getBoundingClientRect();
    element.style.left = `${Math.max(Math.min(x, innerWidth - width - 8), 8)}px`;
    element.style.top = `${Math.max(Math.min(y, innerHeight - height - 8), 8)}px`;
    buttons()[0]?.focus();
    return () => (before.current as HTMLElement | null)?.focus?.();
  }, []);
  useEffect(() => {
    const close = (event: Event) => {
      if (!list.current?.contains(event.target as Node)) onClose();
    };
    addEventListener("pointerdown", close);
    addEventListener("blur", onClose);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("blur", onClose);
    };
  }, []);

  function onKeyDown(event: KeyboardEvent) {
    const all = buttons();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const entry = entries.find((one) => one.key === event.key);
    if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key === "ArrowDown") all[(at + 1) % all.length]!.focus();
    else if (event.key === "ArrowUp") all[(at + all.length - 1) % all.length]!.focus();
    else if (entry) {
      onClose();
      entry.run();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <ul class="menu" role="menu" aria-label={title} ref={list} onKeyDown={onKeyDown}>
      <li class="menu-title" role="presentation">{title}</li>
      {entries.map((entry) => (
        <li role="none" key={entry.title}>
          <button type="button" role="menuitem" onClick={() => { onClose(); entry.run(); }}>
            <span>{entry.title}</span>
            <kbd>{entry.key}</kbd>
          </button>
        </li>
      ))}
    </ul>
  );
}
