// Two rows of tokens side by side: the first token at which they part, and everything that differs.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { diff, type Hunk, marks } from "./diff";
import { TokenView } from "./token_view";
import type { Tokens } from "./tokens";

/** Differences that are listed side by side. */
const LISTED = 40;
/** Tokens of a difference whose texts are shown. */
const SHOWN = 40;

/** Which tokens are the same: of two models, whose tokenizers may differ, those with the same text if it is known. */
function numbering(one: Tokens, other: Tokens): (tokens: Tokens, index: number) => number {
  const calls = [...one.calls, ...other.calls];
  const isOneModel = new Set(calls.map((call) => call.model)).size < 2;
  if (isOneModel || !calls.every((call) => call.has_text)) return (tokens, index) => tokens.ids[index] ?? 0;
  const known = new Map<string, number>();
  return (tokens, index) => {
    const text = tokens.text(index);
    const number = known.get(text) ?? known.size;
    known.set(text, number);
    return number;
  };
}

/** A token and who made it in one number: what is sampled differs from what is given, whatever its id is. */
const keys = (tokens: Tokens, number: ReturnType<typeof numbering>) =>
  tokens.ids.map((_, index) => number(tokens, index) * 4 + (tokens.makers[index] ?? 0));

/** The first place at which two rows of tokens differ; none if they nowhere do. */
function parting(hunks: Hunk[]): number | null {
  const first = hunks[0];
  return first ? first.one[0] : null;
}

function differenceText(one: Tokens, other: Tokens, at: number | null): string {
  if (at === null) return `All ${one.ids.length} tokens are the same.`;
  const shown = (tokens: Tokens) => {
    if (at >= tokens.ids.length) return "nothing more";
    const text = tokens.text(at);
    const logprob = tokens.logprobs[at] ?? NaN;
    const word = text === "" ? `token ${tokens.ids[at]}` : JSON.stringify(text);
    return Number.isNaN(logprob) ? word : `${word} (probability ${Math.exp(logprob).toFixed(4)})`;
  };
  return `They part at token ${at}: ${shown(one)}, and ${shown(other)}.`;
}

function textOf(tokens: Tokens, [from, to]: [number, number]): string {
  let text = "";
  for (let index = from; index < Math.min(to, from + SHOWN); index += 1)
    text += tokens.text(index) || `⟨${tokens.ids[index]}⟩`;
  return to - from > SHOWN ? `${text} … (${to - from} tokens)` : text;
}

function Hunks({ hunks, one, other }: { hunks: Hunk[]; one: Tokens; other: Tokens }) {
  if (hunks.length === 0) return null;
  return (
    <details class="hunks">
      <summary>
        {hunks.length} {hunks.length === 1 ? "difference" : "differences"} side by side
        {hunks.length > LISTED && `, the first ${LISTED}`}
      </summary>
      <div class="scrolled low" tabIndex={0} role="region" aria-label="Differences side by side">
        <table>
          <thead>
            <tr>
              <th>token</th>
              <th>A</th>
              <th>token</th>
              <th>B</th>
            </tr>
          </thead>
          <tbody>
            {hunks.slice(0, LISTED).map((hunk) => (
              <tr key={`${hunk.one[0]} ${hunk.other[0]}`}>
                <td class="number">{hunk.one[0]}</td>
                <td class="difference-text">{textOf(one, hunk.one)}</td>
                <td class="number">{hunk.other[0]}</td>
                <td class="difference-text">{textOf(other, hunk.other)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** One of the two. */
export interface Side {
  /** A name that the other does not have: the rollout, where it is one. */
  id: string;
  title: ComponentChildren;
  tokens: Tokens;
}

export interface SideBySideProps {
  one: Side;
  other: Side;
  /** What is compared. */
  kind: "Rollout" | "Renderer";
}

export function SideBySide({ one, other, kind }: SideBySideProps) {
  const { hunks, isExact } = useMemo(() => {
    const number = numbering(one.tokens, other.tokens);
    return diff(keys(one.tokens, number), keys(other.tokens, number));
  }, [one.tokens, other.tokens]);
  const differs = useMemo(
    () => [marks(hunks, "one", one.tokens.ids.length), marks(hunks, "other", other.tokens.ids.length)],
    [one.tokens, other.tokens, hunks],
  );
  const first = parting(hunks);
  return (
    <>
      <p class="difference">{differenceText(one.tokens, other.tokens, first)}</p>
      {!isExact && (
        <p class="quiet">They differ so much that everything between their common ends counts as one difference.</p>
      )}
      <Hunks hunks={hunks} one={one.tokens} other={other.tokens} />
      <div class="side-by-side">
        {[one, other].map(({ id, title, tokens }, index) => (
          <section key={index} aria-label={`${kind} ${"AB"[index]}`}>
            <h2>
              {"AB"[index]}: {title}
            </h2>
            <TokenView
              id={id}
              tokens={tokens}
              marked={first}
              differs={differs[index] ?? null}
              isRecorded={kind === "Rollout"}
            />
          </section>
        ))}
      </div>
    </>
  );
}
