// What was said in an attempt, conversation by conversation, with the calls of tools beside their results.
import type { ComponentChildren } from "preact";
import type { Message } from "../api";
import { brief, fixed } from "../format";
import type { Item, Other, Thread, Turn } from "./threads";
import { seamWords } from "../words_for";

function MessageView({ message, children }: { message: Message; children?: ComponentChildren }) {
  return (
    <div class={`message ${message.role === "assistant" ? "sampled" : ""}`}>
      <span class="role">{message.role}</span>
      {message.reasoning && (
        <details class="reasoning">
          <summary>reasoning, {message.reasoning.length} characters</summary>
          <pre>{message.reasoning}</pre>
        </details>
      )}
      {(message.text || (message.tool_calls.length === 0 && !message.reasoning)) && <pre>{message.text}</pre>}
      {message.left_out > 0 && <p class="quiet">{message.left_out} more characters are not shown.</p>}
      {children}
    </div>
  );
}

/** A tool call, and what came of it if that is known. */
function ToolCall({ name, words, result }: { name: string; words: string; result: Message | undefined }) {
  return (
    <div class="tool-call">
      <pre class="tool">
        {name}({words})
      </pre>
      {result ? (
        <details class="result" open={result.text.length < 2000}>
          <summary>result, {result.text.length + result.left_out} characters</summary>
          <pre>{result.text}</pre>
          {result.left_out > 0 && <p class="quiet">{result.left_out} more characters are not shown.</p>}
        </details>
      ) : (
        <p class="quiet">no result was recorded</p>
      )}
    </div>
  );
}

/** Results that the next messages of a conversation begin with, in the order of the calls that asked for them. */
function results(messages: Message[], answer: Message[]): Message[] {
  const calls = answer.reduce((sum, message) => sum + message.tool_calls.length, 0);
  const end = messages.findIndex((message) => message.role !== "tool");
  return messages.slice(0, Math.min(calls, end < 0 ? messages.length : end));
}

/** Messages, each tool call with its result; what no call asked for stands for itself. */
function Messages({ messages, next }: { messages: Message[]; next: Message[] }) {
  const given = [...messages, ...next];
  const paired = new Set<Message>();
  const shown = messages.map((message, index) => {
    if (paired.has(message)) return null;
    const found = message.tool_calls.length > 0 ? results(given.slice(index + 1), [message]) : [];
    for (const result of found) paired.add(result);
    return (
      <MessageView key={index} message={message}>
        {message.tool_calls.map(([name, words], which) => (
          <ToolCall key={which} name={name} words={words} result={found[which]} />
        ))}
      </MessageView>
    );
  });
  return <>{shown}</>;
}

function Call({
  turn,
  last,
  next,
  number,
}: {
  turn: Turn;
  last: Turn | undefined;
  next: Turn | undefined;
  number: number;
}) {
  const { call } = turn;
  const took = call.start_time !== null && call.end_time !== null ? brief(call.end_time - call.start_time) : "";
  const shown = last ? results(turn.messages, last.call.answer).length : 0;
  const reason = number > 1 && call.branch_reason && call.branch_reason !== "first_turn" ? call.branch_reason : null;
  return (
    <section class="call" data-event={turn.at} tabIndex={-1}>
      <h4>
        Call {number}{" "}
        <span class="quiet">{[call.model ?? "a model", took, tokens(turn)].filter(Boolean).join(", ")}</span>
      </h4>
      {reason && (
        <p class={turn.isCompacted || turn.isRepeated ? "seam apart" : "seam"}>
          {turn.isCompacted && <b>Compacted. </b>}
          {turn.isRepeated && <b>Repeated. </b>}
          {seamWords(reason)}
        </p>
      )}
      {turn.before > 0 && turn.isCompacted && (
        <p class="quiet">
          {turn.before} {turn.before === 1 ? "message" : "messages"} as before
        </p>
      )}
      <Messages messages={[...turn.messages.slice(shown), ...call.answer]} next={next?.messages ?? []} />
    </section>
  );
}

function tokens({ call }: Turn): string {
  if (typeof call.prompt_tokens !== "number") return "";
  const cached = call.cached_tokens ? ` (${call.cached_tokens} cached)` : "";
  return `${call.prompt_tokens} tokens given${cached}, ${call.sampled_tokens ?? 0} sampled`;
}

/** What a failed call says of its failure. */
export function failureOf(other: Other): string | null {
  if (other.kind !== "span") return null;
  const kind = (other.attributes as Record<string, unknown>)["error.type"];
  return typeof kind === "string" ? kind : null;
}

function Happened({ other, at }: { other: Other; at: number }) {
  if (other.kind === "reward") {
    return (
      <div class="reward" data-event={at} tabIndex={-1}>
        <b>reward {fixed(other.value)}</b> by {other.giver ?? "nobody who is known"}
        {Object.entries(other.components).map(([name, value]) => (
          <span key={name}>
            {" "}
            · {name} {fixed(value)}
          </span>
        ))}
      </div>
    );
  }
  const failure = failureOf(other);
  const took = other.start_time !== null && other.end_time !== null ? brief(other.end_time - other.start_time) : "";
  return (
    <details class="span" data-event={at} tabIndex={-1}>
      <summary>
        {other.name} <span class="quiet">{took}</span>
        {failure && <span class="failure"> failed: {failure}</span>}
      </summary>
      <pre>{JSON.stringify(other.attributes, null, 2)}</pre>
    </details>
  );
}

/** Items, with failures that follow each other counted. */
function Items({ items, thread, threads }: { items: Item[]; thread?: Thread; threads: Thread[] }) {
  let failures = 0;
  return (
    <>
      {items.map((item) => {
        if ("thread" in item) return <Conversation key={item.at} thread={item.thread} threads={threads} />;
        if ("other" in item) {
          failures = failureOf(item.other) ? failures + 1 : failures;
          return (
            <div key={item.at}>
              <Happened other={item.other} at={item.at} />
              {failures > 1 && failureOf(item.other) && <p class="failure">{failures} failed one after another</p>}
            </div>
          );
        }
        failures = 0;
        const number = thread?.turns.indexOf(item.turn) ?? 0;
        const [last, next] = [thread?.turns[number - 1], thread?.turns[number + 1]];
        return <Call key={item.at} turn={item.turn} last={last} next={next} number={number + 1} />;
      })}
    </>
  );
}

function Conversation({ thread, threads }: { thread: Thread; threads: Thread[] }) {
  const first = thread.turns[0]?.call;
  const about = first?.messages.find((message) => message.role === "user")?.text.slice(0, 60);
  const name = `Conversation ${threads.indexOf(thread) + 1}`;
  return (
    <section class="thread" aria-label={name}>
      <h3>
        {name}
        <span class="quiet">
          {" "}
          {thread.turns.length} {thread.turns.length === 1 ? "call" : "calls"}
          {thread.inner > 0 && `, ${thread.inner} ${thread.inner === 1 ? "conversation" : "conversations"} inside`}
          {about && `: ${about}`}
        </span>
      </h3>
      <Items items={thread.items} thread={thread} threads={threads} />
    </section>
  );
}

export function Conversations({ items, threads }: { items: Item[]; threads: Thread[] }) {
  return <Items items={items} threads={threads} />;
}
