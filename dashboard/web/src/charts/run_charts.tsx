// The charts of a run, grouped, with how they are shown.
import { useState } from "preact/hooks";
import type { Step } from "../api";
import { Chart, type ChartProps } from "./chart";
import { grouped, type Seeds } from "./run_groups";
import { type OtherSeed, useSeedSteps } from "./seeds";

interface Look {
  smoothing: number;
  isLog: boolean;
}

function Charts({ charts, look }: { charts: ChartProps[]; look: Look }) {
  return (
    <div class="charts">
      {charts.map((chart) => (
        <Chart key={chart.title} {...chart} smoothing={look.smoothing} isLog={look.isLog} />
      ))}
    </div>
  );
}

export function RunCharts({ steps, seeds }: { steps: Step[]; seeds: OtherSeed[] }) {
  const [look, setLook] = useState<Look>({ smoothing: 0, isLog: false });
  const [shown, setShown] = useState<Seeds["shown"]>("none");
  const [isOpen, setOpen] = useState(false);
  const others = useSeedSteps(seeds, shown !== "none");
  const { groups, rest } = grouped(steps, { shown, others });
  return (
    <>
      <form class="filter" aria-label="How charts are drawn" onSubmit={(event) => event.preventDefault()}>
        <label>
          smoothing{" "}
          <input
            type="range"
            name="smoothing"
            min="0"
            max="0.95"
            step="0.05"
            value={look.smoothing}
            onInput={(event) => setLook({ ...look, smoothing: Number(event.currentTarget.value) })}
          />{" "}
          <output>{look.smoothing.toFixed(2)}</output>
        </label>
        <label>
          <input
            type="checkbox"
            name="log"
            checked={look.isLog}
            onChange={(event) => setLook({ ...look, isLog: event.currentTarget.checked })}
          />{" "}
          logarithmic
        </label>
        {seeds.length > 0 && (
          <label>
            {seeds.length} other seed{seeds.length > 1 && "s"}{" "}
            <select
              name="seeds"
              value={shown}
              onChange={(event) => setShown(event.currentTarget.value as Seeds["shown"])}
            >
              <option value="none">not shown</option>
              <option value="band">least to greatest</option>
              <option value="lines">a faint line each</option>
            </select>
          </label>
        )}
        <span class="quiet">Drag to zoom, double click to go back; or + and −, arrows and Escape.</span>
      </form>
      {groups.map(({ heading, charts }) => (
        <section key={heading}>
          <h2>{heading}</h2>
          <Charts charts={charts} look={look} />
        </section>
      ))}
      {rest.length > 0 && (
        <details onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>
            {rest.length} further number{rest.length > 1 && "s"}
          </summary>
          {isOpen && <Charts charts={rest} look={look} />}
        </details>
      )}
    </>
  );
}
