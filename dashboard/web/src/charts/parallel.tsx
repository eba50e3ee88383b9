// Every run as a line over the settings in which runs differ, to what it reached.
import type { RunRow } from "../api";
import { type Axis, axesOf, type ScoredRun, short } from "./axes";

const WIDTH = 150;
const [TOP, BOTTOM, UNKNOWN] = [44, 244, 268];
const x = (index: number) => 60 + index * WIDTH;
const y = (place: number | null) => (place === null ? UNKNOWN : BOTTOM - place * (BOTTOM - TOP));
const cut = (text: string, most: number) => (text.length > most ? `…${text.slice(1 - most)}` : text);

function AxisLine({ axis, index }: { axis: Axis; index: number }) {
  return (
    <g>
      <text x={x(index)} y={18} text-anchor="middle" class="key">
        {cut(axis.key, 20)}
        <title>{axis.key}</title>
      </text>
      <line x1={x(index)} x2={x(index)} y1={TOP} y2={BOTTOM} />
      {axis.ticks.map(([place, label]) => (
        <text key={label} x={x(index) + 6} y={y(place) + (place === 1 ? -5 : place === 0 ? 13 : 4)}>
          {cut(label, 16)}
          <title>{label}</title>
        </text>
      ))}
    </g>
  );
}

function line(axes: Axis[], run: number): string {
  return axes
    .map((axis, index) => `${index ? "L" : "M"}${x(index)} ${y(axis.at(axis.values[run])).toFixed(1)}`)
    .join(" ");
}

function Picture({ runs, axes }: { runs: ScoredRun[]; axes: Axis[] }) {
  const merit = (run: number) => runs[run]?.merit ?? -Infinity;
  // The best is drawn last, above all others.
  const order = runs.map((_, index) => index).sort((one, other) => merit(one) - merit(other));
  const best = order.at(-1);
  const summary = best === undefined ? "" : `: the best is ${runs[best]?.row.run_id} with ${short(runs[best]?.score)}`;
  return (
    <svg
      class="parallel"
      role="img"
      width={x(axes.length - 1) + 110}
      height={UNKNOWN + 12}
      aria-label={`${runs.length} runs over their settings${summary}`}
    >
      {axes.map((axis, index) => (
        <AxisLine key={axis.key} axis={axis} index={index} />
      ))}
      {order.map((run, rank) => (
        <path
          key={runs[run]?.row.run_id}
          d={line(axes, run)}
          class={run === best ? "best" : ""}
          opacity={run === best ? 1 : 0.25 + (0.5 * rank) / order.length}
        >
          <title>
            {runs[run]?.row.run_id}: {short(runs[run]?.score)}
          </title>
        </path>
      ))}
    </svg>
  );
}

export function Parallel({ rows }: { rows: RunRow[] }) {
  const { runs, axes, leftOut } = axesOf(rows);
  if (axes.length === 0) return null;
  return (
    <section>
      <h2>Settings and what was reached</h2>
      <p class="quiet">
        {runs.length} runs over the settings in which they differ; the best is the strongest line.
        {leftOut > 0 && ` Not drawn: ${leftOut} more that differ.`}
      </p>
      <div class="wide" tabIndex={0} role="region" aria-label="Runs over their settings">
        <Picture runs={runs} axes={axes} />
      </div>
      <details>
        <summary>The same as a table</summary>
        <div class="wide" tabIndex={0} role="region" aria-label="Settings of runs">
          <table class="settings">
            <thead>
              <tr>
                <th>run</th>
                {axes.map(({ key }) => (
                  <th key={key}>{key}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {runs.map(({ row }, index) => (
                <tr key={row.run_id}>
                  <td>
                    <a href={`#/runs/${encodeURIComponent(row.run_id)}`}>{row.run_id}</a>
                  </td>
                  {axes.map((axis) => (
                    <td class="number" key={axis.key}>
                      {short(axis.values[index])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}
