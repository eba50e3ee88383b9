// Which rollouts are shown.
import { useEffect, useState } from "preact/hooks";
import { ORDER_TITLES, type Order } from "./sorting";

const STATUSES = ["queuing", "preparing", "running", "succeeded", "failed", "cancelled", "requeuing"];
const MODES = ["train", "val", "test"];

interface FilterProps {
  query: URLSearchParams;
  narrow: (name: string, value: string) => void;
  order: Order;
  setOrder: (order: Order) => void;
  hasTokens: boolean;
}

/** An expression in the language of filters, with what is wrong with it. */
export function Where({
  query,
  narrow,
  failure,
}: {
  query: URLSearchParams;
  narrow: FilterProps["narrow"];
  failure: string | null;
}) {
  const [text, setText] = useState(query.get("where") ?? "");
  useEffect(() => setText(query.get("where") ?? ""), [query.get("where")]);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        narrow("where", text.trim());
      }}
    >
      <div class="where">
        <label for="where">filter</label>
        <input
          id="where"
          name="where"
          value={text}
          spellcheck={false}
          autocomplete="off"
          placeholder="reward >= 1 and mode = train"
          aria-invalid={failure !== null}
          aria-describedby={failure === null ? undefined : "where-failure"}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button>Filter</button>
        {query.get("where") && (
          <button type="button" onClick={() => narrow("where", "")}>
            Clear
          </button>
        )}
      </div>
      {failure !== null && (
        <p class="failure" role="alert" id="where-failure">
          {failure}
        </p>
      )}
      <details>
        <summary>What a filter may say</summary>
        <pre>{`reward >= 1 and mode = train and not (tag = broken or tag = "hand made")
reward.exact = 1 and model = tiny and since >= 2026-11-01
run = hello-seed-1-1 and step >= 10 and status = succeeded`}</pre>
        <p>
          Numbers (<code>reward</code>, <code>reward.NAME</code>, <code>step</code>) and times (<code>since</code>) are
          compared by <code>= != &lt; &lt;= &gt; &gt;=</code>, texts (<code>mode</code>, <code>status</code>,{" "}
          <code>run</code>, <code>model</code>, <code>tag</code>) by <code>= !=</code>; <code>and</code> binds before{" "}
          <code>or</code>, <code>not</code> before both. What is not known of a rollout meets no condition.
        </p>
      </details>
    </form>
  );
}

export function Filter({ query, narrow, order, setOrder, hasTokens }: FilterProps) {
  const choice = (name: string, values: string[]) => (
    <label>
      {name}{" "}
      <select name={name} value={query.get(name) ?? ""} onChange={(event) => narrow(name, event.currentTarget.value)}>
        <option value="">any</option>
        {values.map((value) => (
          <option key={value}>{value}</option>
        ))}
      </select>
    </label>
  );
  const field = (label: string, name: string, type: string) => (
    <label>
      {label}{" "}
      <input
        name={name}
        type={type}
        value={query.get(name) ?? ""}
        onChange={(event) => narrow(name, event.currentTarget.value)}
      />
    </label>
  );
  const titles = Object.entries(ORDER_TITLES).filter(([order]) => hasTokens || !order.startsWith("tokens"));
  return (
    <form class="filter" aria-label="Which rollouts" onSubmit={(event) => event.preventDefault()}>
      {field("run", "run_id", "text")}
      {field("step", "step", "number")}
      {choice("mode", MODES)}
      {choice("status", STATUSES)}
      <label>
        <input
          type="checkbox"
          name="nobody"
          checked={query.has("nobody")}
          onChange={(event) => narrow("nobody", event.currentTarget.checked ? "true" : "")}
        />{" "}
        of no run
      </label>
      <label>
        order{" "}
        <select name="order" value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
          {titles.map(([order, title]) => (
            <option key={order} value={order}>
              {title}
            </option>
          ))}
        </select>
      </label>
    </form>
  );
}
