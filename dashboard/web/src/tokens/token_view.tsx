// Every token of an attempt once, in its order, coloured by a choice of what is known of it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getBytes, type Model, models } from "../api";
import { sought, type Sought } from "./jumps";
import { Shown, useLoaded } from "../loading";
import { type Colour, colours, type Known, type Paint, painted } from "./paint";
import { type CallTokens, type Scores, type Tokens, unpackedScores } from "./tokens";
import { Block, ends } from "./token_block";
import { Differences, kinds, Legend, TokenTools } from "./token_tools";
import { fates, seam, tokenFacts } from "./token_words";

interface Shape {
  tokens: Tokens;
  chosen: number | null;
  marked: number | null;
  paint: Paint;
  onlySampled: boolean;
  isRecorded: boolean;
}

/** One call: where its tokens come from, the tokens, and what became of them. */
function Call({ call, blocks, shape }: { call: CallTokens; blocks: number[]; shape: Shape }) {
  const { tokens, chosen, marked, paint, onlySampled, isRecorded } = shape;
  const inside = (index: number | null, from: number, to: number) =>
    index !== null && index >= from && index < to ? index : null;
  const notes = fates(call);
  return (
    <section>
      <h3>
        {call.model} <span class="quiet">{seam(call)}</span>
        {call.defect && <span class="untrained"> not trained: {call.defect}</span>}
      </h3>
      <pre class="stream">
        {blocks.map((to, index) => {
          const from = index > 0 ? (blocks[index - 1] ?? 0) : call.first;
          const [pointed, mark] = [inside(chosen, from, to), inside(marked, from, to)];
          return (
            <Block
              key={from}
              tokens={tokens}
              from={from}
              to={to}
              chosen={pointed}
              marked={mark}
              paint={paint}
              onlySampled={onlySampled}
            />
          );
        })}
      </pre>
      <p class="quiet">
        {isRecorded
          ? `${call.prompt} given, ${call.sampled} sampled, ended by ${call.stop_reason}`
          : `${call.prompt} given`}
        {typeof call.advantage === "number" && `, advantage ${call.advantage.toFixed(4)}`}
        {call.grammar && ", held to a grammar"}
        {call.teachers?.map(({ teacher }) => `, scored by the teacher ${teacher}`).join("")}
        {notes.length > 0 && ` · ${notes.join("; ")}`}
        {!call.has_text && "; this server does not serve the model, so that ids stand in the place of texts"}
      </p>
    </section>
  );
}

export interface TokenViewProps {
  /** Whose they are. */
  id: string;
  attempt?: string | undefined;
  tokens: Tokens;
  /** A token that is looked for. */
  marked?: number | null;
  /** Which tokens another rollout does not have. */
  differs?: Uint8Array | null;
  /** Whether they are a rollout's as it was recorded, which models that are served now can score. */
  isRecorded?: boolean;
}

/** The tokens under the weights that a served model has now. */
function useScores(id: string, attempt: string | undefined, model: string) {
  const query = new URLSearchParams({ model });
  if (attempt) query.set("attempt_id", attempt);
  const path = `/ui/data/rollouts/${encodeURIComponent(id)}/scores?${query}`;
  return useLoaded(
    model ? path : "",
    async (signal): Promise<Scores | "none"> => (model ? unpackedScores(await getBytes(path, signal)) : "none"),
  );
}

export function TokenView({ id, attempt, tokens, marked = null, differs = null, isRecorded = true }: TokenViewProps) {
  const [chosen, choose] = useState<{ index: number; isFar: boolean } | null>(null);
  const [wished, setColour] = useState<Colour>(differs ? "compared" : "logprob");
  const [model, setModel] = useState("");
  const [onlySampled, setOnlySampled] = useState(false);
  const [sighted, setKind] = useState<Sought>(differs ? "compared" : "surprising");
  const place = useRef<HTMLDivElement>(null);
  const served = useLoaded<Model[]>("models", models);
  const loaded = useScores(id, attempt, model);
  const scores = loaded.value && loaded.value !== "none" ? loaded.value : null;
  const known = useMemo<Known>(() => ({ scores, differs }), [scores, differs]);
  const blocks = useMemo(() => tokens.calls.map((call) => ends(tokens, call)), [tokens]);
  const choices = useMemo(() => colours(tokens, known), [tokens, known]);
  const seekable = kinds(choices);
  // What is chosen may not be known yet, or not any more.
  const colour = choices.some(([choice]) => choice === wished) ? wished : (choices[0]?.[0] ?? "logprob");
  const kind = seekable.some(([choice]) => choice === sighted) ? sighted : "surprising";
  const paint = useMemo(() => painted(colour, tokens, known), [colour, tokens, known]);
  useEffect(() => {
    if (chosen?.isFar) place.current?.querySelector(".token.chosen")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const last = tokens.ids.length - 1;
  const go = (by: 1 | -1) => {
    const index = sought(kind, tokens, chosen?.index ?? null, by, scores, differs);
    if (index !== null) choose({ index, isFar: true });
  };
  const step = (by: number) => choose({ index: Math.min(last, Math.max(0, (chosen?.index ?? -1) + by)), isFar: true });
  const pressed = (event: KeyboardEvent) => {
    const does = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), n: () => go(1), p: () => go(-1) }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  };
  const pointed = (event: MouseEvent) => {
    const at = (event.target as HTMLElement).dataset.at;
    if (at !== undefined) choose({ index: Number(at), isFar: false });
  };
  if (tokens.calls.length === 0) return <p class="quiet">No model was called.</p>;
  const under = scores ? { model, scores } : null;
  const setUnder = (name: string) => {
    setModel(name);
    setColour(name ? "under" : "logprob");
    setKind(name ? "differing" : "surprising");
  };
  const shape = { tokens, chosen: chosen?.index ?? null, marked, paint, onlySampled, isRecorded };
  return (
    <div>
      <TokenTools
        {...{ choices, colour, setColour, onlySampled, setOnlySampled, model, setUnder, seekable, kind, setKind, go }}
        served={isRecorded ? (served.value ?? []) : []}
      />
      {model && <Shown of={loaded}>{() => null}</Shown>}
      <Legend paint={paint} />
      {tokens.trained && !tokens.trained.entropies && (
        <p class="quiet">
          No entropies: the model host that trained these tokens told none, or the run is older than their record.
        </p>
      )}
      {under && <Differences tokens={tokens} under={under} go={(index) => choose({ index, isFar: true })} />}
      <div
        class="tokens"
        ref={place}
        tabIndex={0}
        role="region"
        aria-label={`Tokens of ${attempt ?? id}; arrow keys go from one to the next, n and p to those looked for`}
        onKeyDown={pressed}
        onMouseOver={pointed}
      >
        <p class="token-facts" aria-live="polite">
          {chosen === null
            ? `${tokens.ids.length} tokens; point at one, or use the arrow keys, n and p`
            : tokenFacts(tokens, chosen.index, under)}
        </p>
        {tokens.calls.map((call, index) => (
          <Call key={call.generation_id} call={call} blocks={blocks[index] ?? []} shape={shape} />
        ))}
      </div>
    </div>
  );
}
