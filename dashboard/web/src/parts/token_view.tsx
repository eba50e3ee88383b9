// Every token of an attempt once, in its order, coloured by how likely it was.
import { useEffect, useRef, useState } from "preact/hooks";
import type { CallTokens, Tokens } from "../tokens";

/** Tokens that are drawn together, once they come into view. */
const BLOCK = 512;
const SAMPLED = 1;

/** From sure to surprising, in tenths. */
function shade(logprob: number): string {
  return `p${Math.min(9, Math.floor(Math.min(1, -logprob / 6) * 10))}`;
}

/** A text that shows what is no letter. */
function visible(text: string, id: number): string {
  return text === "" ? `⟨${id}⟩` : text.replaceAll("\n", "↵\n");
}

function Block({ tokens, from, to, chosen, marked, choose }: BlockProps) {
  const place = useRef<HTMLSpanElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element || isNear) return;
    const seen = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setNear(true), {
      rootMargin: "1000px",
    });
    seen.observe(element);
    return () => seen.disconnect();
  }, [isNear]);
  if (!isNear) return <span ref={place} class="waiting" style={{ height: `${((to - from) / 16) * 1.6}em` }} />;
  const drawn = [];
  for (let index = from; index < to; index += 1) {
    const logprob = tokens.logprobs[index] ?? NaN;
    const kind = tokens.makers[index] === SAMPLED ? `token ${Number.isNaN(logprob) ? "p0" : shade(logprob)}` : "token given";
    drawn.push(
      <span key={index} class={`${kind}${index === chosen ? " chosen" : ""}${index === marked ? " marked" : ""}`} onMouseOver={() => choose(index)}>
        {visible(tokens.text(index), tokens.ids[index] ?? 0)}
      </span>,
    );
  }
  return <>{drawn}</>;
}

interface BlockProps {
  tokens: Tokens;
  from: number;
  to: number;
  chosen: number | null;
  marked: number | null;
  choose: (index: number) => void;
}

/** Why a call begins where it does. */
function seam(call: CallTokens): string {
  if (call.parent_id) return `goes on after ${call.continued} tokens`;
  if (!call.branch_reason || call.branch_reason === "first_turn") return "begins a conversation";
  return `begins anew: ${call.branch_reason.replaceAll("_", " ")}`;
}

function told(tokens: Tokens, index: number): string {
  const call = tokens.calls.findLast((call) => call.first <= index);
  const logprob = tokens.logprobs[index] ?? NaN;
  const place = call ? index - call.first - call.prompt : 0;
  const version = call?.weights_versions.findLast((from) => from.first_token <= place)?.version;
  const facts = [`id ${tokens.ids[index]}`, JSON.stringify(tokens.text(index))];
  if (tokens.makers[index] === SAMPLED) {
    facts.push("sampled", `logprob ${logprob.toFixed(4)}`, `probability ${Math.exp(logprob).toFixed(4)}`);
    if (version !== undefined) facts.push(`weights ${version}`);
  } else {
    facts.push("of the prompt");
  }
  return facts.join(" · ");
}

/** `of` is whose they are, and `marked` a token that is looked for. */
export function TokenView({ of, tokens, marked = null }: { of: string; tokens: Tokens; marked?: number | null }) {
  const [chosen, choose] = useState<number | null>(null);
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    choose(Math.min(tokens.ids.length - 1, Math.max(0, (chosen ?? -1) + by)));
  };
  if (tokens.calls.length === 0) return <p class="quiet">No model was called.</p>;
  return (
    <div class="tokens" tabIndex={0} role="region" aria-label={`Tokens of ${of}; arrow keys go from one to the next`} onKeyDown={move}>
      <p class="told" aria-live="polite">
        {chosen === null ? `${tokens.ids.length} tokens; point at one, or use the arrow keys` : told(tokens, chosen)}
      </p>
      {tokens.calls.map((call) => {
        const end = call.first + call.prompt + call.sampled;
        const blocks = [];
        for (let from = call.first; from < end; from += BLOCK) {
          const to = Math.min(end, from + BLOCK);
          const inside = chosen !== null && chosen >= from && chosen < to ? chosen : null;
          const mark = marked !== null && marked >= from && marked < to ? marked : null;
          blocks.push(<Block key={from} tokens={tokens} from={from} to={to} chosen={inside} marked={mark} choose={choose} />);
        }
        return (
          <section key={call.generation_id}>
            <h3>
              {call.model} <span class="quiet">{seam(call)}</span>
              <span class={call.defect ? "untrained" : "quiet"}> {call.defect ? `not trained: ${call.defect}` : ""}</span>
            </h3>
            <pre class="stream">{blocks}</pre>
            <p class="quiet">
              {call.prompt} given, {call.sampled} sampled, ended by {call.stop_reason}
              {!call.has_text && "; this server does not serve the model, so that ids stand in the place of texts"}
            </p>
          </section>
        );
      })}
    </div>
  );
}
