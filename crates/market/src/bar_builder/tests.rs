//! Bars of few trades by hand, and of many in any order.

use crate::{BarBuilder, BarRule, BuiltBar, IntervalBar, KEPT_MAX, vwap};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tapedb_schema::{Decimal64, Timestamp};

fn number(text: &str) -> Decimal64 {
    text.parse().unwrap()
}

fn text(built: &BuiltBar) -> String {
    let bar = &built.bar;
    let prices = [bar.open, bar.high, bar.low, bar.close, bar.volume, bar.turnover];
    let texts = prices.map(|price| price.unwrap().to_string()).join(" ");
    format!("{} {texts} {}", built.time.nanos(), bar.trades.unwrap())
}

#[test]
fn bars_end_by_their_rule() {
    let ends = |rule, trades: &[(i64, &str, &str)]| -> Vec<String> {
        let mut bars = BarBuilder::new(rule);
        let trades = trades.iter();
        let mut lines: Vec<String> = trades
            .flat_map(|(time, price, size)| bars.trade(1, Timestamp(*time), number(price), number(size)))
            .map(|bar| text(&bar))
            .collect();
        lines.extend(bars.finish().iter().map(|(symbol, bar)| format!("{symbol}: {}", text(bar))));
        lines
    };
    let trades = [(1, "10", "2"), (3, "9.5", "1"), (12, "11", "4"), (25, "10.25", "2"), (26, "10", "1")];
    let by_time = ends(BarRule::Time(10), &trades);
    let expected =
        ["10 10 10 9.5 9.5 3 29.5 2", "20 11 11 11 11 4 44 1", "1: 30 10.25 10.25 10 10 3 30.50 2"];
    assert_eq!(by_time, expected);
    let by_ticks = ends(BarRule::Ticks(2), &trades);
    let expected = ["3 10 10 9.5 9.5 3 29.5 2", "25 11 11 10.25 10.25 6 64.50 2", "1: 26 10 10 10 10 1 10 1"];
    assert_eq!(by_ticks, expected);
    assert_eq!(ends(BarRule::Volume(number("7")), &trades)[0], "12 10 11 9.5 11 7 73.5 3");
    let by_dollars = ends(BarRule::Dollars(number("29.5")), &trades);
    assert_eq!(by_dollars[..2], [by_ticks[0].clone(), "12 11 11 11 11 4 44 1".into()]);
}

#[test]
fn what_is_no_number_is_refused_and_averages_are_by_volume() {
    let mut bars = BarBuilder::new(BarRule::Time(10));
    for (price, size) in [("NaN", "1"), ("10", "NaN"), ("10", "-1")] {
        assert!(bars.trade(0, Timestamp(1), number(price), number(size)).is_empty());
    }
    assert!(bars.trade(0, Timestamp(1), number("1E300"), number("1E-300")).is_empty());
    assert_eq!(bars.refused(), 3);
    bars.trade(1, Timestamp(1), number("10"), number("1"));
    bars.trade(1, Timestamp(2), number("20"), number("3"));
    assert!(bars.advance(Timestamp(9)).is_empty());
    let ended = bars.advance(Timestamp(10));
    let of_one = ended.iter().find(|(symbol, _)| *symbol == 1).unwrap();
    assert_eq!((vwap(&of_one.1.bar), bars.finish().len()), (Some(17.5), 0));
}

#[test]
fn sums_are_exact_until_they_are_rounded_once() {
    let mut bars = BarBuilder::new(BarRule::Ticks(3));
    for size in ["9999999999999999", "0.5", "0.4"] {
        let built = bars.trade(0, Timestamp(1), number("1"), number(size));
        // 9999999999999999.9 has seventeen digits.
        built.iter().for_each(|built| assert_eq!(built.bar.volume.unwrap().to_f64(), 1e16));
        assert_eq!(built.len(), usize::from(size == "0.4"));
    }
}

#[test]
fn a_trade_that_is_too_late_is_counted() {
    let mut bars = BarBuilder::new(BarRule::Time(10));
    let mut trade = |time| bars.trade(0, Timestamp(time), number("1"), number("1"));
    (1..=KEPT_MAX as i64 + 1).for_each(|bar| drop(trade(bar * 10)));
    assert!(trade(10).is_empty());
    assert!(trade(20)[0].is_correction);
    assert_eq!(bars.too_late(), 1);
}

proptest! {
    /// Trades in any order give the bars of trades in time order, once corrections have taken the places of what they correct.
    #[test]
    fn late_trades_correct_the_bars_they_belong_to(
        trades in prop::collection::vec((0i64..200, 1i64..1_000, 1i64..50), 1..150),
        is_advancing in any::<bool>(),
    ) {
        let build = |trades: &[(i64, i64, i64)]| {
            let (mut bars, mut found) = (BarBuilder::new(BarRule::Time(10)), BTreeMap::new());
            for (time, price, size) in trades {
                if is_advancing {
                    found.extend(bars.advance(Timestamp(*time)).into_iter().map(|(_, built)| (built.time, built.bar)));
                }
                let (price, size) = (Decimal64::from_scaled(*price, 2).unwrap(), Decimal64::from_scaled(*size, 1).unwrap());
                for built in bars.trade(0, Timestamp(*time), price, size) {
                    let before = found.insert(built.time, built.bar);
                    assert_eq!(before.is_some(), built.is_correction);
                }
            }
            found.extend(bars.finish().into_iter().map(|(_, built)| (built.time, built.bar)));
            found
        };
        let mut sorted = trades.clone();
        sorted.sort_by_key(|(time, ..)| *time);
        let texts = |bars: BTreeMap<Timestamp, IntervalBar>| -> Vec<String> {
            bars.into_iter().map(|(time, bar)| text(&BuiltBar { time, bar, is_correction: false })).collect()
        };
        prop_assert_eq!(texts(build(&trades)), texts(build(&sorted)));
    }
}

/// One price out of all proportion is in its bar, and does not keep others out of it, or the bar open for ever.
#[test]
fn sums_of_any_size_take_every_trade() {
    let of = |rule, trades: &[(&str, &str)]| {
        let mut bars = BarBuilder::new(rule);
        let trade = |(price, size): &(&str, &str)| bars.trade(0, Timestamp(1), number(price), number(size));
        let built: Vec<BuiltBar> = trades.iter().flat_map(trade).collect();
        assert_eq!(bars.refused(), 0);
        built
    };
    let bar = of(BarRule::Ticks(4), &[("1E300", "1"), ("10.5", "2"), ("1E-300", "3"), ("-7", "0.5")]);
    assert_eq!(text(&bar[0]), "1 1E300 1E300 -7 -7 6.5 1000000000000000E285 4");
    // Sums that no decimal holds are null, and end a bar all the same.
    for rule in [BarRule::Dollars(number("100")), BarRule::Volume(number("100"))] {
        let bars = of(rule, &[("9E300", "9E300"), ("1", "1")]);
        assert_eq!((bars.len(), bars[0].bar.turnover), (1, None), "{rule:?}");
    }
    let many = vec![("9999999999999999", "9999999999999999"); 4];
    let bar = of(BarRule::Ticks(4), &many);
    assert_eq!(bar[0].bar.turnover.map(|sum| sum.to_string()), Some("3999999999999999E17".into()));
}

proptest! {
    /// Beyond 38 digits, a sum is within one unit of the sixteenth digit.
    #[test]
    fn sums_beyond_what_is_exact_are_near(trades in prop::collection::vec((1i64..10_000_000_000_000_000, -40i32..40), 1..20)) {
        let mut bars = BarBuilder::new(BarRule::Ticks(trades.len() as u64));
        let mut built = Vec::new();
        for (coefficient, exponent) in &trades {
            let size = Decimal64::from_parts(*coefficient, *exponent).unwrap();
            built = bars.trade(0, Timestamp(1), number("1"), size);
        }
        let sum: f64 = trades.iter().map(|(coefficient, exponent)| *coefficient as f64 * 10f64.powi(*exponent)).sum();
        let found = built[0].bar.volume.unwrap().to_f64();
        prop_assert!((found - sum).abs() <= sum * 1e-14, "{found} {sum}");
    }
}
