//! Outcomes of commands.

use crate::fields::{Fields, Taker, coded, meaningless};
use tapedb_engine::{Error, Outcome, StreamStats};
use tapedb_schema::Timestamp;
use tapedb_wire::Coded;

/// Codes of outcomes.
mod code {
    pub const DONE: u16 = 1;
    pub const MESSAGES: u16 = 2;
    pub const STATS: u16 = 3;
    pub const TEXT: u16 = 4;
    pub const SEQUENCES: u16 = 5;
}

/// An outcome as the protocol carries it.
pub fn to_coded(outcome: &Outcome) -> Coded {
    use code::*;
    match outcome {
        Outcome::Done => coded(DONE),
        Outcome::Messages(messages) => coded(MESSAGES).number(*messages),
        Outcome::Stats(stats) => {
            let StreamStats { messages, next_sequence, bytes, symbols, times } = stats;
            let coded = coded(STATS).number(*messages).number(*next_sequence).number(*bytes);
            let (first, last) = times.unzip();
            let time = |time: Option<Timestamp>| time.map(|time| time.0.cast_unsigned());
            coded.number((*symbols).into()).maybe(time(first)).maybe(time(last))
        }
        Outcome::Text(text) => coded(TEXT).texts(text),
        Outcome::Sequences(range) => coded(SEQUENCES).number(range.start).number(range.end),
    }
}

/// The outcome that is carried so.
///
/// # Errors
/// [`ConnectionError::Protocol`](tapedb_engine::ConnectionError::Protocol) for a code that is not known, and for other texts
/// and numbers than it has.
pub fn from_coded(coded: &Coded) -> Result<Outcome, Error> {
    let mut taker = Taker::of(coded);
    let taken = take(coded.code, &mut taker).and_then(|outcome| taker.end(outcome));
    taken.ok_or_else(|| meaningless("an outcome", coded))
}

fn take(code: u16, from: &mut Taker<'_>) -> Option<Outcome> {
    use code::*;
    Some(match code {
        DONE => Outcome::Done,
        MESSAGES => Outcome::Messages(from.number()?),
        STATS => {
            let (messages, next_sequence, bytes) = (from.number()?, from.number()?, from.number()?);
            let symbols = from.number()?.try_into().ok()?;
            let times = from.maybe()?.zip(from.maybe()?);
            let time = |time: u64| Timestamp(time.cast_signed());
            let times = times.map(|(first, last)| (time(first), time(last)));
            Outcome::Stats(StreamStats { messages, next_sequence, bytes, symbols, times })
        }
        TEXT => Outcome::Text(from.text()),
        SEQUENCES => Outcome::Sequences(from.number()?..from.number()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_round_trip() {
        let stats = |times| StreamStats { messages: 1, next_sequence: 2, bytes: 3, symbols: 4, times };
        let outcomes = [
            Outcome::Done,
            Outcome::Messages(7),
            Outcome::Stats(stats(None)),
            Outcome::Stats(stats(Some((Timestamp(-1), Timestamp(i64::MAX))))),
            Outcome::Text(None),
            Outcome::Text(Some("full".into())),
            Outcome::Sequences(3..u64::MAX),
        ];
        for outcome in outcomes {
            assert_eq!(from_coded(&to_coded(&outcome)).unwrap(), outcome);
        }
        assert!(from_coded(&coded(99)).is_err());
    }
}
