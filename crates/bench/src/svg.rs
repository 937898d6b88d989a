//! Plots of benchmarks: bars with their spread, as SVG text. The same rows give the same bytes.

use std::fmt::Write;

/// A bar: label, value, and the spread that is drawn across its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The case.
    pub label: String,
    /// Its value.
    pub value: f64,
    /// Where the spread begins.
    pub low: f64,
    /// Where the spread ends.
    pub high: f64,
}

/// Scale of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0.
    Linear,
    /// Logarithmic, in powers of ten.
    Powers,
}

const WIDTH: f64 = 760.0;
const LABELS: f64 = 210.0;
const NUMBERS: f64 = 90.0;
const ROW: f64 = 22.0;
const HEAD: f64 = 44.0;
const FOOT: f64 = 26.0;

/// Draws horizontal bars under a title, which has the unit.
pub fn bars(title: &str, scale: Scale, bars: &[Bar]) -> String {
    let axis = Axis::of(scale, bars);
    let height = HEAD + ROW * bars.len() as f64 + FOOT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    for tick in axis.ticks() {
        let (x, bottom) = (axis.x(tick), height - FOOT);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {HEAD}V{bottom:.1}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\" fill=\"#666\">{}</text>",
            bottom + 16.0,
            number(tick)
        );
    }
    for (row, bar) in bars.iter().enumerate() {
        axis.draw(bar, HEAD + ROW * row as f64, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    fn of(scale: Scale, bars: &[Bar]) -> Self {
        let most = bars.iter().map(|bar| bar.high.max(bar.value)).fold(1.0, f64::max);
        let least = bars.iter().map(|bar| bar.low.min(bar.value)).fold(most, f64::min).max(0.1);
        match scale {
            Scale::Linear => Self { scale, low: 0.0, high: step(most) * (most / step(most)).ceil() },
            Scale::Powers => {
                let (low, high) = (least.log10().floor(), most.log10().ceil());
                Self { scale, low: 10_f64.powf(low), high: 10_f64.powf(high.max(low + 1.0)) }
            }
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.high,
            Scale::Powers => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        LABELS + share * (WIDTH - LABELS - NUMBERS)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high);
                (0..=(self.high / step).round() as u32).map(|i| f64::from(i) * step).collect()
            }
            Scale::Powers => {
                let count = (self.high / self.low).log10().round() as i32;
                (0..=count).map(|i| self.low * 10_f64.powi(i)).collect()
            }
        }
    }

    fn draw(&self, bar: &Bar, top: f64, svg: &mut String) {
        let (left, end, middle) = (LABELS, self.x(bar.value), top + ROW / 2.0);
        let (low, high) = (self.x(bar.low), self.x(bar.high));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect x=\"{left}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\" fill=\"#4878a8\"/><path d=\"M{low:.1} {middle:.1}H{high:.1}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 8.0,
            middle + 4.0,
            escaped(&bar.label),
            top + 4.0,
            end - left,
            ROW - 8.0,
            end.max(high) + 6.0,
            middle + 4.0,
            number(bar.value)
        );
    }
}

/// A round step, so that a scale up to `most` has four to ten of them.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf(most.max(1e-9).log10().floor());
    match most / power {
        x if x > 5.0 => power,
        x if x > 2.0 => power / 2.0,
        _ => power / 5.0,
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        x if x >= 1e6 => format!("{} M", trimmed(value / 1e6)),
        x if x >= 1e3 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar { label: label.into(), value, low: value * 0.9, high: value * 1.2 }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg =
            bars("rate <all>, messages/s", Scale::Linear, &[bar("a", 1e6), bar("b", 2e6), bar("c", 0.0)]);
        let widths: Vec<f64> = svg
            .lines()
            .filter_map(|line| line.split_once("\" width=\"")?.1.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths.len(), 3, "{svg}");
        assert!((widths[1] - 2.0 * widths[0]).abs() < 0.2 && widths[2] == 0.0, "{widths:?}");
        assert!(svg.contains("&lt;all&gt;") && svg.contains(">2 M</text>"));
    }

    #[test]
    fn powers_are_equally_far_apart() {
        let axis = Axis::of(Scale::Powers, &[bar("a", 12.0), bar("b", 900.0)]);
        assert_eq!(axis.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let xs: Vec<f64> = axis.ticks().into_iter().map(|tick| axis.x(tick)).collect();
        assert!(xs.windows(3).all(|x| ((x[1] - x[0]) - (x[2] - x[1])).abs() < 1e-6), "{xs:?}");
    }

    #[test]
    fn steps_are_round() {
        for (most, expected) in [(1.0, 0.2), (12.0, 2.0), (30.0, 5.0), (70.0, 10.0), (1e7, 2e6)] {
            assert!((step(most) - expected).abs() < expected * 1e-9, "{most}");
        }
        assert!(bars("none", Scale::Powers, &[]).ends_with("</svg>\n"));
    }
}
