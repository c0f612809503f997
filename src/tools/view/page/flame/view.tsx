// SPDX-License-Identifier: Apache-2.0
// The canvas of a flame graph: zoom, pan, pointer and keys. What a frame's menu and the side panel do
// with the chosen frame is their own concern.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Painter, ROW } from "./draw";
import { layOut, placeAt, type Layout, type Place } from "./layout";
import { changeColours, functionColours, type Theme } from "./colours";
import { nodeAt, pathOf, type Tree } from "../tree";

const ZOOM_MS = 120;
const CLICK_PIXELS = 4; // a pointer that moves further drags
const WHEEL_ZOOM = 0.0025;
const NARROWEST = 1e-12; // of the whole; numbers are not finer

export interface FlameProps {
  tree: Tree;
  path: string; // of the request: the same tree of a recording that has grown keeps what is seen of it
  theme: Theme;
  matched: Uint8Array | null;
  zoom: string;
  frame: string;
  flipped?: boolean;
  label: string;
  onHover: (place: Place | null) => void;
  onChoose: (node: number) => void;
  onZoom: (node: number) => void; // -1: the whole graph
  onMenu: (node: number, x: number, y: number) => void;
  onKey: (key: string, node: number) => boolean;
}

interface Scene {
  from: number;
  to: number;
  hovered: number;
  selected: number;
  frame: number; // of requestAnimationFrame
  stopAt: number;
}

const stillness = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

export function FlameView(props: FlameProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  const scene = useRef<Scene>({ from: 0, to: 1, hovered: -1, selected: -1, frame: 0, stopAt: 0 }).current;
  const latest = useRef(props);
  latest.current = props;
  const { tree, theme, matched } = props;
  const flipped = props.flipped ?? false;

  const layout = useMemo(() => layOut(tree), [tree]);
  const colours = useMemo(() => {
    const byNode = tree.lost ? changeColours(tree, theme, matched) : null;
    return { byNode, byFunction: byNode ? null : functionColours(tree, theme, matched) };
  }, [tree, theme, matched]);
  const drawn = useRef({ layout, colours });
  drawn.current = { layout, colours };

  const top = () => {
    const box = scroll.current!;
    return flipped ? box.scrollHeight - box.clientHeight - box.scrollTop : box.scrollTop;
  };

  function paint() {
    scene.frame = 0;
    const current = painter.current;
    if (!current || !scroll.current) return;
    const { layout, colours } = drawn.current;
    const look = { theme: latest.current.theme, hovered: scene.hovered, selected: scene.selected, ...colours };
    current.paint(layout, scene.from, scene.to, top(), flipped, look);
    canvas.current!.dataset.span = String(scene.to - scene.from); // for the scale of an image
  }
  function repaint() {
    if (scene.frame === 0) scene.frame = requestAnimationFrame(paint);
  }

  function show(from: number, to: number) {
    const span = Math.min(Math.max(to - from, NARROWEST), 1);
    scene.from = Math.min(Math.max(from, 0), 1 - span);
    scene.to = scene.from + span;
    repaint();
  }

  function glide(from: number, to: number) {
    cancelAnimationFrame(scene.stopAt);
    if (stillness()) return show(from, to);
    const first = { from: scene.from, to: scene.to };
    const begun = performance.now();
    const step = (now: number) => {
      const share = Math.min((now - begun) / ZOOM_MS, 1);
      const eased = 1 - (1 - share) ** 3;
      show(first.from + (from - first.from) * eased, first.to + (to - first.to) * eased);
      scene.stopAt = share < 1 ? requestAnimationFrame(step) : 0;
    };
    scene.stopAt = requestAnimationFrame(step);
  }

  function reveal(layout: Layout, node: number) {
    const box = scroll.current;
    if (!box || node < 0) return;
    const row = layout.depth[node]! * ROW;
    const seen = top();
    let wanted = seen;
    if (row < seen) wanted = row;
    else if (row + ROW > seen + box.clientHeight) wanted = row + ROW - box.clientHeight;
    if (wanted !== seen) box.scrollTop = flipped ? box.scrollHeight - box.clientHeight - wanted : wanted;
  }

  /* The size of the place. */
  useLayoutEffect(() => {
    painter.current = new Painter(canvas.current!);
    const resize = () => {
      const box = scroll.current!;
      painter.current!.resize(box.clientWidth, box.clientHeight, window.devicePixelRatio);
      paint();
    };
    const observer = new ResizeObserver(resize);
    observer.observe(scroll.current!);
    resize();
    return () => {
      observer.disconnect();
      cancelAnimationFrame(scene.frame);
      cancelAnimationFrame(scene.stopAt);
    };
  }, []);

  const last = useRef({ path: "", zoom: "" });
  useLayoutEffect(() => {
    scene.selected = props.frame === "" ? -1 : nodeAt(tree, props.frame);
    scene.hovered = -1;
    const node = nodeAt(tree, props.zoom);
    const from = node < 0 ? 0 : layout.left[node]!;
    const to = node < 0 ? 1 : from + layout.width[node]!;
    if (last.current.path !== props.path) {
      if (flipped) scroll.current!.scrollTop = scroll.current!.scrollHeight;
      show(from, to > from ? to : from + 1);
      paint();
    } else if (last.current.zoom !== props.zoom) glide(from, to > from ? to : from + 1);
    else paint();
    const isNew = last.current.path !== props.path || last.current.zoom !== props.zoom;
    last.current = { path: props.path, zoom: props.zoom };
    if (isNew && props.zoom !== "") reveal(layout, node);
  }, [tree, props.zoom]);
  useLayoutEffect(() => {
    scene.selected = props.frame === "" ? -1 : nodeAt(tree, props.frame);
    reveal(layout, scene.selected);
    repaint();
  }, [tree, props.frame]);
  useEffect(repaint, [colours]);

  function placeOf(event: MouseEvent): Place {
    const box = canvas.current!.getBoundingClientRect();
    const current = painter.current!;
    const share = scene.from + ((event.clientX - box.left) / current.width) * (scene.to - scene.from);
    const y = event.clientY - box.top;
    const row = flipped ? Math.floor((current.height - 1 - y + top()) / ROW) : Math.floor((y + top()) / ROW);
    return placeAt(layout, share, row, (scene.to - scene.from) / current.width);
  }

  function hover(place: Place | null) {
    const node = place && place.node >= 0 && place.narrow === 0 ? place.node : -1;
    if (node !== scene.hovered) {
      scene.hovered = node;
      repaint();
    }
    latest.current.onHover(place && place.node >= 0 ? place : null);
  }

  const drag = useRef<{ x: number; y: number; from: number; to: number; scroll: number; moved: boolean } | null>(null);
  function onPointerDown(event: PointerEvent) {
    if (event.button !== 0) return;
    drag.current = { x: event.clientX, y: event.clientY, from: scene.from, to: scene.to, scroll: scroll.current!.scrollTop, moved: false };
    canvas.current!.setPointerCapture(event.pointerId);
  }
  function onPointerMove(event: PointerEvent) {
    const begun = drag.current;
    if (!begun) return hover(placeOf(event));
    const x = event.clientX - begun.x;
    const y = event.clientY - begun.y;
    if (!begun.moved && Math.hypot(x, y) < CLICK_PIXELS) return;
    begun.moved = true;
    canvas.current!.classList.add("drags");
    const share = (x / painter.current!.width) * (begun.to - begun.from);
    show(begun.from - share, begun.to - share);
    scroll.current!.scrollTop = begun.scroll - y;
  }
  function onPointerUp(event: PointerEvent) {
    const begun = drag.current;
    drag.current = null;
    canvas.current!.classList.remove("drags");
    if (!begun || begun.moved) return;
    const place = placeOf(event);
    if (place.node < 0) return;
    if (place.narrow > 0) {
      const margin = (place.to - place.from) / 2;
      glide(place.from - margin, place.to + margin);
    } else latest.current.onZoom(place.node);
  }
  function onContextMenu(event: MouseEvent) {
    event.preventDefault();
    const place = placeOf(event);
    if (place.node < 0 || place.narrow > 0) return;
    latest.current.onChoose(place.node);
    latest.current.onMenu(place.node, event.clientX, event.clientY);
  }

  function zoomAt(share: number, factor: number) {
    show(share - (share - scene.from) * factor, share + (scene.to - share) * factor);
  }
  useEffect(() => {
    const element = canvas.current!;
    const onWheel = (event: WheelEvent) => {
      const unit = event.deltaMode === 1 ? ROW : event.deltaMode === 2 ? painter.current!.height : 1;
      const across = event.deltaX || (event.shiftKey ? event.deltaY : 0);
      const box = element.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) {
        const at = scene.from + ((event.clientX - box.left) / painter.current!.width) * (scene.to - scene.from);
        zoomAt(at, Math.exp(event.deltaY * unit * WHEEL_ZOOM));
      } else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        const share = ((across * unit) / painter.current!.width) * (scene.to - scene.from);
        show(scene.from + share, scene.to + share);
      } else return; // the page scrolls the rows
      event.preventDefault();
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);

  function neighbour(node: number, step: number): number {
    const above = tree.parent[node]!;
    if (above < 0) return node;
    const first = tree.firstChild[above]!;
    return Math.min(Math.max(node + step, first), first + tree.childCount[above]! - 1);
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const selected = scene.selected >= 0 ? scene.selected : Math.max(nodeAt(tree, latest.current.zoom), 0);
    const inwards = flipped ? "ArrowUp" : "ArrowDown";
    const outwards = flipped ? "ArrowDown" : "ArrowUp";
    const span = scene.to - scene.from;
    const middle = (scene.from + scene.to) / 2;
    const choose = (node: number) => latest.current.onChoose(node);
    switch (event.key) {
      case inwards: choose(tree.childCount[selected]! > 0 ? tree.firstChild[selected]! : selected); break;
      case outwards: choose(Math.max(tree.parent[selected]!, 0)); break;
      case "ArrowLeft": choose(neighbour(selected, -1)); break;
      case "ArrowRight": choose(neighbour(selected, 1)); break;
      case "Enter": latest.current.onZoom(selected); break;
      case "Backspace": latest.current.onZoom(Math.max(tree.parent[Math.max(nodeAt(tree, latest.current.zoom), 0)]!, 0)); break;
      case "Escape":
        latest.current.onZoom(-1);
        glide(0, 1);
        break;
      case "w": zoomAt(middle, 0.8); break;
      case "s": zoomAt(middle, 1.25); break;
      case "a": show(scene.from - span / 8, scene.to - span / 8); break;
      case "d": show(scene.from + span / 8, scene.to + span / 8); break;
      default: if (!latest.current.onKey(event.key, selected)) return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  const height = (layout.deepest + 1) * ROW;
  return (
    <div class="flame-scroll" ref={scroll} onScroll={repaint}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-describedby="chosen-box"
        aria-label={`${props.label}. Arrow keys go from frame to frame, Enter zooms, the menu key opens a menu. A table of the same frames follows.`}
        data-path={pathOf(tree, Math.max(scene.selected, 0))}
        onPointerDown={onPointerDown}
        onPointerMove={onPointerMove}
        onPointerUp={onPointerUp}
        onPointerLeave={() => hover(null)}
        onContextMenu={onContextMenu}
        onKeyDown={onKeyDown}
      />
      <div class="flame-room" style={{ height: `${height}px` }} />
    </div>
  );
}
