//! Parallel coordinates of a sweep, as an SVG picture: an axis for each key, a line for each arm, its colour the score.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use super::html::escape;
use crate::sweep::results::{ArmResult, Spread};

/// Height of the picture, in pixels.
const HEIGHT: f64 = 360.0;
/// Pixels between two axes.
const BETWEEN: f64 = 180.0;
/// Pixels around them.
const MARGIN: (f64, f64) = (110.0, 48.0);
/// Greatest quotient of an axis' numbers that is still shown in equal steps; beyond it the axis is logarithmic.
const LINEAR: f64 = 20.0;
/// Colours of the worst score and of the best, apart in grey as well.
const COLOURS: [[f64; 3]; 2] = [[190.0, 215.0, 235.0], [3.0, 60.0, 115.0]];

/// An axis: its title, and for each arm where it crosses, from 0 at the bottom to 1 at the top, with what stands there.
struct Axis {
    title: String,
    places: Vec<Option<(f64, String)>>,
}

/// The picture of the arms that have a score; none without two of them.
pub fn svg(keys: &[String], arms: &[ArmResult]) -> Result<Option<String>> {
    let held_out = arms.iter().any(|arm| arm.held_out.is_some());
    let score = |arm: &ArmResult| if held_out { arm.held_out } else { arm.reward };
    let scored: Vec<(&ArmResult, Spread)> = arms.iter().filter_map(|arm| Some((arm, score(arm)?))).collect();
    if scored.len() < 2 || keys.is_empty() {
        return Ok(None);
    }
    let of_key = |key: &String| {
        let values: Vec<Option<&Value>> = scored.iter().map(|(arm, _)| arm.keys.get(key)).collect();
        Axis { title: key.clone(), places: places(&values) }
    };
    let mut axes: Vec<Axis> = keys.iter().map(of_key).collect();
    let means: Vec<Value> = scored.iter().map(|(_, score)| score.mean.into()).collect();
    let title = if held_out { "held-out score" } else { "training reward" };
    axes.push(Axis { title: title.to_owned(), places: linear(&means) });
    let merits: Vec<f64> = scored.iter().map(|(_, score)| score.merit).collect();
    let names: Vec<&str> = scored.iter().map(|(arm, _)| arm.arm.as_str()).collect();
    draw(&axes, &names, &merits).map(Some)
}

/// Numbers have their places by size, anything else by the order in which it is told; no value has none.
fn places(values: &[Option<&Value>]) -> Vec<Option<(f64, String)>> {
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.and_then(Value::as_f64)).collect();
    if let Some(numbers) = numbers {
        let (least, greatest) = ends(&numbers);
        let scale = |number: f64| if least > 0.0 && greatest / least > LINEAR { number.ln() } else { number };
        let (low, high) = (scale(least), scale(greatest));
        return numbers.iter().map(|number| Some((share(scale(*number), low, high), number.to_string()))).collect();
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut known: Vec<String> = Vec::new();
    for value in values.iter().flatten().map(|value| text(value)) {
        if !known.contains(&value) {
            known.push(value);
        }
    }
    let place = |value: &Value| {
        let text = text(value);
        let at = known.iter().position(|one| *one == text).unwrap_or_default();
        (share(at as f64, 0.0, known.len().saturating_sub(1) as f64), text)
    };
    values.iter().map(|value| value.map(place)).collect()
}

fn linear(values: &[Value]) -> Vec<Option<(f64, String)>> {
    let numbers: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
    let (least, greatest) = ends(&numbers);
    numbers.iter().map(|number| Some((share(*number, least, greatest), format!("{number:+.3}")))).collect()
}

fn ends(numbers: &[f64]) -> (f64, f64) {
    let fold = |start: f64, pick: fn(f64, f64) -> f64| numbers.iter().copied().fold(start, pick);
    (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
}

/// Where `number` is between two others; in the middle if they are one.
fn share(number: f64, low: f64, high: f64) -> f64 {
    if high > low { (number - low) / (high - low) } else { 0.5 }
}

fn draw(axes: &[Axis], names: &[&str], merits: &[f64]) -> Result<String> {
    let (margin_x, margin_y) = MARGIN;
    let width = 2.0 * margin_x + BETWEEN * (axes.len() - 1) as f64;
    let x = |axis: usize| margin_x + BETWEEN * axis as f64;
    let y = |place: f64| HEIGHT - margin_y - place * (HEIGHT - 2.0 * margin_y);
    let mut out = String::new();
    writeln!(
        out,
        "<svg width=\"{width}\" height=\"{HEIGHT}\" viewBox=\"0 0 {width} {HEIGHT}\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    )?;
    let (worst, best) = ends(merits);
    // The best on top of the others.
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|one, other| merits[*one].total_cmp(&merits[*other]));
    for arm in order {
        let points: Vec<String> = axes
            .iter()
            .enumerate()
            .filter_map(|(index, axis)| {
                axis.places[arm].as_ref().map(|(place, _)| format!("{},{:.1}", x(index), y(*place)))
            })
            .collect();
        let colour = colour(share(merits[arm], worst, best));
        writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"><title>{}</title></polyline>",
            points.join(" "),
            escape(names[arm])
        )?;
    }
    for (index, axis) in axes.iter().enumerate() {
        let x = x(index);
        writeln!(out, "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\" stroke=\"#444\"/>", y(0.0), y(1.0))?;
        writeln!(out, "<text x=\"{x}\" y=\"20\" text-anchor=\"middle\">{}</text>", escape(&axis.title))?;
        let mut written: Vec<&(f64, String)> = Vec::new();
        for place in axis.places.iter().flatten() {
            // What would stand on another is left out.
            if written.iter().all(|other| (other.0 - place.0).abs() > 0.05) {
                writeln!(out, "<text x=\"{}\" y=\"{:.1}\">{}</text>", x + 5.0, y(place.0) + 4.0, escape(&place.1))?;
                written.push(place);
            }
        }
    }
    out.push_str("</svg>\n");
    Ok(out)
}

/// From the worst, 0, to the best, 1.
fn colour(share: f64) -> String {
    let part =
        |index: usize| (COLOURS[0][index] + share.clamp(0.0, 1.0) * (COLOURS[1][index] - COLOURS[0][index])) as u8;
    format!("rgb({},{},{})", part(0), part(1), part(2))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sweep::results::State;

    fn arm(name: &str, keys: Value, score: Option<f64>) -> ArmResult {
        ArmResult {
            arm: name.to_owned(),
            keys: keys.as_object().unwrap().clone(),
            state: State::Ended,
            held_out: score.map(|mean| Spread { mean, least: mean, greatest: mean, merit: mean }),
            reward: None,
            minutes: 0.0,
            tokens: 0,
            error: None,
            runs: Vec::new(),
        }
    }

    #[test]
    fn every_key_is_an_axis_and_every_arm_a_line_of_its_scores_colour() {
        let keys = ["trainer.learning_rate".to_owned(), "trainer.loss".to_owned()];
        let arms = [
            arm("a", json!({ "trainer.learning_rate": 1e-4, "trainer.loss": "ppo" }), Some(-0.5)),
            arm("b", json!({ "trainer.learning_rate": 1e-2, "trainer.loss": "<b>" }), Some(1.0)),
            arm("c", json!({ "trainer.learning_rate": 1e-3 }), None),
        ];
        let picture = svg(&keys, &arms).unwrap().unwrap();
        assert_eq!((picture.matches("<polyline").count(), picture.matches("<line").count()), (2, 3));
        assert!(picture.contains("rgb(190,215,235)") && picture.contains("rgb(3,60,115)"), "{picture}");
        for text in ["trainer.learning_rate", "held-out score", ">ppo<", "&lt;b&gt;", ">+1.000<", ">0.0001<"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
        assert!(svg(&keys, &arms[1..]).unwrap().is_none(), "one line compares nothing");
    }

    #[test]
    fn what_spans_orders_of_magnitude_is_logarithmic() {
        let at = |numbers: &[f64]| -> Vec<f64> {
            let values: Vec<Value> = numbers.iter().map(|number| json!(number)).collect();
            places(&values.iter().map(Some).collect::<Vec<_>>()).into_iter().map(|place| place.unwrap().0).collect()
        };
        assert_eq!(at(&[1.0, 2.0, 3.0]), [0.0, 0.5, 1.0]);
        assert!((at(&[1e-4, 1e-3, 1e-2])[1] - 0.5).abs() < 1e-9);
        assert_eq!(at(&[3.0, 3.0]), [0.5, 0.5]);
    }
}
