export { serve } from "./agent.js";
export type { Answer, Task } from "./agent.js";
export { Client, RefusedError, UnreachableError } from "./client.js";
export type { ClientOptions, Generation, NewRollout, Reward, Rollout } from "./client.js";
