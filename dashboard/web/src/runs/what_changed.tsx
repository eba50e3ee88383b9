// What was said to the same held-out tasks at the first, a middle and the last scoring.
import type { Changed } from "../api";
import { fixed } from "../format";

const WHEN = ["first", "middle", "last"];

export function WhatChanged({ tasks }: { tasks: Changed[] }) {
  const columns = Math.max(0, ...tasks.map((task) => task.answers.length));
  if (columns === 0) return null;
  const when = (index: number) => (columns === 2 && index === 1 ? "last" : (WHEN[index] ?? `answer ${index + 1}`));
  return (
    <section>
      <h2>What changed</h2>
      <div class="wide" tabIndex={0} role="region" aria-label="What changed">
        <table class="changed">
          <thead>
            <tr>
              <th>held-out task</th>
              {Array.from({ length: columns }, (_, index) => (
                <th key={index}>{when(index)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {tasks.map(({ task, answers }, row) => (
              <tr key={row}>
                <td>
                  <pre>{task}</pre>
                </td>
                {Array.from({ length: columns }, (_, index) => {
                  const answer = answers[index];
                  return (
                    <td key={index}>
                      {answer && (
                        <>
                          <span class="quiet">
                            step {answer.step}, reward <b>{fixed(answer.reward)}</b>
                          </span>
                          <pre>{answer.said}</pre>
                        </>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
