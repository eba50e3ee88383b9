// Where the sampled tokens of a run went.
import type { LedgerRow } from "../api";
import { count } from "../format";
import { COLOURS } from "../charts/chart";

const words = (cause: string) => cause.replaceAll("_", " ");

export function Ledger({ rows }: { rows: LedgerRow[] }) {
  const all = rows.reduce((sum, row) => sum + row.tokens, 0);
  if (all === 0) return null;
  const share = (row: LedgerRow) => `${((100 * row.tokens) / all).toFixed(1)} %`;
  const colour = (index: number) => COLOURS[index % COLOURS.length] ?? "";
  return (
    <section>
      <h2>Where {count(all)} sampled tokens went</h2>
      <div class="stacked" role="img" aria-label={rows.map((row) => `${words(row.cause)} ${share(row)}`).join(", ")}>
        {rows.map((row, index) => (
          <span
            key={row.cause}
            title={`${words(row.cause)}: ${share(row)}`}
            style={{ flexGrow: String(row.tokens), background: colour(index) }}
          />
        ))}
      </div>
      <ul class="ledger">
        {rows.map((row, index) => (
          <li key={row.cause}>
            <span>
              <i class="swatch" style={{ background: colour(index) }} /> {words(row.cause)}
            </span>
            <span class="number">
              {count(row.tokens)} ({share(row)}) of {count(row.generations)} calls
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
