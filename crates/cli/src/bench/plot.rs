//! A chart of medians with their spread, as SVG: one line for each way, over how many took part.

use std::fmt::Write;

/// Size of the picture, and room around the chart for what is written there.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Colours that are told apart by those who see few.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// What was measured one way.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// How many took part; then median, smallest and largest value.
    pub points: Vec<(f64, [f64; 3])>,
}

/// A chart. `what` and `unit` say what the values are, `of` what the numbers below count.
pub fn svg(title: &str, (what, unit): (&str, &str), of: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let right_end = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let top_end = rounded_up(points().map(|(_, [_, _, max])| *max).fold(0.0, f64::max));
    let x_of = |x: f64| LEFT + x / right_end * (WIDTH - LEFT - RIGHT);
    let y_of = |y: f64| HEIGHT - BOTTOM - y / top_end * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, (WIDTH / 2.0, 20.0), "middle", title);
    text(&mut out, (LEFT, TOP - 8.0), "middle", unit);
    text(&mut out, ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10.0), "middle", of);
    for step in 0..=4 {
        let value = top_end * f64::from(step) / 4.0;
        let y = y_of(value);
        let _ = writeln!(out, "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
        text(&mut out, (LEFT - 8.0, y + 4.0), "end", &short(value));
    }
    let mut counts: Vec<f64> = points().map(|(x, _)| *x).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    for count in counts {
        text(&mut out, (x_of(count), HEIGHT - BOTTOM + 18.0), "middle", &short(count));
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        draw(&mut out, line, colour, (&x_of, &y_of));
    }
    let _ = writeln!(out, "<desc>{}</desc>\n</svg>", escaped(what));
    out
}

fn draw(out: &mut String, line: &Line, colour: &str, (x_of, y_of): (&impl Fn(f64) -> f64, &impl Fn(f64) -> f64)) {
    let place = |(x, [median, ..]): &(f64, [f64; 3])| format!("{:.1},{:.1}", x_of(*x), y_of(*median));
    let places: Vec<String> = line.points.iter().map(place).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        places.join(" ")
    );
    for (x, [median, min, max]) in &line.points {
        let (x, y) = (x_of(*x), y_of(*median));
        let (low, high) = (y_of(*min), y_of(*max));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" stroke=\"{colour}\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"
        );
    }
    if let Some((x, [median, ..])) = line.points.last() {
        let _ = write!(out, "<g fill=\"{colour}\">");
        text(out, (x_of(*x) + 8.0, y_of(*median) + 4.0), "start", &line.name);
        let _ = writeln!(out, "</g>");
    }
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The next of 1, 2, 4, 5, 8 and their multiples by powers of ten.
fn rounded_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(10.0 * power)
}

/// `2.5M` and the like.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.1}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_lines_and_words() {
        let line = |name: &str, scale: f64| Line {
            name: name.into(),
            points: [1.0, 4.0].map(|x| (x, [scale * x, scale * x * 0.9, scale * x * 1.2])).to_vec(),
        };
        let chart = svg("Reading <fast>", ("rate", "messages/s"), "consumers", &[line("tcp", 1e6), line("uds", 2e6)]);
        assert_eq!(chart.matches("<polyline").count(), 2);
        for word in ["Reading &lt;fast&gt;", "messages/s", "consumers", "tcp", "uds", ">10M<", ">4<"] {
            assert!(chart.contains(word), "{word}: {chart}");
        }
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.0, 0.9, 1.1, 9.5, 41e6].map(rounded_up), [1.0, 0.9_f64.max(1.0), 2.0, 10.0, 50e6]);
        assert_eq!([0.0, 2.5e6, 1500.0, 3.0].map(short), ["0", "2.5M", "1.5k", "3"]);
    }
}
