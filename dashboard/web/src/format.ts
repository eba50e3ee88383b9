// Numbers and times for people.

export const fixed = (value: number | null | undefined, digits = 3) =>
  value === null || value === undefined || Number.isNaN(value) ? "–" : value.toFixed(digits);

export function count(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return String(value);
}

export function duration(seconds: number): string {
  if (seconds < 90) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export const moment = (seconds: number) => new Date(seconds * 1000).toLocaleString();

/** A duration that may be far below a second, such as a call's. */
export const brief = (seconds: number) =>
  seconds < 1 ? `${(1000 * seconds).toFixed(seconds > 0 && seconds < 0.01 ? 1 : 0)} ms` : duration(seconds);
