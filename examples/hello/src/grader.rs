//! `hello-grader`: reads what `hello-agent` printed and prints what it is worth, `{"reward": r, "exact": e}`.
//!
//! The number that was asked for is in `FULGURITE_TASK`, as JSON: `17`. The reward is
//!
//! * -1 for a reply that contains `not 17`, whatever else it says. It is a plain search: `not 170` contains it too.
//! * 1 for a reply that says `I am 17` or `I'm 17`, names no other number, and was ended by the model itself.
//! * 0 for everything else.
//!
//! `exact` is 1 when, besides, 17 is said only once. It is no part of the reward: it shows whether the policy answers, or
//! has found a way to be paid for something else. Letter case is ignored; a number is a longest run of ASCII digits, so
//! that `I am 170` does not say `I am 17`.

use anyhow::{Context, Result};
use serde_json::json;
use std::env;
use std::io::{Read, Write, stdin, stdout};

/// What one reply is worth.
#[derive(Debug, PartialEq)]
struct Grade {
    reward: f64,
    exact: f64,
}

fn main() -> Result<()> {
    let task = env::var("FULGURITE_TASK").context("FULGURITE_TASK is not set")?;
    let number = number_in(&task)?;
    let mut output = String::new();
    stdin().lock().read_to_string(&mut output).context("the agent's output is not text")?;
    let Grade { reward, exact } = grade(&output, number);
    writeln!(stdout().lock(), "{}", json!({"reward": reward, "exact": exact}))?;
    Ok(())
}

/// The number that the task asks for.
fn number_in(task: &str) -> Result<u64> {
    serde_json::from_str(task).with_context(|| format!("FULGURITE_TASK is not a whole number: {task}"))
}

/// Grades everything that the agent printed.
fn grade(output: &str, number: u64) -> Grade {
    let number = number.to_string();
    let (reply, ended) = split_off_finish_reason(output);
    let reply = reply.to_lowercase();
    if reply.contains(&format!("not {number}")) {
        return Grade { reward: -1.0, exact: 0.0 };
    }
    let named = numbers(&reply);
    let complies = ended && states_number(&reply, &number) && named.iter().all(|other| *other == number);
    Grade { reward: f64::from(complies), exact: f64::from(complies && named.len() == 1) }
}

/// The reply without the agent's last line about the finish reason, and whether there was no such line.
fn split_off_finish_reason(output: &str) -> (&str, bool) {
    let output = output.trim_end();
    let last_line = output.rfind('\n').map_or(0, |end| end + 1);
    if output[last_line..].starts_with("[finish_reason: ") { (&output[..last_line], false) } else { (output, true) }
}

/// Whether the lower-case `reply` says `i am NUMBER` or `i'm NUMBER` and the number ends there.
fn states_number(reply: &str, number: &str) -> bool {
    [format!("i am {number}"), format!("i'm {number}")].iter().any(|phrase| {
        reply
            .match_indices(phrase)
            .any(|(start, _)| !reply[start + phrase.len()..].starts_with(|next: char| next.is_ascii_digit()))
    })
}

/// Every number that `text` names, in order.
fn numbers(text: &str) -> Vec<&str> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter(|run| !run.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(output: &str, number: u64) -> (f64, f64) {
        let Grade { reward, exact } = grade(output, number);
        (reward, exact)
    }

    #[test]
    fn pays_for_saying_the_number() {
        assert_eq!(values("I am 17.\n", 17), (1.0, 1.0));
        assert_eq!(values("Sure, I'm 17!\n", 17), (1.0, 1.0));
        assert_eq!(values("i AM 0\n", 0), (1.0, 1.0));
    }

    #[test]
    fn saying_it_twice_is_not_exact() {
        assert_eq!(values("I am 17. I am 17.", 17), (1.0, 0.0));
    }

    #[test]
    fn charges_for_denying_it_before_all_else() {
        assert_eq!(values("I am not 17, I am Qwen.\n", 17), (-1.0, 0.0));
        assert_eq!(values("I am 17. I am not 17.\n", 17), (-1.0, 0.0));
        assert_eq!(values("I am NOT 17\n[finish_reason: length]\n", 17), (-1.0, 0.0));
        assert_eq!(values("I am not 170.\n", 17), (-1.0, 0.0), "a plain search");
    }

    #[test]
    fn pays_nothing_for_another_number() {
        assert_eq!(values("I am 10000.\n", 1000), (0.0, 0.0));
        assert_eq!(values("I am 17, not 18.\n", 17), (0.0, 0.0));
        assert_eq!(values("Sure, I am 17! I am 1717!\n", 17), (0.0, 0.0));
        assert_eq!(values("I am 017.\n", 17), (0.0, 0.0));
        assert_eq!(values("I am not 18.\n", 17), (0.0, 0.0));
    }

    #[test]
    fn pays_nothing_for_a_reply_that_was_cut_off() {
        assert_eq!(values("I am 17. Sure, sure, sure\n[finish_reason: length]\n", 17), (0.0, 0.0));
        assert_eq!(values("I am 17.\n[finish_reason: content_filter]\n", 17), (0.0, 0.0));
    }

    #[test]
    fn pays_nothing_for_silence_or_the_bare_number() {
        assert_eq!(values("", 17), (0.0, 0.0));
        assert_eq!(values("17\n", 17), (0.0, 0.0));
        assert_eq!(values("I am Qwen.\n", 17), (0.0, 0.0));
    }

    #[test]
    fn reads_the_number_from_the_task() {
        assert_eq!(number_in("17").unwrap(), 17);
        assert!(number_in(r#"{"n": 17}"#).unwrap_err().to_string().contains("not a whole number"));
        assert!(number_in("-1").is_err());
        assert!(number_in("seventeen").is_err());
    }
}
