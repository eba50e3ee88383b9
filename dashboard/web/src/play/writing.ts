// What the page asks its server to change: with a key that is held in memory alone, and asked for once it is missing.
import { Failure } from "../api";

let key = "";

export const holdKey = (given: string) => {
  key = given.trim();
};

/** Whether a server refused a request for want of a key. */
export const wantsKey = (error: unknown) => error instanceof Failure && (error.status === 401 || error.status === 403);

export interface Answered<T> {
  value: T;
  headers: Headers;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<Answered<T>> {
  const response = await sent(path, body, signal);
  return { value: await response.json(), headers: response.headers };
}

/** The data of each server-sent event of an answer, as it comes. */
export async function* streamed<T>(response: Response): AsyncGenerator<T> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const lines = rest.split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      for (const line of lines) {
        const data = /^data: ?(.*?)\r?$/.exec(line)?.[1];
        if (data === undefined || data === "[DONE]") continue;
        const event = JSON.parse(data);
        if (event.error) throw new Failure(0, event.error.message ?? JSON.stringify(event.error));
        yield event;
      }
      if (done) return;
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** What a server answers to a request that changes something, if it does not refuse it. */
export async function sent(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  let response: Response;
  try {
    response = await fetch(path, {
      method: "POST",
      body: JSON.stringify(body),
      headers,
      credentials: "same-origin",
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(0, "The server does not answer.");
  }
  if (!response.ok) throw new Failure(response.status, inWords(await response.text(), response));
  return response;
}

/** What a refusal says: FastAPI's, OpenAI's and Anthropic's shapes, with the status in front. */
function inWords(text: string, response: Response): string {
  try {
    const body = JSON.parse(text);
    const detail = body.detail ?? body.error?.message ?? body.message;
    if (typeof detail === "string") return `${response.status}: ${detail}`;
    if (Array.isArray(detail))
      return `${response.status}: ${detail.map((one) => one.msg ?? JSON.stringify(one)).join("; ")}`;
  } catch {
    // It says nothing that can be read.
  }
  return text ? `${response.status}: ${text.slice(0, 300)}` : `${response.status} ${response.statusText}`;
}
