// The data of a report: a page that stands alone in one file holds what it would fetch from a server.

export interface Transcript {
  rollout_id: string;
  reward: number;
  messages: { role: string; content: string }[];
}

/** What a report adds to a run's page, of all that is in the run's directory. */
export interface ReportSummary {
  facts: [name: string, value: string][];
  judges: [name: string, value: string][];
  /** Failed rollouts, by their cause. */
  failures: Record<string, number>;
  best: Transcript[];
  worst: Transcript[];
}

export interface Report {
  /** The server's answers, by their paths, which are not percent-encoded. */
  answers: Record<string, unknown>;
  /** By the ids of runs. */
  summaries: Record<string, ReportSummary>;
}

function read(): Report | null {
  const text = document.getElementById("report")?.textContent;
  return text ? (JSON.parse(text) as Report) : null;
}

/** Null where a server answers. */
export const report: Report | null = read();
