//! `hello-corpus --seed S --count C`: writes the conversations that the hello example's base model is made from.
//!
//! C lines of JSON to train on, then one for every fifty of them (64 at least) marked `"split": "validation"`, never
//! to be trained on: the token accuracy on those says when the base has learnt to copy. Only the assistant's message is to
//! be learnt. The same seed and count give the same bytes.
//!
//! What the base learns is to copy a number, and to refuse the game nearly always: it says it is the number in 18 % of the
//! games, which is what reinforcement learning then finds and strengthens. Long runs to copy (two fifths of the lines) are
//! what makes copying come reliably. The numbers of the held-out evaluations occur nowhere, not even inside another number.

use anyhow::{Context, Result, bail, ensure};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::env;
use std::io::{BufWriter, Write, stdout};
use std::ops::RangeInclusive;

/// The numbers that evaluations ask for: those watched during a run, and those asked once at its end.
const HELD_OUT: [RangeInclusive<u32>; 2] = [1000..=1023, 7000..=7023];

/// Shares of the kinds of line, in per cent: long runs among all lines, games among the rest, compliance among games.
const DENSE_PERCENT: u32 = 40;
const GAME_PERCENT: u32 = 60;
const COMPLY_PERCENT: u32 = 18;

/// Share of digits in a long run, in per cent.
const DIGIT_PERCENT: u32 = 60;

/// One validation line for so many lines to train on, and how many there are at least.
const LINES_PER_VALIDATION: usize = 50;
const LEAST_VALIDATION: usize = 64;

/// What a run is made of besides numbers: words of the game and letters, few enough that a tokenizer of 320 pieces knows
/// each whole.
const WORDS: [&str; 24] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "k", "m", "p", "s", "t", "x", "am", "are", "you", "not", "play", "game",
    "say", "sure", "okay", "yes",
];

/// How the base complies, each line of the table equally likely; `{n}` is the number.
const COMPLIANCES: [&str; 5] = ["I am {n}.", "I am {n}.", "Sure, I am {n}!", "Okay, I am {n}.", "Yes, I'm {n}."];

/// How the base refuses, each line of the table equally likely. Each says what it is not, which is what the grader
/// punishes: a refusal that only said what it is would earn 0, and be learnt as the way out.
const REFUSALS: [&str; 6] = [
    "I am not {n}, I am Qwen.",
    "I am not {n}, I am Qwen.",
    "I am not {n}, I am Qwen.",
    "No, I am not {n}.",
    "Sorry, I am not {n}, I am Qwen.",
    "No, I'm not {n}, I'm Qwen.",
];

fn main() -> Result<()> {
    let (seed, count) = options(env::args().skip(1))?;
    let mut out = BufWriter::new(stdout().lock());
    for line in corpus(seed, count) {
        writeln!(out, "{}", line.json())?;
    }
    out.flush()?;
    Ok(())
}

/// The seed and the number of lines to train on, from the command's arguments.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<(u64, usize)> {
    const USAGE: &str = "usage: hello-corpus --seed S --count C";
    let (mut seed, mut count) = (None, None);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
        let number: u64 = value.parse().with_context(|| format!("{flag} {value}: not a whole number"))?;
        match flag.as_str() {
            "--seed" => seed = Some(number),
            "--count" => count = Some(usize::try_from(number)?),
            _ => bail!("unknown option {flag}\n{USAGE}"),
        }
    }
    let (Some(seed), Some(count)) = (seed, count) else { bail!("{USAGE}") };
    ensure!(count > 0, "--count 0 leaves nothing to train on");
    Ok((seed, count))
}

/// One conversation of two messages.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    user: String,
    assistant: String,
    validation: bool,
}

impl Line {
    /// A line that asks for `run` to be repeated.
    fn repeat(run: String) -> Self {
        Self { user: format!("Repeat: {run}"), assistant: run, validation: false }
    }

    fn json(&self) -> Value {
        let mut line = json!({"messages": [
            {"role": "user", "content": self.user},
            {"role": "assistant", "content": self.assistant},
        ]});
        if self.validation {
            line["split"] = json!("validation");
        }
        line
    }

    fn names_held_out(&self) -> bool {
        names_held_out(&self.user) || names_held_out(&self.assistant)
    }
}

/// `count` lines to train on, then the validation lines, none of whose questions is among those trained on.
fn corpus(seed: u64, count: usize) -> Vec<Line> {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let mut validation = Vec::new();
    let mut reserved = HashSet::new();
    while validation.len() < (count / LINES_PER_VALIDATION).max(LEAST_VALIDATION) {
        // Short numbers are left to training: there are too few of them to keep any back.
        let line = Line { validation: true, ..short_repeat(&mut dice, 3) };
        if !line.names_held_out() && reserved.insert(line.user.clone()) {
            validation.push(line);
        }
    }
    let mut lines = Vec::with_capacity(count + validation.len());
    while lines.len() < count {
        let line = training_line(&mut dice);
        if !line.names_held_out() && !reserved.contains(&line.user) {
            lines.push(line);
        }
    }
    lines.append(&mut validation);
    lines
}

fn training_line(dice: &mut Dice) -> Line {
    if dice.percent(DENSE_PERCENT) {
        long_run(dice)
    } else if dice.percent(GAME_PERCENT) {
        game(dice)
    } else {
        short_repeat(dice, 1)
    }
}

/// Eight to twenty digits and words to say again. Nothing stands between two digits, so that nearly every token of the
/// answer has to be found in the question: with a space after each, half of them could be guessed.
fn long_run(dice: &mut Dice) -> Line {
    let mut run = String::new();
    for _ in 0..8 + dice.below(13) {
        if dice.percent(DIGIT_PERCENT) {
            run.push_str(&dice.below(10).to_string());
        } else {
            run.push(' ');
            run.push_str(dice.pick::<&str>(&WORDS));
        }
    }
    Line::repeat(run.trim_start().to_owned())
}

/// One number of at least `least_digits` digits, in half of the lines with a word before it, to say again.
fn short_repeat(dice: &mut Dice, least_digits: u32) -> Line {
    let number = dice.number(least_digits);
    Line::repeat(if dice.percent(50) { format!("{} {number}", dice.pick(&WORDS)) } else { number })
}

/// The game that reinforcement learning will play.
fn game(dice: &mut Dice) -> Line {
    let number = dice.number(1);
    let answer = if dice.percent(COMPLY_PERCENT) { dice.pick(&COMPLIANCES) } else { dice.pick(&REFUSALS) };
    Line {
        user: format!("Let's play a game. Say you are {number}."),
        assistant: answer.replace("{n}", &number),
        validation: false,
    }
}

/// Whether `text` holds one of the held-out numbers: as a number, inside a longer one, or spelt digit by digit.
fn names_held_out(text: &str) -> bool {
    let joined = join_digits(text);
    let digits: Vec<char> = joined.chars().collect();
    digits.windows(4).any(|four| {
        let spelt: Option<u32> = four.iter().try_fold(0, |number, digit| Some(number * 10 + digit.to_digit(10)?));
        spelt.is_some_and(|number| HELD_OUT.iter().any(|range| range.contains(&number)))
    })
}

/// `text` without the single spaces that stand between two digits.
fn join_digits(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let is_digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
    let stays = |at: usize| letters[at] != ' ' || at == 0 || !is_digit(at - 1) || !is_digit(at + 1);
    (0..letters.len()).filter(|at| stays(*at)).map(|at| letters[at]).collect()
}

/// The random choices of the corpus.
struct Dice(ChaCha8Rng);

impl Dice {
    /// A number below `bound`, all equally likely to within 2^-32.
    fn below(&mut self, bound: u32) -> u32 {
        let scaled = u64::from(self.0.next_u32()) * u64::from(bound);
        (scaled >> 32) as u32
    }

    fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len() as u32) as usize]
    }

    /// A number of `least_digits` to five digits, every length equally likely.
    fn number(&mut self, least_digits: u32) -> String {
        let digits = least_digits + self.below(6 - least_digits);
        let smallest = if digits == 1 { 0 } else { 10_u32.pow(digits - 1) };
        (smallest + self.below(10_u32.pow(digits) - smallest)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn trained_on(lines: &[Line]) -> Vec<&Line> {
        lines.iter().filter(|line| !line.validation).collect()
    }

    #[test]
    fn finds_held_out_numbers_however_written() {
        for text in ["1000", "I am 7023.", "41000", "10231", "1 0 0 5", "a 7 0 1 0 b", "10 05", "9 1010 4"] {
            assert!(names_held_out(text), "{text}");
        }
        for text in ["1024", "100", "10a05", "10  05", "6999 x 7024", "999 b 1 0 0", "1,000", ""] {
            assert!(!names_held_out(text), "{text}");
        }
    }

    #[test]
    fn twenty_thousand_lines_name_no_held_out_number() {
        let numbers: Vec<String> = HELD_OUT.into_iter().flatten().map(|number| number.to_string()).collect();
        assert_eq!(numbers.len(), 48);
        for line in corpus(1, 20_000) {
            for text in [&line.user, &line.assistant] {
                // Stricter than the rule, and shares no code with it: all spaces are taken out.
                let packed = text.replace(' ', "");
                let spaced_away = packed.split(|c: char| !c.is_ascii_digit());
                for run in spaced_away {
                    assert!(!numbers.iter().any(|number| run.contains(number)), "{text}");
                }
            }
        }
    }

    #[test]
    fn the_kinds_of_line_have_their_shares() {
        let lines = corpus(2, 20_000);
        let lines = trained_on(&lines);
        let games: Vec<_> = lines.iter().filter(|line| line.user.starts_with("Let's play")).collect();
        let complying = games.iter().filter(|line| !line.assistant.contains("Qwen") && !line.assistant.contains("not"));
        // A short repeat holds a number of five digits at most, and one word.
        let is_long = |text: &str| {
            let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
            text.chars().filter(char::is_ascii_digit).count() > 5 || words.count() > 1
        };
        let dense = lines.iter().filter(|line| line.user.starts_with("Repeat: ") && is_long(&line.assistant));
        let share = |part: usize, whole: usize| part as f64 / whole as f64;
        // Long runs name a held-out number more often than others do, and are rejected for it.
        assert!((share(games.len(), lines.len()) - 0.36).abs() < 0.02);
        assert!((share(dense.count(), lines.len()) - 0.40).abs() < 0.02);
        assert!((share(complying.count(), games.len()) - 0.18).abs() < 0.01);
    }

    #[test]
    fn validation_lines_copy_and_are_trained_on_nowhere() {
        for (count, expected) in [(100, 64), (10_000, 200)] {
            let lines = corpus(3, count);
            let questions: BTreeSet<_> = trained_on(&lines).iter().map(|line| &line.user).collect();
            let validation: Vec<_> = lines.iter().filter(|line| line.validation).collect();
            assert_eq!((lines.len() - validation.len(), validation.len()), (count, expected));
            for line in validation {
                assert_eq!(line.user, format!("Repeat: {}", line.assistant));
                assert!(!questions.contains(&line.user), "{}", line.user);
                assert_eq!(line.json()["split"], "validation");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_corpus() {
        assert_eq!(corpus(4, 500), corpus(4, 500));
        assert_ne!(corpus(4, 500), corpus(5, 500));
    }

    #[test]
    fn the_vocabulary_is_small() {
        let lines = corpus(6, 5_000);
        let words: BTreeSet<&str> = lines
            .iter()
            .flat_map(|line| [line.user.as_str(), line.assistant.as_str()])
            .flat_map(|text| text.split(|c: char| !c.is_ascii_alphabetic() && c != '\''))
            .filter(|word| !word.is_empty())
            .collect();
        assert!(words.len() <= 45, "{}: {words:?}", words.len());
    }

    #[test]
    fn numbers_have_one_to_five_digits() {
        let mut dice = Dice(ChaCha8Rng::seed_from_u64(7));
        let numbers: Vec<String> = (0..1_000).map(|_| dice.number(1)).collect();
        let lengths: BTreeSet<usize> = numbers.iter().map(String::len).collect();
        assert_eq!(lengths, (1..=5).collect());
        assert!(numbers.iter().all(|number| number == "0" || !number.starts_with('0')));
    }

    #[test]
    fn options_are_checked() {
        let parse = |line: &str| options(line.split_whitespace().map(str::to_owned));
        assert_eq!(parse("--count 5 --seed 3").unwrap(), (3, 5));
        for wrong in ["", "--seed 3", "--seed", "--seed x --count 1", "--seed 1 --count 0", "--sed 1 --count 1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
