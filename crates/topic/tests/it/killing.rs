//! Processes are killed and stopped at random: the others go on, and read the right messages. `TOPIC_STORM_SECONDS=n` runs for
//! so long (`make storm`); without it a test ends after some rounds.

use crate::support::*;
use std::collections::HashMap;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tapedb_schema::Timestamp;
use tapedb_topic::{Delivery, Folder, Topic, TopicError, Waiting};

/// Not a test: what the killed processes run.
#[test]
fn child() {
    let Ok(work) = std::env::var("TOPIC_CHILD") else { return };
    let words: Vec<&str> = work.split(' ').collect();
    let topic = Topic::open(&Folder::at(words[1]), "t").unwrap();
    let run = words[2].parse().unwrap();
    match words[0] {
        "publish" => publish(&topic, run),
        _ => subscribe(&topic),
    }
}

/// Publishes without end, one by one and in batches.
fn publish(topic: &Topic, run: u64) {
    let mut publisher = topic.publisher().unwrap();
    let mut number = 0;
    loop {
        let symbol = publisher.symbol(&format!("S{}", number % 50)).unwrap();
        if number % 5 == 0 {
            let mut batch = publisher.batch();
            for _ in 0..4 {
                assert!(batch.push_by_id(symbol, Timestamp(0), &Tick::of(run, number)).unwrap());
                number += 1;
            }
            batch.commit().unwrap().sequence().unwrap();
        } else {
            publisher
                .publish_by_id(symbol, Timestamp(0), &Tick::of(run, number))
                .unwrap()
                .sequence()
                .unwrap();
            number += 1;
        }
    }
}

/// Reads without end.
fn subscribe(topic: &Topic) {
    let mut subscriber = topic.subscriber().waiting(Waiting::Park).open().unwrap();
    let mut seen = Seen::default();
    loop {
        match subscriber.next_within(Duration::from_secs(1)) {
            Ok(Some(message)) => seen.take(&message.decode().unwrap(), true),
            Ok(None) | Err(TopicError::Missed { .. }) => seen = Seen::default(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What has been seen of each publisher.
#[derive(Default)]
struct Seen(HashMap<u64, u64>);

impl Seen {
    /// The numbers of a publisher are in order, without gaps. The first is 0 unless `in_the_middle`.
    fn take(&mut self, tick: &Tick, in_the_middle: bool) {
        assert!(tick.is_whole(), "{tick:?}");
        let next = self.0.entry(tick.publisher).or_insert(if in_the_middle { tick.number } else { 0 });
        assert_eq!(tick.number, *next, "{tick:?}");
        *next += 1;
    }
}

struct Children {
    path: String,
    runs: u64,
    children: Vec<(&'static str, Child)>,
}

impl Children {
    fn start(&mut self, work: &'static str) {
        self.runs += 1;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killing::child", "--nocapture"])
            .env("TOPIC_CHILD", format!("{work} {} {}", self.path, self.runs))
            .stdout(std::process::Stdio::null())
            .spawn();
        self.children.push((work, child.unwrap()));
    }

    fn signal(&self, at: usize, signal: &str) {
        let id = self.children[at].1.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn replace(&mut self, at: usize) {
        let (work, mut child) = self.children.swap_remove(at);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        // Killed here, and not ended by a failed assertion.
        assert_eq!(status.code(), None, "a child ended by itself: {work}");
        self.start(work);
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `time`: how long; `None`: until enough has happened.
fn storm(delivery: Delivery, time: Option<Duration>) {
    let home = Home::new();
    let topic = home.topic(delivery);
    let mut subscriber = topic.subscriber().waiting(Waiting::Park).open().unwrap();
    let path = home.folder.path().to_str().unwrap().to_string();
    let mut children = Children { path, runs: 0, children: Vec::new() };
    for work in ["publish", "publish", "publish", "subscribe", "subscribe"] {
        children.start(work);
    }
    let mut random = time.map_or(0, |time| time.as_nanos() as u64) | 1;
    let mut below = |most: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % most
    };
    let (mut seen, mut messages, mut rounds) = (Seen::default(), 0u64, 0);
    let (mut lost_some, mut silence) = (false, 0);
    let (started, mut stopped) = (Instant::now(), None::<(usize, Instant)>);
    let mut next_round = Instant::now();
    loop {
        let is_over = match time {
            Some(time) => started.elapsed() >= time,
            None => rounds >= ROUNDS && messages >= MESSAGES && children.runs > 10,
        };
        if is_over {
            break;
        }
        // Whatever happens to the others, messages arrive.
        match subscriber.next_within(Duration::from_millis(100)) {
            Ok(Some(message)) => {
                seen.take(&message.decode().unwrap(), lost_some);
                (messages, silence) = (messages + 1, 0);
            }
            // In a reliable topic only if this process itself stalled.
            Err(TopicError::Missed { .. })
                if delivery == Delivery::Lossy || topic.stats().subscribers_passed_over > 0 =>
            {
                (seen, lost_some) = (Seen::default(), true);
            }
            Ok(None) => {
                silence += 1;
                assert!(silence < 600, "no messages: {:#?}", topic.stats());
            }
            Err(error) => panic!("{error}"),
        }
        // Children are killed only once there are messages.
        if messages == 0 || Instant::now() < next_round {
            continue;
        }
        rounds += 1;
        next_round = Instant::now() + Duration::from_millis(5 + below(40));
        if let Some((at, until)) = stopped
            && Instant::now() > until
        {
            children.signal(at, "-CONT");
            stopped = None;
        }
        let victim = below(5) as usize;
        if stopped.is_none() && below(4) == 0 {
            children.signal(victim, "-STOP");
            stopped = Some((victim, Instant::now() + Duration::from_millis(50 + below(400))));
        } else if stopped.is_none_or(|(at, _)| at != victim && at != children.children.len() - 1) {
            children.replace(victim);
        }
    }
    let stats = topic.stats();
    println!("{messages} messages, {rounds} rounds, {} processes; {stats:?}", children.runs);
    assert!(messages >= MESSAGES && children.runs > 10, "{messages} {}", children.runs);
}

/// Rounds and messages of a test without a time.
const ROUNDS: u32 = 40;
const MESSAGES: u64 = 1000;

#[test]
fn the_others_go_on_whichever_process_is_killed_or_stopped() {
    let seconds = std::env::var("TOPIC_STORM_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let time = seconds.map(Duration::from_secs);
    storm(Delivery::Reliable, time);
    storm(Delivery::Lossy, time);
}
