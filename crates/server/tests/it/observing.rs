//! Metrics and status: every metric is documented, the dashboard shows only existing metrics, and the status contains
//! only what the user may see.

use crate::session::{pushed, watch};
use crate::support::{Client, Served, batch, serve_with, user};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::Duration;
use tapedb_access::{May, User};
use tapedb_engine::{Command, Durability, Retention, StreamOptions};
use tapedb_wire::{Login, Rest, ToClient, ToServer};

const PAGE: &str = include_str!("../../../../docs/SERVER.md");
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/operations.json");
/// Metrics of a component in another crate.
const COMPONENT: &str = "topic_copy_";
const ALL: [May; 4] = [May::Read, May::Write, May::Create, May::Admin];

/// A server with two streams, one of which was loaded while it was watched; the two clients, and the number of batches
/// of three messages until one was pushed by the appending thread.
fn busy() -> (Served, [Client<TcpStream>; 2], u64) {
    let users: [User; 2] = [user("ann", "*", &ALL), user("bob", "pub*", &[May::Read])];
    let served = serve_with(&users, |_| {});
    let mut ann = served.client_as(Login::Token("tape_ann"));
    let retention = Retention { age: Some(Duration::from_secs(60)), bytes: Some(1 << 30) };
    let options = StreamOptions { durability: Durability::Sync, retention, ..StreamOptions::default() };
    ann.create("secret", StreamOptions::default()).unwrap();
    let stream_id = ann.create("public", options).unwrap();
    ann.add_symbols(stream_id, &["A"]).unwrap();
    let mut bob = served.client_as(Login::Token("tape_bob"));
    bob.describe("public").unwrap();
    let watching = watch(&mut bob, stream_id, 1 << 20, 0);
    let load = ann.answer_channel(&ToServer::Load { stream_id, space: 0, producer: 7 });
    for number in 1.. {
        ann.send(load, &ToServer::Append { number, batch: Rest(&batch(7, 3)) });
        ann.send(load, &ToServer::Flush {});
        ann.receive(|_, message| assert!(matches!(message, ToClient::Appended { .. }), "{message:?}"));
        pushed(&mut bob, watching);
        if served.metric("tapedb_delivery_seconds_count") > 0 {
            return (served, [ann, bob], number);
        }
    }
    unreachable!("numbers do not end")
}

impl Client<TcpStream> {
    /// Begins a watch or load, and receives the first answer.
    fn answer_channel(&mut self, message: &ToServer<'_>) -> u32 {
        let asked = self.ask(message);
        self.receive(|channel, message| {
            assert!(channel == asked && !matches!(message, ToClient::Failed { .. }), "{message:?}");
        });
        asked
    }

    fn status(&mut self) -> Value {
        let outcome = self.command(&Command::ServerStatus).unwrap();
        serde_json::from_str(&outcome.texts[0]).unwrap()
    }
}

/// Names of metrics without `tapedb_`; of histograms without suffixes.
fn exported(served: &Served) -> BTreeSet<String> {
    let page = served.page("/metrics");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE tapedb_"));
    types.map(|line| line.split(' ').next().unwrap().to_string()).collect()
}

/// Names in the page's table.
fn documented() -> BTreeSet<String> {
    let (_, section) = PAGE.split_once("## Health and metrics").unwrap();
    let rows =
        section.lines().take_while(|line| !line.starts_with("### ")).filter(|line| line.starts_with("| `"));
    let first = rows.map(|row| row.split(" | ").next().unwrap());
    let quoted = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.map(|name| name.split('{').next().unwrap().to_string()).collect()
}

#[test]
fn the_page_lists_exactly_the_metrics() {
    let (served, ..) = busy();
    let documented: BTreeSet<String> =
        documented().into_iter().filter(|name| !name.starts_with(COMPONENT)).collect();
    assert!(documented.len() > 40);
    assert_eq!(exported(&served), documented);
}

#[test]
fn the_dashboard_shows_existing_metrics() {
    let (served, ..) = busy();
    let known: BTreeSet<String> = exported(&served)
        .into_iter()
        .chain(documented().into_iter().filter(|name| name.starts_with(COMPONENT)))
        .collect();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let reason = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            shown.extend(reason.filter_map(|word| word.strip_prefix("tapedb_")).map(str::to_string));
        }
    }
    assert!(shown.len() > 25, "{shown:?}");
    for name in shown {
        let plain =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        assert!(
            known.contains(plain) || known.contains(&name),
            "the dashboard shows {name}, which is no metric"
        );
    }
}

#[test]
fn traffic_is_counted_by_stream_and_by_client() {
    let (served, clients, batches) = busy();
    let (page, messages) = (served.page("/metrics"), (3 * batches).to_string());
    for line in [
        &format!("tapedb_appends_total {batches}"),
        &format!("tapedb_append_messages_total {messages}"),
        &format!("tapedb_push_messages_total {messages}"),
        &format!("tapedb_stream_appended_messages_total{{stream=\"public\"}} {messages}"),
        &format!("tapedb_stream_delivered_messages_total{{stream=\"public\"}} {messages}"),
        &format!("tapedb_stream_messages{{stream=\"public\"}} {messages}"),
        "tapedb_stream_messages{stream=\"secret\"} 0",
        "tapedb_stream_watches{stream=\"public\"} 1",
        "tapedb_watch_lag_messages_max{stream=\"public\"} 0",
        "tapedb_stream_retention_seconds{stream=\"public\"} 60",
        "tapedb_append_seconds_count{durability=\"async\"} 0",
        "tapedb_delivery_seconds_count 1",
        "tapedb_delivery_seconds_bucket{le=\"+Inf\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{page} lacks {line}");
    }
    let measured =
        page.lines().find_map(|line| line.strip_prefix("tapedb_append_seconds_count{durability=\"sync\"} "));
    assert!((1..=batches).contains(&measured.unwrap().parse().unwrap()), "{measured:?}");
    let of = |name: &str, user: &str| {
        let start = format!("tapedb_connection_{name}{{connection=\"");
        let mut lines = page.lines().filter(|line| line.starts_with(&start));
        lines
            .find(|line| line.contains(&format!("user=\"{user}\"")))
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .to_string()
    };
    let both = |user: &str| [of("appended_messages_total", user), of("delivered_messages_total", user)];
    assert_eq!((both("ann"), both("bob")), ([messages.clone(), "0".into()], ["0".into(), messages.clone()]));
    // Disconnected clients stay in the sums.
    drop(clients);
    served.wait_until("the clients are disconnected", |served| served.metric("tapedb_connections") == 0);
    assert_eq!(served.metric("tapedb_append_messages_total"), 3 * batches);
    assert_eq!(served.metric("tapedb_stream_delivered_messages_total"), 3 * batches);
    served.server().database().delete_stream("public").unwrap();
    let page = served.page("/metrics");
    let others = format!("tapedb_stream_appended_messages_total{{stream=\"(other)\"}} {messages}\n");
    assert!(page.contains(&others), "{page}");
}

#[test]
fn the_status_contains_what_the_user_may_see() {
    let (served, [mut ann, mut bob], batches) = busy();
    let names = |status: &Value, what: &str, name: &str| -> Vec<String> {
        let rows = status[what].as_array().unwrap();
        rows.iter().map(|row| row[name].as_str().unwrap().to_string()).collect()
    };
    let all = ann.status();
    assert_eq!(names(&all, "streams", "name"), ["public", "secret"]);
    assert_eq!(names(&all, "clients", "user"), ["ann", "bob"]);
    assert_eq!(
        (&all["status"], &all["streams"][0]["appended"]["messages"]),
        (&"ok".into(), &(3 * batches).into())
    );
    assert!(
        all["append"]["sync"]["count"].as_u64() >= Some(1) && all["clients"][0]["program"] == "test 1.0",
        "{all}"
    );
    // The disk of the machine may be nearly full.
    let is_of_server = |warning: &&Value| !warning.as_str().unwrap().contains("bytes are free on the disk");
    assert_eq!(all["warnings"].as_array().unwrap().iter().find(is_of_server), None, "{all}");
    let some = bob.status();
    assert_eq!(names(&some, "streams", "name"), ["public"]);
    assert_eq!(names(&some, "clients", "user"), ["bob"]);
    assert!(!some.to_string().contains("secret") && !some.to_string().contains("ann"), "{some}");
    let page = served.page("/status");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("application/json"), "{head}");
    assert_eq!(names(&serde_json::from_str(body).unwrap(), "clients", "user"), ["ann", "bob"]);
}
