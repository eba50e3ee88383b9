// Resources of Agent-lightning, newest first, each with what it changed of the one before.
import { get } from "../api";
import { diff, marks } from "../tokens/diff";
import { moment } from "../format";
import { onChange, useLive } from "../events";
import { Shown } from "../loading";

interface Resources {
  resources_id: string;
  create_time: number;
  update_time: number;
  version: number;
  resources: Record<string, unknown>;
}

/** Its content line by line. A key stands there, but not what it is: pages are looked at over shoulders. */
function lines(of: Resources | undefined): string[] {
  if (!of) return [];
  const hidden = (name: string, value: unknown) => (name === "api_key" && typeof value === "string" ? "…" : value);
  return JSON.stringify(of.resources, hidden, 2).replaceAll("\\n", "\n").split("\n");
}

/** Numbers that are the same for the same lines. */
function numbered(one: string[], other: string[]): [number[], number[]] {
  const known = new Map<string, number>();
  const number = (line: string) => {
    const found = known.get(line) ?? known.size;
    known.set(line, found);
    return found;
  };
  return [one.map(number), other.map(number)];
}

/** The lines of a version, with those of the version before that are gone. */
function changed(old: string[], now: string[]): { sign: " " | "+" | "-"; text: string }[] {
  const [one, other] = numbered(old, now);
  const { hunks } = diff(one, other);
  const isNew = marks(hunks, "other", now.length);
  const removed = new Map(hunks.map((hunk) => [hunk.other[0], old.slice(...hunk.one)]));
  const shown = now.flatMap((text, index) => [
    ...(removed.get(index) ?? []).map((text) => ({ sign: "-" as const, text })),
    { sign: isNew[index] ? ("+" as const) : (" " as const), text },
  ]);
  return [...shown, ...(removed.get(now.length) ?? []).map((text) => ({ sign: "-" as const, text }))];
}

const CLASSES = { " ": "", "+": "added", "-": "removed" };

function Version({ of, before, isNewest }: { of: Resources; before: Resources | undefined; isNewest: boolean }) {
  const shown = before ? changed(lines(before), lines(of)) : lines(of).map((text) => ({ sign: " " as const, text }));
  const changes = shown.filter((line) => line.sign !== " ").length;
  return (
    <details open={isNewest}>
      <summary>
        {of.resources_id}, version {of.version}, {moment(of.update_time)}
        <span class="quiet">
          {" "}
          {before
            ? changes === 0
              ? "same as the one before"
              : `${changes} lines differ from the one before`
            : "the first"}
        </span>
      </summary>
      <pre class="resource">
        {shown.map((line, index) => (
          <span key={index} class={`line ${CLASSES[line.sign]}`}>
            {line.sign} {line.text}
            {"\n"}
          </span>
        ))}
      </pre>
    </details>
  );
}

export function ResourcesList({ every }: { every: number }) {
  const load = (signal: AbortSignal) => get<{ items: Resources[] }>("/v1/agl/resources", signal);
  const loaded = useLive("resources", load, { seconds: every, gap: every, follow: onChange });
  return (
    <section class="resources">
      <h2>Resources</h2>
      <Shown of={loaded}>
        {({ items }) => {
          const sorted = [...items].sort((one, other) => other.update_time - one.update_time);
          if (sorted.length === 0)
            return <p>Nobody has put resources here, such as Agent-lightning's prompt templates.</p>;
          return sorted.map((of, index) => (
            <Version key={of.resources_id} of={of} before={sorted[index + 1]} isNewest={index === 0} />
          ));
        }}
      </Shown>
    </section>
  );
}
