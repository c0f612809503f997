// SPDX-License-Identifier: Apache-2.0
// Rows of one height in a box that scrolls: only those that are seen exist.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const MORE = 8; // rows above and below what is seen

/** `head`: the height of what stays at the top of the box. */
export function useVirtualRows(count: number, height: number, head: number) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setSeen((last) => ({ ...last, height: box.current!.clientHeight })));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return {
    box,
    begin: Math.max(Math.floor(seen.top / height) - MORE, 0),
    end: Math.min(Math.ceil((seen.top + seen.height) / height) + MORE, count),
    onScroll: () => setSeen({ top: box.current!.scrollTop, height: box.current!.clientHeight }),
    /** Rows in a page. */
    page: Math.max(Math.floor((seen.height - head) / height) - 1, 1),
    reveal(index: number) {
      const element = box.current!;
      if (index * height < element.scrollTop) element.scrollTop = index * height;
      else if ((index + 1) * height + head > element.scrollTop + element.clientHeight) element.scrollTop = (index + 1) * height + head - element.clientHeight;
    },
  };
}
