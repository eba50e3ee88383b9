// What a report tells of a run beyond the page of a server.
import type { ReportSummary, Transcript } from "../report";
import { fixed } from "../format";

function Rows({ heading, rows }: { heading: string; rows: [string, string][] }) {
  if (rows.length === 0) return null;
  return (
    <section>
      <h2>{heading}</h2>
      <div class="wide" tabIndex={0} role="region" aria-label={heading}>
        <table class="facts">
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <td>{name}</td>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Transcripts({ heading, transcripts }: { heading: string; transcripts: Transcript[] }) {
  if (transcripts.length === 0) return null;
  return (
    <section class="transcripts">
      <h2>{heading}</h2>
      {transcripts.map(({ rollout_id, reward, messages }) => (
        <details key={rollout_id}>
          <summary>
            {fixed(reward)} {rollout_id}
          </summary>
          {messages.map(({ role, content }, index) => (
            <div class="message" key={index}>
              <span class="role">{role}</span>
              <pre>{content}</pre>
            </div>
          ))}
        </details>
      ))}
    </section>
  );
}

export function Summary({ summary, config }: { summary: ReportSummary; config: unknown }) {
  const failures = Object.entries(summary.failures).map(([cause, count]): [string, string] => [cause, String(count)]);
  return (
    <>
      <Rows heading="Summary" rows={summary.facts} />
      <Rows heading="Failures" rows={failures} />
      <Rows heading="Judges" rows={summary.judges} />
      <Transcripts heading="Best answers" transcripts={summary.best} />
      <Transcripts heading="Worst answers" transcripts={summary.worst} />
      <details>
        <summary>Config</summary>
        <pre>{JSON.stringify(config, null, 2)}</pre>
      </details>
    </>
  );
}
