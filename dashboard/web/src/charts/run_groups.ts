// Which numbers of a run are drawn, in which picture, and what stands together.
import { type Step, updates } from "../api";
import type { ChartProps } from "./chart";
import { type Curve, HELD_OUT, numberOf, type Point, points, spread, TRAINING, withInterval } from "./series";

/** Runs that differ from this one by their seed alone, and how they are shown. */
export interface Seeds {
  shown: "none" | "band" | "lines";
  others: { name: string; steps: Step[] }[];
}

export interface ChartGroup {
  heading: string;
  charts: ChartProps[];
}

type Named = [key: string, name: string];

const NO_REWARDS =
  /^(reward\/total|total_.*|failed_episodes|.*_per_turn|turns_per_episode|by_group\/.*|stop\/.*|zero_reward_on_limit)$/;
const KINDS: Named[] = [
  ["env/all/by_group/frac_mixed", "rewards differ"],
  ["env/all/by_group/frac_all_good", "all good"],
  ["env/all/by_group/frac_all_bad", "all bad"],
];

const unprefixed = (key: string) => key.replace(/^(test\/|final\/)?env\/all\//, "");

/** Everything that is a number in one of the steps. */
function numbers(steps: Step[]): string[] {
  const keys = new Set<string>();
  for (const step of steps)
    for (const key of Object.keys(step.metrics)) if (numberOf(step, key) !== null) keys.add(key);
  return [...keys].sort();
}

class Drawn {
  readonly used = new Set(["step", "progress/batch", "progress/done_frac", "optim/trained_tokens", "optim/datums"]);
  readonly keys: string[];

  constructor(
    readonly steps: Step[],
    readonly seeds: Seeds,
  ) {
    this.keys = numbers(steps);
  }

  has = (key: string) => this.keys.includes(key);

  /** What the other seeds add to the picture of a key. */
  private ofSeeds(key: string): Curve[] {
    const { shown, others } = this.seeds;
    if (shown === "none" || others.length === 0) return [];
    if (shown === "lines")
      return others.map(({ name, steps }) => ({ name, points: points(steps, key), isFaint: true }));
    const all = [this.steps, ...others.map(({ steps }) => steps)];
    return [{ name: "seeds", points: [], ...spread(all.map((steps) => points(steps, key))), isFaint: true }];
  }

  /** Curves in one picture; those of other seeds go with the first. */
  lines(title: string, named: Named[]): ChartProps[] {
    const known = named.filter(([key]) => this.has(key));
    const [first] = known;
    if (!first) return [];
    for (const [key] of known) this.used.add(key);
    const curves = known.map(([key, name]) => ({ name, points: points(this.steps, key) }));
    return [{ title, curves: [...curves, ...this.ofSeeds(first[0])] }];
  }

  /** The same, with the interval of what is a share of episodes; beside other seeds their band is enough. */
  shares(title: string, named: Named[]): ChartProps[] {
    return this.lines(title, named).map((chart) => {
      if (this.seeds.shown !== "none") return chart;
      const names = new Map(named.map(([key, name]) => [name, key]));
      const curves = chart.curves.map((curve) => withInterval(this.steps, names.get(curve.name) ?? "", curve));
      return { ...chart, curves, ...(curves.some(({ low }) => low) && { note: "with its 95 % interval" }) };
    });
  }

  each(named: Named[]): ChartProps[] {
    return named.flatMap(([key, title]) => this.lines(title, [[key, title]]));
  }

  stack(title: string, named: Named[]): ChartProps[] {
    const known = named.filter(([key]) => this.has(key));
    for (const [key] of known) this.used.add(key);
    const curves = known.map(([key, name]) => ({ name, points: points(this.steps, key) }));
    const shown = curves.filter((curve) => curve.points.some(([, y]) => y !== 0));
    return shown.length > 0 ? [{ title, curves: shown, isStacked: true }] : [];
  }

  below(prefix: string): Named[] {
    return this.keys
      .filter((key) => key.startsWith(prefix))
      .map((key) => [key, key.slice(prefix.length).replaceAll("_", " ")]);
  }
}

/** The reward and its named parts; parts of one family, such as `kind/read` and `kind/set`, are in one picture. */
function rewards(drawn: Drawn): ChartProps[] {
  const charts = [
    ...drawn.shares("Held-out reward", [[HELD_OUT, "held-out"]]),
    ...drawn.shares("Training reward", [[TRAINING, "training"]]),
  ];
  const names = new Set(drawn.keys.filter((key) => /^(test\/)?env\/all\//.test(key)).map(unprefixed));
  const parts = [...names].filter((name) => !NO_REWARDS.test(name)).sort();
  const families = new Map<string, string[]>();
  for (const name of parts) {
    const family = name.includes("/") ? name.slice(0, name.indexOf("/")) : "";
    if (family) families.set(family, [...(families.get(family) ?? []), name]);
    else
      charts.push(
        ...drawn.shares(name, [
          [`test/env/all/${name}`, "held-out"],
          [`env/all/${name}`, "training"],
        ]),
      );
  }
  for (const [family, members] of families) {
    for (const [prefix, kind] of [
      ["test/env/all/", "held-out"],
      ["env/all/", "training"],
    ] as const) {
      const named = members.map((name): Named => [`${prefix}${name}`, name.slice(family.length + 1)]);
      charts.push(...drawn.lines(`${family}, ${kind}`, named));
    }
  }
  return charts;
}

/** Numbers that are told apart by what caused them stand with the sum of them. */
function drift(drawn: Drawn): ChartProps[] {
  const split = (key: string, name: string): Named[] => [[key, name], ...drawn.below(`${key}/`)];
  return [
    ...drawn.lines("KL of sampler and trainer, squared estimate", split("optim/kl_sample_train_v2", "all causes")),
    ...drawn.lines("KL of sampler and trainer, without bias", split("optim/kl_sample_train_v1", "all causes")),
    ...drawn.lines("Greatest ratio of trainer and sampler", split("optim/ratio_max", "all causes")),
    ...drawn.lines("Greatest difference of logprobs", split("optim/logprob_difference_max", "all causes")),
    ...drawn.stack("Trained tokens, by what made the difference", drawn.below("optim/trained_tokens/")),
    ...drawn.lines("Shares of tokens", [
      ["optim/effective_sample_fraction", "effective samples"],
      ["optim/importance_masked", "masked by importance"],
    ]),
    ...drawn.lines("KL of policy and reference", [["kl_policy_base", "all tokens"]]),
    ...drawn.keys
      .filter((key) => /^optim\/(kl|ratio)/.test(key) && !drawn.used.has(key))
      .flatMap((key) => drawn.lines(key, [[key, key]])),
  ];
}

/** How the time of each step was spent; what runs at the same time may be more than all of it. */
function times(drawn: Drawn): ChartProps[] {
  const kinds = ["sampling", "training", "evaluation"] as const;
  for (const kind of [...kinds, "total"]) drawn.used.add(`time/${kind}`);
  const shares = new Map<string, Point[]>([...kinds, "other"].map((kind) => [kind, []]));
  for (const step of drawn.steps) {
    const spent = kinds.map((kind) => numberOf(step, `time/${kind}`) ?? 0);
    const sum = spent.reduce((all, one) => all + one, 0);
    const total = Math.max(sum, numberOf(step, "time/total") ?? 0);
    if (total === 0) continue;
    [...spent, total - sum].forEach((seconds, index) => {
      shares.get([...kinds, "other"][index] ?? "")?.push([updates(step), seconds / total]);
    });
  }
  const curves = [...shares]
    .map(([name, points]) => ({ name, points }))
    .filter(({ points }) => points.some(([, y]) => y > 0));
  return curves.length > 0 ? [{ title: "Shares of time", curves, isStacked: true }] : [];
}

function staleness(drawn: Drawn): ChartProps[] {
  const key = (end: string) => `async/staleness_${end}`;
  if (!drawn.has(key("mean"))) return [];
  for (const end of ["min", "mean", "max"]) drawn.used.add(key(end));
  const of = (end: string) => points(drawn.steps, key(end));
  const curves = [{ name: "mean", points: of("mean"), low: of("min"), high: of("max") }];
  return [{ title: "Updates that the sampler was behind", curves, note: "with the least and the greatest" }];
}

/** All groups that have something, and what is in none of them. */
export function grouped(steps: Step[], seeds: Seeds): { groups: ChartGroup[]; rest: ChartProps[] } {
  const drawn = new Drawn(steps, seeds);
  const groups: ChartGroup[] = [
    { heading: "Reward", charts: rewards(drawn) },
    {
      heading: "Loss",
      charts: [
        ...drawn.lines("Loss of a token", [
          ["test/nll", "held-out"],
          ["conversations/train_mean_nll", "training"],
          ["train_mean_nll", "training"],
        ]),
        ...drawn.each([
          ["test/accuracy", "Held-out accuracy"],
          ["test/margin", "Held-out margin"],
          ["margin", "Margin"],
          ["dpo_loss", "DPO loss"],
          ["optim/loss:sum", "Loss of the batch"],
        ]),
      ],
    },
    {
      heading: "Entropy",
      charts: drawn.lines("Entropy of a token", [
        ["optim/entropy", "of sampled tokens"],
        ["optim/entropy_exact", "exact"],
      ]),
    },
    { heading: "Sampler and trainer", charts: drift(drawn) },
    {
      heading: "Groups and rollouts",
      charts: [
        ...drawn.stack("Kinds of groups", KINDS),
        ...drawn.stack("Why rollouts ended", drawn.below("env/all/stop/")),
        ...drawn.stack(
          "Rollouts that failed",
          drawn.below("rollout_errors/").filter(([key]) => !key.endsWith("/total")),
        ),
      ],
    },
    {
      heading: "Lengths",
      charts: drawn.each([
        ["env/all/ac_tokens_per_turn", "Sampled tokens by call"],
        ["env/all/ob_tokens_per_turn", "Prompt tokens by call"],
        ["env/all/turns_per_episode", "Calls by rollout"],
      ]),
    },
    { heading: "Staleness", charts: staleness(drawn) },
    {
      heading: "Gradient",
      charts: drawn.each([
        ["optim/gradient_norm_per_token", "Gradient norm by token"],
        ["optim/gradient_norm", "Gradient norm"],
        ["optim/clip_factor", "Share left by clipping"],
        ["optim/lr", "Step size"],
      ]),
    },
    { heading: "Time", charts: [...times(drawn), ...secondsOf(drawn)] },
  ];
  const other = drawn.keys.filter((key) => !drawn.used.has(key) && !key.startsWith("final/"));
  return {
    groups: groups.filter(({ charts }) => charts.length > 0),
    rest: other.flatMap((key) => drawn.lines(key, [[key, key]])),
  };
}

function secondsOf(drawn: Drawn): ChartProps[] {
  return drawn.lines("Seconds of a step", [["time/total", "all"]]);
}
