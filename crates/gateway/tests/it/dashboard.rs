//! The dashboard of market data: it is well formed, and its queries are answered.

use crate::fixture::Gateway;
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../../packaging/grafana/market.json");

/// A query as Grafana sends it.
fn sent(text: &str) -> String {
    let range = "time BETWEEN '2024-01-02T14:30:00Z' AND '2024-01-02T14:30:10Z'";
    let text = text.replace("$__timeFilter(time)", range).replace("$__interval", "1s");
    text.replace("$table", "\"ticks\".\"Trade\"").replace("$symbol", "AAPL")
}

#[test]
fn queries_of_the_dashboard_have_rows() {
    let gateway = Gateway::start();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut raw = gateway.session("anyone");
    let mut asked = |text: &str| {
        let text = sent(text);
        assert!(!text.contains('$'), "{text}");
        let rows = raw.query(&text);
        assert!(rows.as_ref().is_ok_and(|rows| *rows > 0), "{rows:?}: {text}");
    };
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            assert!(matches!(target["format"].as_str(), Some("time_series" | "table")), "{panel}");
            asked(target["rawSql"].as_str().unwrap());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            asked(variable["query"].as_str().unwrap());
        }
    }
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has a number of its own");
    for panel in panels {
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24 && place("h") > 0, "{panel}");
    }
}
