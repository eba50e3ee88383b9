// Conversations of an attempt, from its calls: which call goes on where, and which conversation is inside another.
import type { Event, Message } from "../api";
import { isCompaction } from "../words_for";

export type Call = Extract<Event, { kind: "call" }>;
export type Other = Exclude<Event, { kind: "call" }>;

/** A call in its conversation. */
export interface Turn {
  call: Call;
  /** Its place among the attempt's events. */
  at: number;
  /** Messages of its whole prompt that its conversation has shown before. */
  before: number;
  /** Those that it has not. */
  messages: Message[];
  isRepeated: boolean;
  isCompacted: boolean;
}

export interface Thread {
  turns: Turn[];
  /** Conversations that began while this one went on, and what else happened in it. */
  items: Item[];
  inner: number;
}

export type Item = { at: number } & ({ turn: Turn } | { thread: Thread } | { other: Other });

const isSame = (one: Message, other: Message) =>
  one.role === other.role &&
  one.text === other.text &&
  JSON.stringify(one.tool_calls) === JSON.stringify(other.tool_calls);

function common(one: Message[], other: Message[]): number {
  let same = 0;
  for (; same < one.length && same < other.length; same += 1) {
    const [left, right] = [one[same], other[same]];
    if (!left || !right || !isSame(left, right)) break;
  }
  return same;
}

/** What a conversation has shown of a prompt; its first message aside where that alone changed. */
function shownOf(
  shown: Message[],
  prompt: Message[],
  reason: string | null | undefined,
): { same: number; first: Message[] } {
  const [first] = prompt;
  if (reason !== "system_changed" || !first || shown.length === 0) return { same: common(shown, prompt), first: [] };
  return { same: 1 + common(shown.slice(1), prompt.slice(1)), first: [first] };
}

/** What each call was asked, whole: the server sends what the call before it has not shown. */
function prompts(events: Event[]): Map<Call, Message[]> {
  const whole = new Map<Call, Message[]>();
  let shown: Message[] = [];
  for (const event of events) {
    if (event.kind !== "call") continue;
    const prompt = [...shown.slice(0, event.shown_before), ...event.messages];
    whole.set(event, prompt);
    shown = [...prompt, ...event.answer];
  }
  return whole;
}

interface Growing {
  thread: Thread;
  /** What it has shown, its last answer included. */
  shown: Message[];
  ids: Set<string>;
}

/** The conversation that a call goes on with; none if it begins one. */
function continued(call: Call, prompt: Message[], growing: Growing[]): Growing | undefined {
  if (call.parent_id) {
    const parent = call.parent_id;
    const found = growing.find((one) => one.ids.has(parent));
    if (found && found.thread.turns.at(-1)?.call.generation_id === parent) return found;
    if (found) return undefined;
  }
  if (call.branch_reason === "first_turn") return undefined;
  const fits = growing.map((one) => ({ one, same: shownOf(one.shown, prompt, call.branch_reason).same }));
  if (isCompaction(call.branch_reason)) {
    // A compacted history may have nothing but the system message in common with what was there, and not even that.
    const last = (one: Growing) => one.thread.turns.at(-1)?.at ?? 0;
    return fits.sort((left, right) => right.same - left.same || last(right.one) - last(left.one))[0]?.one;
  }
  const isWhole = (same: number) => call.branch_reason === "request_repeated" && same === prompt.length;
  const best = fits.filter(({ same }) => same > 1 || isWhole(same)).sort((one, other) => other.same - one.same)[0];
  return best && (best.same === best.one.shown.length || call.branch_reason) ? best.one : undefined;
}

/** All conversations, in the order of their first calls. */
function conversations(events: Event[]): Thread[] {
  const growing: Growing[] = [];
  const whole = prompts(events);
  events.forEach((call, at) => {
    if (call.kind !== "call") return;
    const prompt = whole.get(call) ?? [];
    let into = continued(call, prompt, growing);
    if (!into) {
      into = { thread: { turns: [], items: [], inner: 0 }, shown: [], ids: new Set() };
      growing.push(into);
    }
    const { same: before, first } = shownOf(into.shown, prompt, into.shown.length > 0 ? call.branch_reason : null);
    into.thread.turns.push({
      call,
      at,
      before,
      messages: [...first, ...prompt.slice(before)],
      isRepeated: call.branch_reason === "request_repeated",
      isCompacted: isCompaction(call.branch_reason),
    });
    into.shown = [...prompt, ...call.answer];
    if (call.generation_id) into.ids.add(call.generation_id);
  });
  return growing.map(({ thread }) => thread);
}

/** From its first call's start to its last call's end; by their places where nobody told a time. */
function span(thread: Thread): [number, number] {
  const starts = thread.turns.map(({ call, at }) => call.start_time ?? at);
  const ends = thread.turns.map(({ call, at }) => call.end_time ?? call.start_time ?? at);
  return [Math.min(...starts), Math.max(...ends)];
}

/** Whether a conversation is between two of its calls at a moment: only then can its agent have begun another. */
function isBetween(thread: Thread, moment: number): boolean {
  const [from, to] = span(thread);
  const isCalling = thread.turns.some(({ call }) => (call.start_time ?? 0) <= moment && moment < (call.end_time ?? 0));
  return from < moment && moment <= to && !isCalling;
}

/** The conversation inside of which something began; of several, the one that began last. */
const around = (threads: Thread[], moment: number) => threads.findLast((thread) => isBetween(thread, moment));

/** Everything that happened in an attempt, as a tree: conversations inside those that went on when they began. */
export function tree(events: Event[]): { items: Item[]; threads: Thread[] } {
  const threads = conversations(events);
  const items: Item[] = [];
  for (const thread of threads) {
    thread.items.push(...thread.turns.map((turn) => ({ at: turn.at, turn })));
    const [from] = span(thread);
    const outside = around(threads.slice(0, threads.indexOf(thread)), from);
    (outside?.items ?? items).push({ at: thread.turns[0]?.at ?? 0, thread });
    if (outside) outside.inner += 1;
  }
  events.forEach((other, at) => {
    if (other.kind === "call") return;
    const moment = other.kind === "span" ? other.start_time : null;
    const outside = moment === null ? undefined : around(threads, moment);
    (outside?.items ?? items).push({ at, other });
  });
  for (const list of [items, ...threads.map((thread) => thread.items)]) list.sort((one, other) => one.at - other.at);
  return { items, threads };
}
