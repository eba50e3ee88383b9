import { get, getBytes, type RolloutPage } from "../api";
import { fixed } from "../format";
import { Shown, useLoaded } from "../loading";
import { Renderings } from "../rollouts/renderings";
import { SameTask } from "../rollouts/same_task";
import { SideBySide } from "../tokens/side_by_side";
import { type Tokens, unpacked } from "../tokens/tokens";

const at = (id: string) => `/ui/data/rollouts/${encodeURIComponent(id)}`;
const tokensOf = async (id: string, signal: AbortSignal) => unpacked(await getBytes(`${at(id)}/tokens`, signal));

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

const sideOf = (id: string, tokens: Tokens) => ({
  id,
  tokens,
  title: <a href={`#/rollouts/${encodeURIComponent(id)}`}>{id}</a>,
});

/** Two rollouts side by side, with where they part and everything that differs. */
export function Compare({ query }: { query: URLSearchParams }) {
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const conversation = query.get("conversation");
  const loaded = useLoaded(`compare ${a} ${b}`, async (signal) =>
    a && b ? await Promise.all([tokensOf(a, signal), tokensOf(b, signal)]) : [],
  );
  if (conversation) return <Renderings id={conversation} query={query} key={conversation} />;
  return (
    <main>
      <h1>Two rollouts</h1>
      {a && <SameTask rollout={a} other={b} />}
      {a && b ? (
        <>
          <Rewards key={`${a} ${b}`} a={a} b={b} />
          <Shown of={loaded}>
            {([one, other]) =>
              one &&
              other && <SideBySide key={`${a} ${b}`} one={sideOf(a, one)} other={sideOf(b, other)} kind="Rollout" />
            }
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
  const rendered = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    const conversation = String(given.get("conversation")).trim();
    location.hash = `#/compare?${new URLSearchParams({ conversation })}`;
  };
  return (
    <>
      <form class="filter" onSubmit={chosen}>
        <label>
          rollout A <input name="a" defaultValue={a} required />
        </label>
        <label>
          rollout B <input name="b" required />
        </label>
        <button>Compare</button>
      </form>
      <h2>Or one conversation under two renderers</h2>
      <form class="filter" onSubmit={rendered}>
        <label>
          rollout <input name="conversation" defaultValue={a} required />
        </label>
        <button>Render</button>
      </form>
    </>
  );
}
