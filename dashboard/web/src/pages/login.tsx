import { useState } from "preact/hooks";
import { login } from "../api";

export function Login({ entered }: { entered: () => void }) {
  const [failure, setFailure] = useState("");
  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    const key = new FormData(event.currentTarget as HTMLFormElement).get("key");
    try {
      await login(String(key));
      entered();
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <main>
      <h1>This server asks for a key</h1>
      <form class="filter" onSubmit={enter}>
        <label>
          Admin key, or a reader's <input name="key" type="password" autocomplete="current-password" required />
        </label>
        <button>Enter</button>
      </form>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      <p class="quiet">The key is sent once. What stays in the browser is a cookie that reads, for twelve hours.</p>
    </main>
  );
}
