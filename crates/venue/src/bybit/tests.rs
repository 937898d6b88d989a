use super::*;

fn line(kind: &str, number: u64) -> String {
    format!(
        r#"{{"topic":"orderbook.500.XRPUSDT","type":"{kind}","ts":1733011200691,"data":{{"s":"XRPUSDT","b":[["1.9531","6203"]],"a":[["1.9532","0"]],"u":{number},"seq":9}},"cts":1733011200689}}"#
    )
}

#[test]
fn a_delta_that_is_missing_is_a_gap() {
    let mut archive = Archive::new(Path::new("x/2024-12-01_XRPUSDT_ob500.data"), false);
    let mut types = |kind: &str, number| {
        let mut record = AnyRecord::default();
        assert!(matches!(archive.parse(line(kind, number).as_bytes(), &mut record), Ok(Parsed::Queued)));
        let mut types = Vec::new();
        while let Some(time) = archive.queued(&mut record) {
            assert_eq!(time.nanos(), 1_733_011_200_691_000_000);
            types.push(record.type_name());
        }
        types
    };
    assert_eq!(types("snapshot", 7), ["Package"]);
    assert_eq!(types("delta", 8), ["Package"]);
    assert_eq!(types("delta", 10), ["Gap", "Package"]);
    // The venue began again.
    assert_eq!(types("delta", 1), ["Package"]);
    let mut counters = Counters::default();
    archive.count(&mut counters);
    assert_eq!((counters.checks_passed, counters.checks_failed, counters.gaps), (1, 1, 1));
}

#[test]
fn names_of_archives() {
    assert!(Archive::is_named_so("2024-12-01_XRPUSDT_ob500.data"));
    assert!(Archive::is_named_so("2024-12-01_XRPUSDT_ob500.data.gz"));
    assert!(!Archive::is_named_so("2024-12-01_XRPUSDT_ob.data") && !Archive::is_named_so("x.data"));
}

/// Spot and perpetuals have the same symbols.
#[test]
fn each_market_has_its_own_name() {
    let exchange = |path: &str| Archive::new(Path::new(path), false).out.exchange().unwrap().to_string();
    assert_eq!(exchange("orderbook/spot/XRPUSDT/2024-12-01_XRPUSDT_ob200.data"), "BYBITSPT");
    assert_eq!(exchange("orderbook/linear/XRPUSDT/2024-12-01_XRPUSDT_ob500.data"), "BYBIT");
    let of = |path: &str| Venue::of_url(&format!("wss://stream.bybit.com/v5/public/{path}")).unwrap();
    assert_eq!(
        ["spot", "linear", "inverse", "option"].map(of).map(Venue::exchange),
        ["BYBITSPT", "BYBIT", "BYBIT", "BYBITOPT"]
    );
}
