import { useMemo } from "preact/hooks";
import { get, getBytes, type RolloutPage } from "../api";
import { diff, type Hunk, marks } from "../tokens/diff";
import { fixed } from "../format";
import { Shown, useLoaded } from "../loading";
import { SameTask } from "../rollouts/same_task";
import { TokenView } from "../tokens/token_view";
import { type Tokens, unpacked } from "../tokens/tokens";

/** Differences that are listed side by side. */
const LISTED = 40;
/** Tokens of a difference whose texts are shown. */
const SHOWN = 40;

const at = (id: string) => `/ui/data/rollouts/${encodeURIComponent(id)}`;
const tokensOf = async (id: string, signal: AbortSignal) => unpacked(await getBytes(`${at(id)}/tokens`, signal));

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

function told(one: Tokens, other: Tokens, at: number | null): string {
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
                <td class="said">{textOf(one, hunk.one)}</td>
                <td class="number">{hunk.other[0]}</td>
                <td class="said">{textOf(other, hunk.other)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** What the last word on a rollout's latest attempt is: its reward, and what that is made of. */
function rewardsOf({ attempts }: RolloutPage): Map<string, number> {
  const rewards = attempts.at(-1)?.events.flatMap((event) => (event.kind === "reward" ? [event] : [])) ?? [];
  const last = rewards.at(-1);
  return new Map(last ? [["reward", last.value], ...Object.entries(last.components)] : []);
}

function Rewards({ a, b }: { a: string; b: string }) {
  const loaded = useLoaded(`rewards ${a} ${b}`, (signal) =>
    Promise.all([get<RolloutPage>(at(a), signal), get<RolloutPage>(at(b), signal)]),
  );
  if (!loaded.value) return <Shown of={loaded}>{() => null}</Shown>;
  const [one, other] = loaded.value;
  const [mine, theirs] = [rewardsOf(one), rewardsOf(other)];
  const names = [...new Set([...mine.keys(), ...theirs.keys()])];
  const step = ({ rollout }: RolloutPage) =>
    typeof rollout.metadata?.step === "number" ? ` (step ${rollout.metadata.step})` : "";
  if (names.length === 0) return <p class="quiet">Neither was rewarded.</p>;
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Rewards">
      <table class="rewards">
        <thead>
          <tr>
            <th>earned</th>
            <th>A{step(one)}</th>
            <th>B{step(other)}</th>
            <th>B less A</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const [left, right] = [mine.get(name), theirs.get(name)];
            return (
              <tr key={name}>
                <td>{name}</td>
                <td class="number">{fixed(left)}</td>
                <td class="number">{fixed(right)}</td>
                <td class="number">{left === undefined || right === undefined ? "" : fixed(right - left)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Beside({ a, b, one, other }: { a: string; b: string; one: Tokens; other: Tokens }) {
  const { hunks, isExact } = useMemo(() => {
    const number = numbering(one, other);
    return diff(keys(one, number), keys(other, number));
  }, [one, other]);
  const sides = useMemo(
    () => [
      { id: a, name: "A", tokens: one, differs: marks(hunks, "one", one.ids.length) },
      { id: b, name: "B", tokens: other, differs: marks(hunks, "other", other.ids.length) },
    ],
    [a, b, one, other, hunks],
  );
  const first = parting(hunks);
  return (
    <>
      <p class="difference">{told(one, other, first)}</p>
      {!isExact && (
        <p class="quiet">They differ so much that everything between their common ends counts as one difference.</p>
      )}
      <Hunks hunks={hunks} one={one} other={other} />
      <div class="beside">
        {sides.map(({ id, name, tokens, differs }) => (
          <section key={name} aria-label={`Rollout ${name}`}>
            <h2>
              {name}: <a href={`#/rollouts/${encodeURIComponent(id)}`}>{id}</a>
            </h2>
            <TokenView id={id} tokens={tokens} marked={first} differs={differs} />
          </section>
        ))}
      </div>
    </>
  );
}

/** Two rollouts side by side, with where they part and everything that differs. */
export function Compare({ query }: { query: URLSearchParams }) {
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const loaded = useLoaded(`compare ${a} ${b}`, async (signal) =>
    a && b ? await Promise.all([tokensOf(a, signal), tokensOf(b, signal)]) : [],
  );
  return (
    <main>
      <h1>Two rollouts</h1>
      {a && <SameTask beside={a} other={b} />}
      {a && b ? (
        <>
          <Rewards key={`${a} ${b}`} a={a} b={b} />
          <Shown of={loaded}>
            {([one, other]) => one && other && <Beside key={`${a} ${b}`} a={a} b={b} one={one} other={other} />}
          </Shown>
        </>
      ) : (
        <Choose a={a} />
      )}
    </main>
  );
}

/** Asks for what is not said yet. */
function Choose({ a }: { a: string }) {
  const chosen = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    const [a, b] = [String(given.get("a")).trim(), String(given.get("b")).trim()];
    location.hash = `#/compare?${new URLSearchParams({ a, b })}`;
  };
  return (
    <form class="filter" onSubmit={chosen}>
      <label>
        rollout A <input name="a" defaultValue={a} required />
      </label>
      <label>
        rollout B <input name="b" required />
      </label>
      <button>Compare</button>
    </form>
  );
}
