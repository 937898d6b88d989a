//! `tapedb topic`, with a publisher beside it.

use crate::support::{Place, end, no_input, signal};
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use tapedb_schema::Timestamp;
use tapedb_topic::{Folder, Publisher, Topic};

const SCHEMA: &str = "message Tick { price: decimal64, size: u32? }";

fn send(publisher: &mut Publisher, topic: &Topic, messages: std::ops::Range<u64>) {
    for number in messages {
        let json = format!(r#"{{"$type": "Tick", "price": "{number}.5"}}"#);
        let tick = topic.layouts().from_json(&json).unwrap();
        let symbol = ["A", "B"][number as usize % 2];
        publisher.publish_value(symbol, Timestamp(number as i64), &tick).unwrap().sequence().unwrap();
    }
}

#[test]
fn a_topic_is_created_seen_copied_and_deleted() {
    let place = Place::new();
    fs::write(place.path("ticks.schema"), SCHEMA).unwrap();
    let (folder, schema) = (place.path("topics"), place.path("ticks.schema"));
    let topic = |what: &str| format!("topic {what} --folder {}", folder.display());
    let plain = |line: String| crate::support::Run::plain(&line);
    let create = format!("{} --schema {} --ring 64KiB", topic("create ticks"), schema.display());
    assert!(plain(create.clone()).good().contains("created topic \"ticks\""));
    assert!(plain(create).bad(1).contains("already"));

    let opened = Topic::open(&Folder::at(&folder), "ticks").unwrap();
    let mut publisher = opened.publisher().unwrap();
    send(&mut publisher, &opened, 0..100);
    let listed = plain(topic("list") + " --json").json().remove(0);
    assert_eq!((listed["name"].as_str(), listed["messages"].as_u64()), (Some("ticks"), Some(100)));
    let tailed = plain(topic("tail ticks") + " --oldest --symbols B --limit 3 --json").json();
    let prices: Vec<_> = tailed.iter().map(|message| message["price"].as_str().unwrap_or_default()).collect();
    assert_eq!(prices, ["1.5", "3.5", "5.5"]);
    let line = plain(topic("tail ticks") + " --oldest --limit 1").good();
    assert!(line.ends_with(" A Tick price=0.5\n"), "{line}");
    let stat = plain(topic("stat ticks") + " --json").json().remove(0);
    assert_eq!(stat["publishers"][0]["messages"].as_u64(), Some(100), "{stat}");
    assert!(plain(topic("stat ticks") + " --every 1ms --times 2").good().contains("messages/s"));

    let copying = place.start(&mut place.command(&(topic("copy ticks") + " --json")));
    while opened.stats().subscribers.is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    send(&mut publisher, &opened, 100..300);
    while opened.stats().subscribers.iter().any(|subscriber| subscriber.behind > 0) {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&copying, "INT");
    let copied = end(copying);
    assert!(copied.code == 130 && copied.out.contains(r#""copied":300"#), "{} {}", copied.out, copied.err);
    assert_eq!(place.messages("ticks"), 300);

    // The copied messages are published again.
    drop(publisher);
    fs::write(place.path("ticks.jsonl"), place.run("read ticks --last 5 --output json").good()).unwrap();
    let lines = place.path("ticks.jsonl");
    let published = plain(format!("{} {} --json", topic("publish ticks"), lines.display())).json().remove(0);
    assert_eq!(published["messages"], 5, "{published}");
    assert_eq!(opened.stats().next_sequence, 305);
    fs::write(&lines, "{\"symbol\": \"A\"}\n").unwrap();
    let refused = plain(format!("{} {}", topic("publish ticks"), lines.display())).bad(1);
    assert!(refused.contains("line 1 of"), "{refused}");

    assert!(plain(topic("delete ticks")).bad(1).contains("--yes"));
    let watching = opened.stats().subscribers.len();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tapedb"));
    let line = topic("tail ticks");
    command.args(line.split_whitespace()).stdin(no_input()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut tail = command.spawn().unwrap();
    while opened.stats().subscribers.len() == watching {
        assert!(tail.try_wait().unwrap().is_none(), "it has ended before the topic has");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(plain(topic("delete ticks") + " --yes").good().contains("deleted"));
    assert!(plain(topic("stat ticks")).bad(1).contains("there is no topic"));
    let ended = tail.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && error.contains("ticks"), "{error}");
}
