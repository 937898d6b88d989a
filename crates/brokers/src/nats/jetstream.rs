//! Requests to JetStream, which are JSON.

use super::connection::Connection;
use crate::error::Error;
use data_encoding::BASE64;
use serde_json::{Value, json};
use tapedb_schema::Timestamp;

/// There is no such stream.
const NO_STREAM: u64 = 10_059;
/// There is no such message.
const NO_MESSAGE: u64 = 10_037;
/// The last sequence number is another one than the publisher expects.
pub(super) const OTHER_LAST_SEQUENCE: u64 = 10_071;

/// A JetStream stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    pub messages: u64,
    pub first: u64,
    pub last: u64,
    pub subjects: Vec<String>,
    pub retention: String,
}

/// A message of a JetStream stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub subject: String,
    pub headers: Vec<u8>,
    pub payload: Vec<u8>,
    pub time: Option<i64>,
}

/// Where a delivered message is, by the subject of its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub sequence: u64,
    /// Its number among those that the consumer delivers, from 1.
    pub delivered: u64,
    /// When it was stored, in nanoseconds since 1970.
    pub time: i64,
    /// How many wait behind it.
    pub pending: u64,
}

impl Place {
    /// `$JS.ACK.<stream>.<consumer>.<times>.<sequence>.<delivered>.<time>.<pending>`; newer servers put domain and account in front of
    /// the stream, and a token behind.
    pub fn of(reply: &str) -> Option<Self> {
        let words: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let numbers = match words.len() {
            7 => &words[3..],
            9.. => &words[5..],
            _ => return None,
        };
        let [sequence, delivered, time, pending, ..] = numbers else { return None };
        Some(Self {
            sequence: sequence.parse().ok()?,
            delivered: delivered.parse().ok()?,
            time: time.parse().ok()?,
            pending: pending.parse().ok()?,
        })
    }
}

/// Why a request failed: a code of the server, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denied {
    pub code: u64,
    pub text: String,
}

/// What an answer states; or that it is an error.
pub(super) fn answer(headers_status: (u16, &str), payload: &[u8]) -> Result<Result<Value, Denied>, Error> {
    if headers_status.0 == 503 {
        return Err(Error::Away(
            "JetStream does not answer: it is not enabled, or its leader is being chosen".into(),
        ));
    }
    let answer: Value = serde_json::from_slice(payload)
        .map_err(|error| Error::Away(format!("JetStream's answer is no JSON: {error}")))?;
    let error = &answer["error"];
    if error.is_object() {
        let text = error["description"].as_str().unwrap_or("no reason").to_string();
        return Ok(Err(Denied { code: error["err_code"].as_u64().unwrap_or(0), text }));
    }
    Ok(Ok(answer))
}

fn ask(connection: &mut Connection, subject: &str, request: &Value) -> Result<Result<Value, Denied>, Error> {
    let text = if request.is_null() { String::new() } else { request.to_string() };
    let message = connection.request(subject, text.as_bytes())?;
    answer(message.status(), message.payload)
}

fn refused<T>(what: &str, denied: &Denied) -> Result<T, Error> {
    // A leader that is being chosen, or a request that was not served in time.
    let is_temporary = matches!(denied.code, 10_008 | 10_074 | 10_077 | 10_164);
    let text = format!("{what}: {}", denied.text);
    Err(if is_temporary { Error::Away(text) } else { Error::Refused(text) })
}

/// A stream's state; `None`: there is none of this name.
pub(super) fn info(connection: &mut Connection, name: &str) -> Result<Option<Info>, Error> {
    match ask(connection, &format!("$JS.API.STREAM.INFO.{name}"), &Value::Null)? {
        Ok(found) => {
            let (config, state) = (&found["config"], &found["state"]);
            let number = |name: &str| state[name].as_u64().unwrap_or(0);
            let subjects = config["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
            Ok(Some(Info {
                messages: number("messages"),
                first: number("first_seq"),
                last: number("last_seq"),
                subjects: subjects
                    .iter()
                    .filter_map(|subject| subject.as_str().map(str::to_string))
                    .collect(),
                retention: config["retention"].as_str().unwrap_or("limits").into(),
            }))
        }
        Err(denied) if denied.code == NO_STREAM => Ok(None),
        Err(denied) => refused(&format!("JetStream stream {name:?}"), &denied),
    }
}

/// Makes a stream on files that nothing is removed from.
pub(super) fn create(connection: &mut Connection, name: &str, subjects: &[String]) -> Result<(), Error> {
    let config = json!({
        "name": name, "subjects": subjects, "storage": "file", "retention": "limits", "discard": "old", "num_replicas": 1,
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": -1,
    });
    match ask(connection, &format!("$JS.API.STREAM.CREATE.{name}"), &config)? {
        Ok(_) => Ok(()),
        Err(denied) => refused(&format!("JetStream stream {name:?} cannot be created"), &denied),
    }
}

/// A message by its number; `None`: it has been removed.
pub(super) fn get(connection: &mut Connection, name: &str, sequence: u64) -> Result<Option<Stored>, Error> {
    match ask(connection, &format!("$JS.API.STREAM.MSG.GET.{name}"), &json!({ "seq": sequence }))? {
        Ok(found) => {
            let message = &found["message"];
            let text = |name: &str| message[name].as_str().unwrap_or_default();
            let bytes = |name: &str| BASE64.decode(text(name).as_bytes()).ok();
            let (Some(headers), Some(payload)) = (bytes("hdrs"), bytes("data")) else {
                return Err(Error::Away(format!("JetStream's message {sequence} of {name:?} is no base64")));
            };
            let time = text("time").parse::<Timestamp>().ok().map(Timestamp::nanos);
            Ok(Some(Stored { subject: text("subject").into(), headers, payload, time }))
        }
        Err(denied) if denied.code == NO_MESSAGE => Ok(None),
        Err(denied) => refused(&format!("message {sequence} of JetStream stream {name:?}"), &denied),
    }
}

/// Makes a consumer that lives as long as it is used; returns how many messages wait for it.
pub(super) fn consume(
    connection: &mut Connection,
    stream: &str,
    consumer: &str,
    from: u64,
    subjects: &[String],
) -> Result<u64, Error> {
    let mut config = json!({
        "name": consumer, "deliver_policy": "by_start_sequence", "opt_start_seq": from.max(1), "ack_policy": "none",
        "replay_policy": "instant", "inactive_threshold": 60_000_000_000u64, "mem_storage": true, "num_replicas": 1,
        "max_waiting": 8,
    });
    match subjects {
        [] => {}
        [only] => config["filter_subject"] = only.as_str().into(),
        several => config["filter_subjects"] = several.into(),
    }
    let request = json!({ "stream_name": stream, "config": config, "action": "create" });
    match ask(connection, &format!("$JS.API.CONSUMER.CREATE.{stream}.{consumer}"), &request)? {
        Ok(made) => Ok(made["num_pending"].as_u64().unwrap_or(0)),
        Err(denied) => refused(&format!("a consumer of JetStream stream {stream:?}"), &denied),
    }
}

/// Ends a consumer; that it fails does not matter, for it ends by itself.
pub(super) fn end(connection: &mut Connection, stream: &str, consumer: &str) {
    connection.publish(&format!("$JS.API.CONSUMER.DELETE.{stream}.{consumer}"), "", &[], &[]);
    let _ = connection.flush();
}

/// Names that can stand in a subject.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty()
        || name.contains(['.', '*', '>', '/', '\\'])
        || name.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return Err(Error::Settings(format!(
            "{name:?} is no name of a JetStream stream: it has no dots, spaces, * or >"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_old_and_new_servers() {
        let place = Place { sequence: 22, delivered: 3, time: 4, pending: 5 };
        assert_eq!(Place::of("$JS.ACK.s.c.1.22.3.4.5"), Some(place));
        assert_eq!(Place::of("$JS.ACK.domain.account.s.c.1.22.3.4.5.token"), Some(place));
        assert_eq!(Place::of("$JS.ACK.domain.account.s.c.1.22.3.4.5"), Some(place));
        for bad in [
            "",
            "$JS.ACK.",
            "$JS.ACK.s.c.1.22.3.4",
            "$JS.ACK.s.c.1.x.3.4.5",
            "_INBOX.a.1",
            "$JS.ACK.s.c.1.-1.3.4.5",
        ] {
            assert_eq!(Place::of(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_have_no_wildcards() {
        assert!(check_name("ticks-1_A").is_ok());
        for bad in ["", "a.b", "a b", ">", "*", "a\r\nPUB"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
