//! kdbplus against a plant: subscribes, receives, publishes every shape it can. Arguments: port, rows.

use chrono::Duration;
use kdbplus::ipc::error::Error;
use kdbplus::ipc::{ConnectionMethod, K, QStream, Result};
use kdbplus::qattribute::NONE;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>().expect("a number"));
    let port = arguments.next().expect("a port") as u16;
    let rows = i64::from(arguments.next().expect("a number of rows"));
    let (mut feed, mut subscriber) = (connect(port).await?, connect(port).await?);
    assert_eq!(feed.send_sync_message(&"1+1").await?.get_long()?, 2);
    let answer = subscriber.send_sync_message(&call(".u.sub", vec![symbol("trade"), symbol("")])).await?;
    assert_eq!(answer.as_vec::<K>()?[0].get_symbol()?, "trade");

    feed.send_sync_message(&update(".u.upd", row(0, true))).await?;
    feed.send_async_message(&update("upd", row(1, false))).await?;
    feed.send_sync_message(&update(".u.upd", K::new_compound_list(columns(2, 2)))).await?;
    feed.send_sync_message(&update(".u.upd", K::new_compound_list(columns(4, 2)[1..].to_vec()))).await?;
    feed.send_async_message(&update(".u.upd", dictionary(6, 2).flip()?)).await?;
    feed.send_sync_message(&update(".u.upd", dictionary(8, 2))).await?;
    let mut sizes = received(&mut subscriber, 9).await?;

    for first in (10..rows).step_by(1000) {
        let columns = columns(first, 1000.min(rows - first));
        feed.send_async_message(&update(".u.upd", K::new_compound_list(columns))).await?;
    }
    sizes.extend(received(&mut subscriber, rows - 1).await?);
    assert!(sizes.iter().copied().eq(0..rows), "{} rows came", sizes.len());
    assert_eq!(feed.send_sync_message(&"count trade").await?.get_long()?, rows);

    let mut filtered = connect(port).await?;
    let symbols = K::new_symbol_list(vec!["BAC".into(), "IBM".into()], NONE);
    filtered.send_sync_message(&call(".u.sub", vec![symbol("trade"), symbols])).await?;
    feed.send_sync_message(&update(".u.upd", K::new_compound_list(columns(rows, 2)))).await?;
    let last = rows + (1 - rows % 2);
    assert_eq!(received(&mut filtered, last).await?, [last]);
    let refused = feed.send_sync_message(&call(".u.sub", vec![symbol("nosuch"), symbol("")])).await;
    assert!(told(refused).contains("nosuch"));
    println!("received {}", sizes.len());
    Ok(())
}

async fn connect(port: u16) -> Result<QStream> {
    QStream::connect(ConnectionMethod::TCP, "127.0.0.1", port, "me:secret").await
}

fn symbol(text: &str) -> K {
    K::new_symbol(text.into())
}

fn call(function: &str, arguments: Vec<K>) -> K {
    let mut items = vec![K::new_string(function.into(), NONE)];
    items.extend(arguments);
    K::new_compound_list(items)
}

fn update(function: &str, rows: K) -> K {
    call(function, vec![symbol("trade"), rows])
}

fn row(number: i64, has_time: bool) -> K {
    let time = has_time.then(|| K::new_timespan(Duration::microseconds(number)));
    let rest = [symbol("AIG"), K::new_float(1.5), K::new_long(number), symbol("N")];
    K::new_compound_list(time.into_iter().chain(rest).collect())
}

/// Rows numbered in their size.
fn columns(first: i64, count: i64) -> Vec<K> {
    let numbers = || first..first + count;
    let symbols = |name: fn(i64) -> &'static str| {
        K::new_symbol_list(numbers().map(|number| name(number).to_string()).collect(), NONE)
    };
    vec![
        K::new_timespan_list(numbers().map(Duration::microseconds).collect(), NONE),
        symbols(|number| ["AIG", "BAC"][number as usize % 2]),
        K::new_float_list(numbers().map(|number| number as f64 / 4.0).collect(), NONE),
        K::new_long_list(numbers().collect(), NONE),
        symbols(|_| "N"),
    ]
}

fn dictionary(first: i64, count: i64) -> K {
    let names = ["time", "sym", "price", "size", "ex"].map(String::from).to_vec();
    K::new_dictionary(K::new_symbol_list(names, NONE), K::new_compound_list(columns(first, count)))
        .expect("as many columns as names")
}

/// Sizes of the rows that come, up to one.
async fn received(subscriber: &mut QStream, last: i64) -> Result<Vec<i64>> {
    let mut sizes = Vec::new();
    while sizes.last() != Some(&last) {
        let (_, message) = subscriber.receive_message().await?;
        let items = message.as_vec::<K>()?;
        assert_eq!((items[0].get_symbol()?, items[1].get_symbol()?), ("upd", "trade"));
        sizes.extend(items[2].get_column("size")?.as_vec::<i64>()?);
    }
    Ok(sizes)
}

/// What an error says, however it comes.
fn told(answer: std::result::Result<K, Error>) -> String {
    match answer {
        Ok(answer) => answer.get_error_string().unwrap_or("no error").to_string(),
        Err(error) => error.to_string(),
    }
}
