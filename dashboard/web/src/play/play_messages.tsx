// The messages that a model is asked with.
import type { Role, PlayMessage } from "./play";

const ROLES: Role[] = ["system", "user", "assistant"];

export function Messages({ messages, change }: { messages: PlayMessage[]; change: (messages: PlayMessage[]) => void }) {
  const put = (index: number, part: Partial<PlayMessage>) =>
    change(messages.map((message, at) => (at === index ? { ...message, ...part } : message)));
  const add = () =>
    change([...messages, { role: messages.at(-1)?.role === "user" ? "assistant" : "user", content: "" }]);
  return (
    <fieldset class="typed">
      <legend>Messages</legend>
      {messages.map((message, index) => (
        <div class="typed-message" key={index}>
          <select
            aria-label={`Role of message ${index + 1}`}
            value={message.role}
            onChange={(event) => put(index, { role: event.currentTarget.value as Role })}
          >
            {ROLES.map((role) => (
              <option key={role}>{role}</option>
            ))}
          </select>
          <textarea
            aria-label={`Message ${index + 1}`}
            rows={Math.min(12, 1 + message.content.split("\n").length)}
            value={message.content}
            onInput={(event) => put(index, { content: event.currentTarget.value })}
          />
          <button
            type="button"
            aria-label={`Remove message ${index + 1}`}
            disabled={messages.length === 1}
            onClick={() => change(messages.filter((_, at) => at !== index))}
          >
            ×
          </button>
        </div>
      ))}
      <button type="button" onClick={add}>
        Add a message
      </button>
    </fieldset>
  );
}
