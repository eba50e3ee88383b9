// The shortest way from one row of numbers to another (Myers 1986), with a bound on what it may cost.

/** A stretch of either row that the other has not. */
export interface Hunk {
  one: [number, number];
  other: [number, number];
}

export interface Diff {
  hunks: Hunk[];
  /** False if the rows differ so much that what is between their common ends counts as one difference. */
  isExact: boolean;
}

/** Insertions and removals at most: beyond, nobody reads them one by one. */
const MOST = 1500;

type Row = ArrayLike<number>;

/** How far each diagonal gets with each number of changes; nothing if it takes too many. */
function reached(one: Row, other: Row, from: number, ends: [number, number]): Int32Array[] | null {
  const [width, height] = [ends[0] - from, ends[1] - from];
  const trace: Int32Array[] = [];
  // Diagonal k is at k + MOST + 1.
  const far = new Int32Array(2 * MOST + 3);
  for (let changes = 0; changes <= Math.min(MOST, width + height); changes += 1) {
    trace.push(far.slice(MOST + 1 - changes - 1, MOST + 1 + changes + 2));
    for (let k = -changes; k <= changes; k += 2) {
      const at = k + MOST + 1;
      const [less, more] = [far[at - 1] ?? 0, far[at + 1] ?? 0];
      let x = k === -changes || (k !== changes && less < more) ? more : less + 1;
      while (x < width && x - k < height && one[from + x] === other[from + x - k]) x += 1;
      far[at] = x;
      if (x >= width && x - k >= height) return trace;
    }
  }
  return null;
}

/** The changes of a trace, last first: a place in either row, and which row alone has a token there. */
function* changesOf(trace: Int32Array[], x: number, y: number): Generator<{ x: number; y: number; isOne: boolean }> {
  for (let changes = trace.length - 1; changes > 0; changes -= 1) {
    const far = trace[changes] ?? new Int32Array(0);
    const k = x - y;
    const at = k + changes + 1;
    const [less, more] = [far[at - 1] ?? 0, far[at + 1] ?? 0];
    const isDown = k === -changes || (k !== changes && less < more);
    const before = isDown ? more : less;
    const beforeK = isDown ? k + 1 : k - 1;
    [x, y] = [before, before - beforeK];
    yield { x, y, isOne: !isDown };
  }
}

function joined(changes: Iterable<{ x: number; y: number; isOne: boolean }>, from: number): Hunk[] {
  const hunks: Hunk[] = [];
  for (const { x, y, isOne } of [...changes].reverse()) {
    const last = hunks.at(-1);
    const [one, other] = [from + x, from + y];
    if (last && last.one[1] === one && last.other[1] === other) {
      (isOne ? last.one : last.other)[1] += 1;
    } else {
      hunks.push({ one: [one, one + (isOne ? 1 : 0)], other: [other, other + (isOne ? 0 : 1)] });
    }
  }
  return hunks;
}

export function diff(one: Row, other: Row): Diff {
  const shorter = Math.min(one.length, other.length);
  let from = 0;
  while (from < shorter && one[from] === other[from]) from += 1;
  let [to, end] = [one.length, other.length];
  while (to > from && end > from && one[to - 1] === other[end - 1]) [to, end] = [to - 1, end - 1];
  if (to === from && end === from) return { hunks: [], isExact: true };
  const trace = reached(one, other, from, [to, end]);
  if (!trace) return { hunks: [{ one: [from, to], other: [from, end] }], isExact: false };
  return { hunks: joined(changesOf(trace, to - from, end - from), from), isExact: true };
}

/** Which places of a row of some length are in a difference. */
export function marks(hunks: Hunk[], side: "one" | "other", length: number): Uint8Array {
  const marked = new Uint8Array(length);
  for (const hunk of hunks) marked.fill(1, hunk[side][0], hunk[side][1]);
  return marked;
}
