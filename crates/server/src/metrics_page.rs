//! The text format of metrics that Prometheus reads.

use std::fmt::{self, Write};

/// A page of metrics in the text format of Prometheus. The prefix `tapedb_` is added to all names.
#[derive(Debug, Default)]
pub struct MetricsPage {
    text: String,
}

impl MetricsPage {
    /// A number that only increases; `_total` is added to its name.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(&format!("{name}_total"), help, "counter");
        self.line(&format!("{name}_total"), &[], value);
    }

    /// A number that only increases and is not an integer; `_total` is added to its name.
    pub fn counter_of(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.head(&format!("{name}_total"), help, "counter");
        self.line(&format!("{name}_total"), &[], value);
    }

    /// A number that increases and decreases.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.head(name, help, "gauge");
        self.line(name, &[], value);
    }

    /// Begins a counter with several values, given by [`line`](Self::line): `_total` is added to its name.
    pub fn counters(&mut self, name: &str, help: &str) {
        self.head(&format!("{name}_total"), help, "counter");
    }

    /// Begins a gauge with several values, given by [`line`](Self::line).
    pub fn gauges(&mut self, name: &str, help: &str) {
        self.head(name, help, "gauge");
    }

    /// Begins a histogram; its lines follow.
    pub(crate) fn histograms(&mut self, name: &str, help: &str) {
        self.head(name, help, "histogram");
    }

    /// One value, with labels.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        let _ = write!(self.text, "tapedb_{name}");
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, Escaped(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// The whole page.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP tapedb_{name} {help}\n# TYPE tapedb_{name} {kind}");
    }
}

/// The escaped value of a label.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut page = MetricsPage::default();
        page.counter("appends", "Batches.", 3);
        page.gauges("lag_messages", "Lag.");
        page.line("lag_messages", &[("stream", "a\"b\\c\n"), ("user", "ann")], 7);
        assert_eq!(
            page.into_text(),
            "# HELP tapedb_appends_total Batches.\n# TYPE tapedb_appends_total counter\ntapedb_appends_total 3\n\
             # HELP tapedb_lag_messages Lag.\n# TYPE tapedb_lag_messages gauge\n\
             tapedb_lag_messages{stream=\"a\\\"b\\\\c\\n\",user=\"ann\"} 7\n"
        );
    }
}
