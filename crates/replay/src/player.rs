//! Plays a cursor.

use crate::clock::{Clock, Due};
use crate::control::{Command, Control};
use crate::error::ReplayError;
use crate::hash::ReplayHash;
use crate::sink::{Delivery, Sink};
use crate::speed::Speed;
use crate::waiting::wait_until;
use hdrhistogram::Histogram;
use std::time::Instant;
use tapedb_engine::Cursor;
use tapedb_schema::Timestamp;

/// The largest delay in the report; larger ones count as this: an hour.
const LATE_NS_MAX: u64 = 3_600_000_000_000;
/// Significant digits of delays.
const LATE_DIGITS: u8 = 3;

/// Delivers the messages of a cursor when they are due.
///
/// Always true: every message that the cursor has returned was delivered, but for the last one while `is_held`. There are `steps` only while
/// the clock is paused.
#[derive(Debug)]
pub struct Player {
    cursor: Cursor,
    clock: Clock,
    control: Control,
    /// Messages that are delivered although the clock is paused.
    steps: u64,
    is_held: bool,
    is_stopped: bool,
    hash: ReplayHash,
    messages: u64,
    last: Option<Timestamp>,
    /// Time of the last message since the begin or the last seek.
    at: Option<Timestamp>,
    late: Histogram<u64>,
}

/// What a replay did.
#[derive(Debug, Clone)]
pub struct Report {
    /// Messages delivered.
    pub messages: u64,
    /// Their [`ReplayHash`].
    pub hash: u64,
    /// Time of the last one.
    pub last: Option<Timestamp>,
    /// Whether it ended before the last message, since it was stopped or nothing would have ended its pause.
    pub is_stopped: bool,
    /// From the call to the end.
    pub seconds: f64,
    /// How much later than due messages were delivered, in nanoseconds, at most an hour: of those that were due at an instant.
    /// One that waits behind others is late, too.
    pub late: Histogram<u64>,
}

/// What reading has found.
enum Found {
    Message,
    Damage,
    End,
}

impl Player {
    /// A replay of the cursor's messages from where it is. It begins when it is run.
    pub fn new(cursor: Cursor, speed: Speed, control: Control) -> Self {
        Self {
            cursor,
            clock: Clock::new(speed),
            control,
            steps: 0,
            is_held: false,
            is_stopped: false,
            hash: ReplayHash::default(),
            messages: 0,
            last: None,
            at: None,
            late: Histogram::new_with_bounds(1, LATE_NS_MAX, LATE_DIGITS).expect("these bounds are allowed"),
        }
    }

    /// Plays to the end of history, or until it is stopped. A replay that is paused at the end waits there, for a seek.
    ///
    /// # Errors
    /// The sink's; the engine's, unless the sink goes on without what cannot be read.
    pub fn run(mut self, sink: &mut dyn Sink) -> Result<Report, ReplayError> {
        let began = Instant::now();
        let played = self.play(sink);
        // What was delivered goes where it belongs, also after an error.
        let flushed = sink.flush();
        played.and(flushed)?;
        Ok(Report {
            messages: self.messages,
            hash: self.hash.value(),
            last: self.last,
            is_stopped: self.is_stopped,
            seconds: began.elapsed().as_secs_f64(),
            late: self.late,
        })
    }

    fn play(&mut self, sink: &mut dyn Sink) -> Result<(), ReplayError> {
        while self.obey()? {
            match self.find(sink)? {
                Found::Message => {
                    if let Some(due) = self.wait(sink)? {
                        self.deliver(due, sink)?;
                    }
                }
                Found::Damage => {}
                Found::End if self.clock.is_paused() => {
                    self.steps = 0;
                    sink.flush()?;
                    if !self.control.sleep() {
                        break;
                    }
                }
                Found::End if self.control.is_asked() => {}
                Found::End => break,
            }
        }
        Ok(())
    }

    /// Obeys the commands that wait; `false`: the replay is stopped.
    fn obey(&mut self) -> Result<bool, ReplayError> {
        while let Some(command) = self.control.next(self.steps > 0) {
            let now = Instant::now();
            match command {
                Command::Pause => self.clock.pause(now),
                Command::Resume => self.clock.resume(now),
                Command::Speed(speed) => {
                    // At full speed the clock does not follow the messages.
                    if let (Speed::Max, Some(at)) = (self.clock.speed(), self.at) {
                        self.clock.set(at, now);
                    }
                    self.clock.set_speed(speed, now);
                }
                Command::Step(count) => {
                    self.clock.pause(now);
                    self.steps = count;
                }
                Command::Seek(time) => {
                    self.cursor.seek(time)?;
                    self.is_held = false;
                    self.at = None;
                    self.clock.forget_time();
                }
                Command::Stop => self.is_stopped = true,
            }
            if self.is_stopped {
                break;
            }
        }
        Ok(!self.is_stopped)
    }

    /// Reads the next message, unless one is held.
    fn find(&mut self, sink: &mut dyn Sink) -> Result<Found, ReplayError> {
        if self.is_held {
            return Ok(Found::Message);
        }
        match self.cursor.next() {
            Ok(Some(_)) => {
                self.is_held = true;
                Ok(Found::Message)
            }
            Ok(None) => Ok(Found::End),
            Err(error) => {
                sink.unreadable(error)?;
                Ok(Found::Damage)
            }
        }
    }

    /// Waits until the held message is due. `None`: a command came first.
    fn wait(&mut self, sink: &mut dyn Sink) -> Result<Option<Due>, ReplayError> {
        let Some(message) = self.cursor.current() else { return Ok(None) };
        let time = message.time();
        if self.steps > 0 {
            self.clock.set(time, Instant::now());
            return Ok(Some(Due::AtOnce));
        }
        if self.clock.speed() == Speed::Max && !self.clock.is_paused() {
            return Ok(Some(Due::AtOnce));
        }
        let now = Instant::now();
        let due = self.clock.due(time, now);
        match due {
            Due::At(instant) if instant > now => {
                sink.send()?;
                Ok(wait_until(instant, &self.control).then_some(due))
            }
            Due::Paused => {
                sink.flush()?;
                self.is_stopped = !self.control.sleep();
                Ok(None)
            }
            Due::At(_) | Due::AtOnce => Ok(Some(due)),
        }
    }

    /// Offers the held message.
    fn deliver(&mut self, due: Due, sink: &mut dyn Sink) -> Result<(), ReplayError> {
        let Some(message) = self.cursor.current() else { return Ok(()) };
        match sink.deliver(&message) {
            Ok(Delivery::Taken) => {}
            Ok(Delivery::Busy) => return Ok(()),
            // A body that is not valid is damage, which the sink has found: bodies are not validated twice.
            Err(error) => {
                let damage = message.record().err().ok_or(error)?;
                self.is_held = false;
                return sink.unreadable(damage);
            }
        }
        if let Due::At(due) = due {
            self.late.saturating_record(due.elapsed().as_nanos().max(1) as u64);
        }
        self.hash.add(&message);
        self.last = Some(message.time());
        self.at = self.last;
        self.messages += 1;
        self.is_held = false;
        self.steps = self.steps.saturating_sub(1);
        Ok(())
    }
}
