// When calls and spans of an attempt were, one row a conversation, and when nothing was.
import { useState } from "preact/hooks";
import type { Event } from "../api";
import { brief } from "../format";
import type { Thread } from "./threads";

interface Bar {
  row: number;
  from: number;
  to: number;
  kind: "call" | "span" | "wait";
  words: string;
  /** The event that it stands for. */
  at: number | null;
}

const ROW = 18;
const WIDTH = 1000;
/** A pause that is worth a bar, as a share of the whole. */
const LEAST_WAIT = 0.004;

function bars(events: Event[], threads: Thread[]): { bars: Bar[]; rows: number; from: number; to: number } {
  const found: Bar[] = [];
  threads.forEach((thread, row) => {
    thread.turns.forEach(({ call, at }, index) => {
      const { start_time: from, end_time: to } = call;
      if (from === null || to === null) return;
      found.push({ row, from, to, at, kind: "call", words: `call ${index + 1} of conversation ${row + 1}` });
    });
  });
  let rows = threads.length;
  const spans = events.flatMap((event, at) => (event.kind === "span" ? [{ event, at }] : []));
  for (const { event, at } of spans) {
    const { start_time: from, end_time: to } = event;
    if (from === null || to === null) continue;
    rows = threads.length + 1;
    found.push({ row: threads.length, from, to, at, kind: "span", words: event.name });
  }
  found.sort((one, other) => one.from - other.from);
  const [from, to] = [Math.min(...found.map((bar) => bar.from)), Math.max(...found.map((bar) => bar.to))];
  return { bars: [...found, ...waits(found, from, to)].sort((one, other) => one.from - other.from), rows, from, to };
}

/** When neither a model nor anything that was traced was at work. */
function waits(busy: Bar[], from: number, to: number): Bar[] {
  const found: Bar[] = [];
  let until = from;
  for (const bar of busy) {
    if (bar.from - until > (to - from) * LEAST_WAIT) {
      found.push({
        row: -1,
        from: until,
        to: bar.from,
        kind: "wait",
        at: null,
        words: "nothing recorded: the agent itself, or a wait",
      });
    }
    until = Math.max(until, bar.to);
  }
  return found;
}

function barText(bar: Bar, from: number): string {
  return `${bar.words}: ${brief(bar.to - bar.from)}, from ${brief(bar.from - from)} on`;
}

/** `go` shows an event by its place. */
export function Timeline({ events, threads, go }: { events: Event[]; threads: Thread[]; go: (at: number) => void }) {
  const [chosen, choose] = useState<number | null>(null);
  const drawn = bars(events, threads);
  const { from, to, rows } = drawn;
  if (drawn.bars.length === 0 || !(to > from)) return null;
  const x = (time: number) => ((time - from) / (to - from)) * WIDTH;
  const bar = chosen === null ? undefined : drawn.bars[chosen];
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      choose(Math.min(drawn.bars.length - 1, Math.max(0, (chosen ?? -1) + by)));
    } else if (event.key === "Enter" && typeof bar?.at === "number") {
      go(bar.at);
    }
  };
  const waited = drawn.bars.reduce((sum, one) => sum + (one.kind === "wait" ? one.to - one.from : 0), 0);
  return (
    <div
      class="timeline"
      tabIndex={0}
      role="region"
      aria-label="Time line; arrow keys go from one bar to the next"
      onKeyDown={move}
    >
      <svg viewBox={`0 0 ${WIDTH} ${rows * ROW}`} preserveAspectRatio="none" height={rows * ROW} aria-hidden="true">
        {drawn.bars.map((one, index) => (
          <rect
            key={index}
            class={`${one.kind}${index === chosen ? " chosen" : ""}`}
            x={x(one.from)}
            width={Math.max(1.5, x(one.to) - x(one.from))}
            y={one.row < 0 ? 0 : one.row * ROW + 2}
            height={one.row < 0 ? rows * ROW : ROW - 4}
            onMouseOver={() => choose(index)}
            onClick={() => one.at !== null && go(one.at)}
          >
            <title>{barText(one, from)}</title>
          </rect>
        ))}
      </svg>
      <p class="quiet" aria-live="polite">
        {bar
          ? barText(bar, from)
          : `${brief(to - from)} in all, ${brief(waited)} without call or span; point at a bar, or use the arrow keys`}
      </p>
    </div>
  );
}
