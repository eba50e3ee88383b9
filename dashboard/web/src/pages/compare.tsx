import { getBytes } from "../api";
import { Shown, useLoaded } from "../loading";
import { TokenView } from "../parts/token_view";
import { type Tokens, unpacked } from "../tokens";

const tokensOf = async (id: string, signal: AbortSignal) =>
  unpacked(await getBytes(`/ui/data/rollouts/${encodeURIComponent(id)}/tokens`, signal));

/** The first place at which two rows of tokens differ; none if one goes on where the other ends, or nowhere. */
export function difference(one: Tokens, other: Tokens): number | null {
  const both = Math.min(one.ids.length, other.ids.length);
  for (let index = 0; index < both; index += 1) {
    if (one.ids[index] !== other.ids[index] || one.makers[index] !== other.makers[index]) return index;
  }
  return one.ids.length === other.ids.length ? null : both;
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

/** Two rollouts side by side, with the first token at which they part. */
export function Compare({ query }: { query: URLSearchParams }) {
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const loaded = useLoaded(`compare ${a} ${b}`, (signal) => Promise.all([tokensOf(a, signal), tokensOf(b, signal)]));
  return (
    <main>
      <h1>Two rollouts</h1>
      <Shown of={loaded}>
        {([one, other]) => {
          const at = difference(one, other);
          return (
            <>
              <p class="difference">{told(one, other, at)}</p>
              <div class="beside">
                {[
                  { id: a, tokens: one },
                  { id: b, tokens: other },
                ].map(({ id, tokens }) => (
                  <section key={id}>
                    <h2>
                      <a href={`#/rollouts/${encodeURIComponent(id)}`}>{id}</a>
                    </h2>
                    <TokenView id={id} tokens={tokens} marked={at} />
                  </section>
                ))}
              </div>
            </>
          );
        }}
      </Shown>
    </main>
  );
}
