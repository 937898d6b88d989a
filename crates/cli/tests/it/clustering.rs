//! `--cluster` of `tapedb sql` and `tapedb server`: three servers, as processes.

use crate::serving::Served;
use crate::support::{Place, Run, no_input};
use serde_json::Value;
use std::process::Command;

const COUNT: &str = "SELECT count(*), sum(volume) FROM bars";

/// A place with a thousand bars.
fn place() -> Place {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 1k --interval 1s").good();
    place
}

fn asked(place: &Place, line: &str, query: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command.args(line.split_whitespace()).args(["--output", "csv", "--no-header", query]).stdin(no_input());
    command.current_dir(place.path("."));
    Run::of(command.output().expect("the command runs"))
}

/// The count and the sum of three times the same bars.
fn three_times(one: &Run) -> String {
    let (count, sum) = one.out.trim().split_once(',').expect(&one.out);
    let (count, sum): (u64, f64) = (count.parse().expect(count), sum.parse().expect(sum));
    format!("{},{:?}\n", count * 3, sum * 3.0)
}

#[test]
fn databases_and_servers_are_queried_as_one() {
    let places = [place(), place(), place()];
    let (served, ready) = Served::start(&places[2].path("."), &[]);
    let file = format!(
        "[[server]]\nname = 'a'\nurl = '{}'\n[[server]]\nname = 'b'\nurl = '{}'\n[[server]]\nname = 'c'\nurl = 'tape://{}'\n",
        places[0].db().display(),
        places[1].db().display(),
        ready["tcp"].as_str().unwrap(),
    );
    std::fs::write(places[0].path("cluster.toml"), file).unwrap();
    let one = asked(&places[0], "sql --db db", COUNT);
    assert_eq!(asked(&places[0], "sql --cluster cluster.toml", COUNT).good(), three_times(&one));
    let plan = asked(&places[0], "sql --cluster cluster.toml", &format!("EXPLAIN {COUNT}")).good();
    assert!(plan.contains("servers=[a, b, c]"), "{plan}");
    drop(served);
    let error = asked(&places[0], "sql --cluster cluster.toml", COUNT).bad(1);
    assert!(error.contains("server c"), "{error}");
    assert!(asked(&places[0], "sql", COUNT).code == 2, "there is no database");
    assert!(asked(&places[0], "sql --db db --cluster cluster.toml", COUNT).code == 2, "there are two");
    let error = asked(&places[0], "sql --cluster none.toml", COUNT).bad(2);
    assert!(error.contains("none.toml"), "{error}");
}

#[test]
fn a_server_asks_others_for_its_users() {
    let places = [place(), place(), place()];
    let users = |place: &Place, line: &str, input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(line.split_whitespace()).current_dir(place.path("."));
        std::fs::write(place.path("input"), input).unwrap();
        command.stdin(std::fs::File::open(place.path("input")).unwrap());
        Run::of(command.output().expect("the command runs"))
    };
    for place in &places {
        assert_eq!(users(place, "user add ann --may read --streams bars", "secret\n").code, 0);
        assert_eq!(users(place, "user add eve --may read --streams bars", "secret\n").code, 0);
        let added = users(place, "user add cluster --no-password --may read --acts-for ann", "");
        assert_eq!(added.code, 0, "{}", added.err);
        let token = users(place, "user token cluster c", "").good();
        std::fs::write(place.path("token"), token).unwrap();
    }
    let start = |place: &Place, more: &[&str]| {
        let users = place.path("users.toml").display().to_string();
        let more: Vec<&str> = ["--users", &users].iter().chain(more).copied().collect();
        Served::start(&place.path("."), &more)
    };
    let (_b, b) = start(&places[1], &[]);
    let (c, c_ready) = start(&places[2], &[]);
    let peer = |name: &str, ready: &Value, place: &Place| {
        let (address, token) = (ready["tcp"].as_str().unwrap(), place.path("token").display().to_string());
        format!(
            "[[server]]\nname = '{name}'\nurl = 'tape://{address}'\nuser = 'cluster'\ntoken_file = '{token}'\n"
        )
    };
    let file = format!(
        "[[server]]\nname = 'a'\nhere = true\n{}{}",
        peer("b", &b, &places[1]),
        peer("c", &c_ready, &places[2])
    );
    let path = places[0].path("cluster.toml");
    std::fs::write(&path, file).unwrap();
    let (_a, a) = start(&places[0], &["--cluster", &path.display().to_string()]);
    let ask = |user: &str| {
        let url = format!("tape://{user}@{}", a["tcp"].as_str().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
        command.args(["sql", "--db", &url, "--output", "csv", "--no-header", COUNT]).stdin(no_input());
        Run::of(command.env("TAPEDB_PASSWORD", "secret").output().expect("the command runs"))
    };
    let one = asked(&places[1], "sql --db db", COUNT);
    assert_eq!(ask("ann").good(), three_times(&one));
    let error = ask("eve").bad(1);
    assert!(error.contains("server b"), "the account may not act for eve: {error}");
    drop(c);
    let error = ask("ann").bad(1);
    assert!(error.contains("server c"), "{error}");
}
