// The members of a group side by side: where each goes another way than the best.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RolloutRow } from "../api";
import { fixed } from "../format";
import { type Parting, parting, tokensOf } from "./parting";

/** Members whose tokens are asked for at once; the others follow on a click. */
const FIRST = 16;

export interface Member {
  row: RolloutRow;
  earned: number | null;
  /** How far above the mean, and that in standard deviations of the group. */
  advantage: number | null;
  normalized: number | null;
}

type Found = Parting | string;

/** Where members part from the best, one after another, once they come into view. */
function usePartings(best: RolloutRow, others: RolloutRow[], isNear: boolean): Map<string, Found> {
  const [found, setFound] = useState(new Map<string, Found>());
  const ids = others.map((row) => row.rollout_id).join(" ");
  useEffect(() => {
    if (!isNear || others.length === 0) return;
    const controller = new AbortController();
    const compare = async () => {
      const ofBest = await tokensOf(best.rollout_id, controller.signal);
      for (const { rollout_id } of others) {
        const one = await tokensOf(rollout_id, controller.signal);
        setFound((known) => new Map(known).set(rollout_id, parting(one, ofBest)));
      }
    };
    compare().catch((error) => {
      if (controller.signal.aborted) return;
      const failure = error instanceof Error ? error.message : String(error);
      setFound(
        (known) => new Map([...others.map(({ rollout_id }): [string, Found] => [rollout_id, failure]), ...known]),
      );
    });
    return () => controller.abort();
  }, [best.rollout_id, ids, isNear]);
  return found;
}

function Differs({ found }: { found: Found | undefined }) {
  if (found === undefined) return <p class="quiet">…</p>;
  if (typeof found === "string") return <p class="failure">{found}</p>;
  if (found.at === null) return <p>All {found.tokens} tokens are the best's.</p>;
  return (
    <>
      <p>
        First differs at token <b class="parts-at">{found.at}</b> of {found.tokens}.
      </p>
      <pre>
        <span class="quiet">{found.before}</span>
        <mark>{found.here || "(nothing more)"}</mark>
      </pre>
      <p class="quiet">where the best goes on</p>
      <pre>{found.there || "(nothing more)"}</pre>
    </>
  );
}

export function Members({ members }: { members: Member[] }) {
  const place = useRef<HTMLElement>(null);
  const [isNear, setNear] = useState(false);
  const [most, setMost] = useState(FIRST);
  useEffect(() => {
    const element = place.current;
    if (!element || isNear) return;
    const seen = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setNear(true));
    seen.observe(element);
    return () => seen.disconnect();
  }, [isNear]);
  const best = members[0]!.row;
  const shown = members.slice(0, most);
  const found = usePartings(
    best,
    shown.slice(1).map(({ row }) => row),
    isNear,
  );
  return (
    <section ref={place}>
      <h2>Side by side</h2>
      <div class="side-by-side">
        {shown.map(({ row, earned, advantage, normalized }) => (
          <section class="member" key={row.rollout_id}>
            <h3>
              <a href={`#/rollouts/${encodeURIComponent(row.rollout_id)}`}>{row.rollout_id.slice(-12)}</a>
            </h3>
            <p>
              reward <b>{fixed(earned)}</b>, advantage {fixed(advantage)} ({fixed(normalized)} deviations)
            </p>
            {row === best ? (
              <p>The best, which the others are held against.</p>
            ) : (
              <Differs found={found.get(row.rollout_id)} />
            )}
          </section>
        ))}
      </div>
      {members.length > most && (
        <button type="button" onClick={() => setMost(members.length)}>
          {members.length - most} more
        </button>
      )}
    </section>
  );
}
