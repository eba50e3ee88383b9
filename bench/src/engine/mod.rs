//! `fulgurite-bench engine`: tokens that the embedded engine samples and trains in a second, beside PyTorch on as many
//! threads in the same run where a Python with torch is given.

mod arguments;
mod host;
mod shapes;
mod side;
mod work;

use anyhow::{Result, ensure};
pub use arguments::{EngineArguments, EngineHostArguments};
pub use host::bench_engine_host;
use serde_json::{Value, json};
pub use shapes::Shape;
use side::{Host, Side, Turn};
use work::Work;

use crate::output;
use crate::table::Columns;

/// Rows of the matrices whose product is held to be the most that the machine can multiply.
const PEAK_SIZE: usize = 2048;
/// Tokens of a prompt that is sampled after.
const PROMPT: usize = 16;
/// Positions of a sequence that is trained on.
const LENGTH: usize = 256;
/// Positions of a group's prompt, and of each answer to it.
const GROUPS_PROMPT: usize = 112;
const GROUPS_ANSWER: usize = 16;
/// Parameters from which on one process at a time holds what training takes.
const ALONE: usize = 200_000_000;

/// Measures and prints.
pub fn bench_engine(arguments: &EngineArguments) -> Result<()> {
    ensure!(arguments.turns > 0 && arguments.threads > 0, "--turns and --threads must be at least 1");
    ensure!(arguments.new_tokens > 0, "--new-tokens must be at least 1");
    ensure!(arguments.seconds.is_finite() && arguments.seconds >= 0.0, "--seconds must not be negative");
    let sides: Vec<Side> =
        [Some(Side::Engine), arguments.python.clone().map(Side::Torch)].into_iter().flatten().collect();
    let bench = Bench { arguments, sides };
    let peak = bench.peak()?;
    if !arguments.json && bench.sides.len() == 1 {
        output::line("PyTorch is not measured: --python names an interpreter that has it.");
    }
    let mut table = Columns::new(&[
        "shape",
        "work",
        "tok/s",
        "per cpu s",
        "of peak",
        "MiB",
        "torch tok/s",
        "per cpu s",
        "MiB",
        "by time",
        "by cpu",
    ]);
    for &shape in &arguments.shapes {
        for work in bench.works() {
            let row = EngineRow { shape, work, measured: bench.measure(shape, work)? };
            match arguments.json {
                true => output::line(row.to_json(peak)),
                false => {
                    table.push(row.cells(peak));
                    table.print();
                }
            }
        }
    }
    Ok(())
}

struct Bench<'a> {
    arguments: &'a EngineArguments,
    /// Ours first.
    sides: Vec<Side>,
}

impl Bench<'_> {
    /// Sampling in each batch, then training; what was not asked for is left out.
    fn works(&self) -> Vec<Work> {
        let EngineArguments { batches, new_tokens, train_tokens, group_size, .. } = self.arguments;
        let sample = |&batch: &usize| Work::Sample { batch, prompt: PROMPT, new: *new_tokens };
        let train = Work::Train { sequences: train_tokens.div_ceil(LENGTH), length: LENGTH };
        let group = Work::Group { members: *group_size, prompt: GROUPS_PROMPT, answer: GROUPS_ANSWER };
        let train = [(*train_tokens > 0).then_some(train), (*group_size > 0).then_some(group)];
        batches.iter().filter(|&&batch| batch > 0).map(sample).chain(train.into_iter().flatten()).collect()
    }

    /// Floating-point operations in a second of processor time, of whoever is faster.
    fn peak(&self) -> Result<f64> {
        let measured = self.measure(Shape::Tiny, Work::Multiply { size: PEAK_SIZE })?;
        for (side, measured) in self.sides.iter().zip(&measured) {
            let (name, by_time, by_cpu) = (side.name(), measured.per_second / 1e9, measured.per_cpu_second / 1e9);
            match self.arguments.json {
                true => output::line(json!({
                    "event": "peak", "side": name, "gflops": by_time, "gflops_of_a_cpu": by_cpu,
                })),
                false => output::line(format!(
                    "{name}: {by_time:.0} GFLOP/s in products of {PEAK_SIZE} rows, {by_cpu:.0} in a processor's second"
                )),
            }
        }
        Ok(measured.iter().map(|measured| measured.per_cpu_second).fold(0.0, f64::max))
    }

    /// The median turn of each side. Turns alternate, so that a noisy moment hits both.
    fn measure(&self, shape: Shape, work: Work) -> Result<Vec<Measured>> {
        let EngineArguments { turns, seconds, threads, .. } = *self.arguments;
        let trains = matches!(work, Work::Train { .. } | Work::Group { .. });
        let large = shape.config().parameter_count() >= ALONE && trains;
        let mut hosts: Vec<Option<Host>> = self.sides.iter().map(|_| None).collect();
        let mut measured: Vec<Vec<Turn>> = vec![Vec::new(); self.sides.len()];
        for _ in 0..turns {
            for ((side, host), measured) in self.sides.iter().zip(&mut hosts).zip(&mut measured) {
                let running = match host {
                    Some(running) => running,
                    None => {
                        let started = host.insert(side.start(shape, threads)?);
                        // The first time finds memory and fills caches.
                        started.turn(work, 0.0)?;
                        started
                    }
                };
                measured.push(running.turn(work, seconds)?);
                if large {
                    *host = None;
                }
            }
        }
        Ok(measured.into_iter().map(Measured::median).collect())
    }
}

/// What the turns of one side came to.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    per_cpu_second: f64,
    resident: u64,
}

impl Measured {
    fn median(turns: Vec<Turn>) -> Self {
        let middle = |of: fn(&Turn) -> f64| {
            let mut values: Vec<f64> = turns.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        Self {
            per_second: middle(|turn| turn.amount / turn.seconds),
            per_cpu_second: middle(|turn| turn.amount / turn.cpu_seconds),
            resident: turns.iter().map(|turn| turn.resident).max().unwrap_or_default(),
        }
    }
}

/// One line of the table.
struct EngineRow {
    shape: Shape,
    work: Work,
    /// Ours first.
    measured: Vec<Measured>,
}

impl EngineRow {
    /// How much of what the machine multiplies at best in the same processor time goes into products with the weights.
    fn share_of_peak(&self, peak: f64) -> f64 {
        let passes = match self.work {
            Work::Train { .. } => 3.0,
            // The prompt is computed once.
            Work::Group { members, prompt, answer } => {
                3.0 * (prompt + members * answer) as f64 / (members * answer) as f64
            }
            _ => 1.0,
        };
        // A tied embedding is the head's matrix.
        2.0 * passes * self.shape.config().parameter_count() as f64 * self.measured[0].per_cpu_second / peak
    }

    fn what(&self) -> String {
        match self.work {
            Work::Sample { batch, .. } => format!("sample {batch}"),
            Work::Train { sequences, length } => format!("train {sequences} x {length}"),
            Work::Group { members, prompt, answer } => format!("group {members} x ({prompt} + {answer})"),
            Work::Multiply { size } => format!("multiply {size}"),
        }
    }

    fn cells(&self, peak: f64) -> Vec<String> {
        let mebibytes = |bytes: u64| (bytes >> 20).to_string();
        let rate = |rate: f64| if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
        let ours = &self.measured[0];
        let mut cells = vec![
            self.shape.name().to_owned(),
            self.what(),
            rate(ours.per_second),
            rate(ours.per_cpu_second),
            format!("{:.0} %", 100.0 * self.share_of_peak(peak)),
            mebibytes(ours.resident),
        ];
        match self.measured.get(1) {
            Some(torch) => cells.extend([
                rate(torch.per_second),
                rate(torch.per_cpu_second),
                mebibytes(torch.resident),
                format!("{:.2}x", ours.per_second / torch.per_second),
                format!("{:.2}x", ours.per_cpu_second / torch.per_cpu_second),
            ]),
            None => cells.resize(cells.len() + 5, String::new()),
        }
        cells
    }

    fn to_json(&self, peak: f64) -> Value {
        let ours = &self.measured[0];
        let mut row = json!({
            "event": "measured", "shape": self.shape.name(), "parameters": self.shape.config().parameter_count(),
            "tokens_per_second": ours.per_second, "tokens_per_cpu_second": ours.per_cpu_second,
            "share_of_peak": self.share_of_peak(peak), "resident_bytes": ours.resident,
        });
        if let (Value::Object(row), Ok(Value::Object(work))) = (&mut row, serde_json::to_value(self.work)) {
            row.extend(work);
        }
        if let Some(torch) = self.measured.get(1) {
            row["torch"] = json!({
                "tokens_per_second": torch.per_second, "tokens_per_cpu_second": torch.per_cpu_second,
                "resident_bytes": torch.resident,
            });
            row["times_as_fast"] = json!(ours.per_second / torch.per_second);
            row["times_as_fast_by_cpu"] = json!(ours.per_cpu_second / torch.per_cpu_second);
        }
        row
    }
}
