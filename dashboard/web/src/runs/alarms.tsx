// What is amiss with a run, and what to do about it.
import type { Finding } from "../api";
import { fixed } from "../format";

const shown = (task: unknown) => (typeof task === "string" ? task : JSON.stringify(task));

export function Alarms({ findings }: { findings: Finding[] }) {
  if (findings.length === 0) return <p class="alarms quiet">No alarms.</p>;
  return (
    <section class="alarms" aria-label="Alarms">
      {findings.map((finding) => (
        <div class="finding" key={finding.name}>
          <p>
            <b>{finding.name.replaceAll("_", " ")}</b>
            {finding.severity && <span class="quiet"> {finding.severity}</span>}: {finding.evidence}
          </p>
          <p>What to do: {finding.what_to_do}</p>
          {finding.answers && finding.answers.length > 0 && (
            <details>
              <summary>{finding.answers.length} answers that show it</summary>
              <ul>
                {finding.answers.map(({ task, answer, reward }, index) => (
                  <li key={index}>
                    <span class="quiet">{shown(task)}</span>, reward {fixed(reward)}: <q>{answer}</q>
                  </li>
                ))}
              </ul>
            </details>
          )}
        </div>
      ))}
    </section>
  );
}
