// Metrics in Prometheus' text format, as far as the page reads them.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function samples(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (!name || name.endsWith("_bucket")) return [];
    const named = [...labels.matchAll(LABEL)].map(([, key = "", text = ""]) => [key, text.replace(/\\(.)/g, "$1")]);
    return [{ name, labels: Object.fromEntries(named), value: Number(value) }];
  });
}

/** The sum of the samples of a name that have these labels; none if there is none. */
export function total(of: Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const found = of.filter(
    (one) => one.name === name && Object.entries(labels).every(([key, text]) => one.labels[key] === text),
  );
  return found.length === 0 ? null : found.reduce((sum, one) => sum + one.value, 0);
}

/** The mean of a histogram. */
export function mean(of: Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const [sum, count] = [total(of, `${name}_sum`, labels), total(of, `${name}_count`, labels)];
  return sum === null || !count ? null : sum / count;
}
