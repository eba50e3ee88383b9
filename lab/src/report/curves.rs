//! Curves over a run's updates, as an SVG picture.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// One line of a picture.
pub struct Curve {
    /// What its legend says.
    pub name: String,
    /// Update and value, at least one, in the order of updates.
    pub points: Vec<(f64, f64)>,
}

/// Width and height of a picture, in pixels.
const SIZE: (u32, u32) = (720, 360);

/// Colours that stay apart for the colour-blind and in grey, dark on white (Okabe and Ito 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// The picture of all `curves`, `title` above them and the updates below.
pub fn svg(title: &str, curves: &[Curve]) -> Result<String> {
    let mut picture = String::new();
    draw(&mut picture, title, curves).map_err(|error| anyhow!("cannot draw {title}: {error}"))?;
    Ok(picture)
}

fn draw(picture: &mut String, title: &str, curves: &[Curve]) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(picture, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (x, y) = (range(curves, |point| point.0, 0.0), range(curves, |point| point.1, 0.05));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    chart
        .configure_mesh()
        .x_desc("update")
        .x_label_formatter(&ToString::to_string)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?
            .label(&curve.name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(curve.points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    Ok(())
}

/// From the least to the greatest of what `part` takes of the points, and `margin` of that beyond each; never empty.
fn range(curves: &[Curve], part: impl Fn(&(f64, f64)) -> f64, margin: f64) -> (f64, f64) {
    let values = || curves.iter().flat_map(|curve| &curve.points).map(&part);
    let (least, greatest) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let width = if greatest > least { greatest - least } else { 1.0 };
    (least - margin * width, least + width + margin * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve { name: name.to_owned(), points: points.to_vec() }
    }

    #[test]
    fn a_picture_has_a_line_and_a_name_for_each_run() {
        let curves = [curve("seed-1", &[(0.0, -0.5), (1.0, 1.0)]), curve("seed-2", &[(0.0, 0.25)])];
        let picture = svg("reward", &curves).unwrap();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture}");
        assert_eq!(picture.matches("<circle").count(), 3);
        for text in ["seed-1", "seed-2", "reward", "update"] {
            assert!(picture.contains(&format!("{text}\n</text>")), "{text}: {picture}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place_in_the_picture() {
        let picture = svg("<script>", &[curve("<b onload=x>&", &[(0.0, 0.0)])]).unwrap();
        assert!(!picture.contains("<script>") && !picture.contains("<b onload"), "{picture}");
    }

    #[test]
    fn a_range_holds_every_value_and_is_never_empty() {
        let curves = [curve("a", &[(0.0, 2.0), (4.0, -2.0)]), curve("b", &[(1.0, 0.0)])];
        assert_eq!(range(&curves, |point| point.0, 0.0), (0.0, 4.0));
        assert_eq!(range(&curves, |point| point.1, 0.25), (-3.0, 3.0));
        assert_eq!(range(&[curve("c", &[(3.0, 7.0)])], |point| point.1, 0.0), (7.0, 8.0));
    }
}
