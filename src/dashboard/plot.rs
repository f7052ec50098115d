//! Plots: drawn here as SVG, so that they are seen without scripts, and drawn anew by a script where one may point at them.

use maud::{Markup, html};
use serde_json::json;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 160.0;
const MARGIN: f64 = 4.0;

/// One line or one row of bars.
pub(super) struct Series<'a> {
    pub name: &'a str,
    /// `None` is unknown, and no zero.
    pub values: Vec<Option<f64>>,
}

/// What a plot shows.
pub(super) struct Plot<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    /// What stands below each value.
    pub labels: Vec<String>,
    /// The same as seconds since 1970, where it is time.
    pub times: Option<Vec<i64>>,
    pub series: Vec<Series<'a>>,
    pub bars: bool,
}

impl Plot<'_> {
    /// The plot, with its numbers as a table below for whoever wants them exactly.
    pub fn draw(&self) -> Markup {
        let known: Vec<f64> = self.series.iter().flat_map(|s| s.values.iter().flatten().copied()).collect();
        if known.is_empty() {
            return super::parts::empty("Nothing to plot yet.");
        }
        let top = known.iter().copied().fold(f64::MIN, f64::max);
        let least = known.iter().copied().fold(f64::MAX, f64::min);
        // Bars begin at nothing; a line of weights would be flat if it did.
        let bottom = if self.bars || least >= 0.0 && least < top * 0.5 { least.min(0.0) } else { least };
        let data = json!({
            "title": self.title, "unit": self.unit, "bars": self.bars, "labels": self.labels, "times": self.times,
            "series": self.series.iter().map(|s| json!({"name": s.name, "values": s.values})).collect::<Vec<_>>(),
        });
        html! {
            figure.plot data-plot=(data.to_string()) {
                figcaption { (self.title) @if !self.unit.is_empty() { " (" (self.unit) ")" } }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.title) preserveAspectRatio="none" {
                    @for (n, series) in self.series.iter().enumerate() {
                        @if self.bars { (self.rects(n, series, bottom, top)) } @else { (self.path(n, series, bottom, top)) }
                    }
                }
                p.range { span { (self.labels.first().map_or("", String::as_str)) }
                    span { (number(bottom)) " to " (number(top)) " " (self.unit) }
                    span { (self.labels.last().map_or("", String::as_str)) } }
            }
            details { summary { "As a table" } (self.table()) }
        }
    }

    fn table(&self) -> Markup {
        html! { div.wide tabindex="0" { table {
            thead { tr { th {} @for series in &self.series { th.num { (series.name) } } } }
            tbody { @for (n, label) in self.labels.iter().enumerate() {
                tr { th scope="row" { (label) }
                    @for series in &self.series {
                        td.num { @match series.values.get(n).copied().flatten() {
                            Some(value) => (number(value)), None => span.dim { "–" } } }
                    } }
            } }
        } } }
    }

    fn x(&self, n: usize) -> f64 {
        let last = self.labels.len().saturating_sub(1).max(1) as f64;
        MARGIN + (WIDTH - 2.0 * MARGIN) * n as f64 / last
    }

    fn path(&self, number: usize, series: &Series, bottom: f64, top: f64) -> Markup {
        let mut path = String::new();
        let mut pen_down = false;
        for (n, value) in series.values.iter().enumerate() {
            let Some(value) = value else {
                pen_down = false;
                continue;
            };
            path.push_str(&format!(
                "{}{:.1} {:.1} ",
                if pen_down { 'L' } else { 'M' },
                self.x(n),
                y(*value, bottom, top)
            ));
            // A point that stands alone is seen as well.
            if !pen_down {
                path.push_str("h0.01 ");
            }
            pen_down = true;
        }
        html! { path class={ "line s" (number % 6) } d=(path) {} }
    }

    fn rects(&self, number: usize, series: &Series, bottom: f64, top: f64) -> Markup {
        let slot = (WIDTH - 2.0 * MARGIN) / self.labels.len().max(1) as f64;
        let width = slot * 0.8 / self.series.len() as f64;
        html! { @for (n, value) in series.values.iter().enumerate() {
            @if let Some(value) = value {
                @let at = y(*value, bottom, top);
                @let zero = y(0.0_f64.clamp(bottom, top), bottom, top);
                rect class={ "bar s" (number % 6) } x=(format!("{:.1}", MARGIN + slot * n as f64 + width * number as f64))
                    y=(format!("{:.1}", at.min(zero))) width=(format!("{width:.1}"))
                    height=(format!("{:.1}", (at - zero).abs())) {}
            }
        } }
    }
}

fn y(value: f64, bottom: f64, top: f64) -> f64 {
    let span = if top > bottom { top - bottom } else { 1.0 };
    HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (value - bottom) / span
}

/// A number without digits that say nothing.
pub(super) fn number(value: f64) -> String {
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stays_a_gap() {
        let plot = Plot {
            title: "Weight",
            unit: "kg",
            labels: vec!["Mon".into(), "Tue".into(), "Wed".into()],
            times: None,
            series: vec![Series { name: "weight", values: vec![Some(80.0), None, Some(81.5)] }],
            bars: false,
        };
        let shown = plot.draw().0;
        assert_eq!(shown.matches(" h0.01 ").count(), 2, "two strokes: {shown}");
        assert!(shown.contains("81.5") && shown.contains("80 to 81.5 kg"), "{shown}");
    }

    #[test]
    fn numbers_say_what_matters() {
        assert_eq!([number(0.0), number(1.5), number(2.0), number(123.4)], ["0", "1.5", "2", "123"]);
    }
}
