//! The WebSocket: one for each tab, with any number of channels.
//!
//! Always true: at most [`UNACKNOWLEDGED`] frames are not acknowledged; what a tab has not taken is not kept: a channel of states then
//! gives the newest one, and a tail its newest messages with the number of those that it left out. Frames have at most so many bytes per
//! second as the limits state. Rights are checked before each frame.

mod book;
mod channel;
mod play;
mod rows;
mod subscribe;
mod tail;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::live::channel::Channel;
use crate::live::subscribe::Subscribe;
use crate::state::{Shared, closed};
use crate::value::write_text;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tapedb_access::{Permit, User, UserQuota};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

/// Frames that may be unacknowledged.
const UNACKNOWLEDGED: u64 = 2;
/// Channels of one WebSocket.
const CHANNELS_MAX: usize = 64;
/// Bytes of a message from the client.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// The shortest time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(50);
/// The longest time between two looks at the channels.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);
/// How often the client is asked for a sign of life, and how long it may give none.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const SILENCE_MAX: Duration = Duration::from_secs(100);
/// Codes of the protocol: the server goes away; the client broke the rules.
const GOING_AWAY: u16 = 1001;
const POLICY: u16 = 1008;

/// Opens the WebSocket.
pub(crate) async fn open(
    State(state): State<Shared>,
    caller: Caller,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let limits = state.server.access_limits();
    let Some((quota, permit)) = state.server.quotas().open(&caller.user, limits) else {
        return Err(Failure::too_many("the user has reached the limit of connections"));
    };
    let Some(place) = Place::take(&state) else {
        return Err(Failure::too_many("the server has reached the limit of WebSockets"));
    };
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _held = (place, permit);
        Tab::new(state, caller, quota, socket).run().await;
    }))
}

/// One of the WebSockets that may be open.
struct Place(Shared);

impl Place {
    fn take(state: &Shared) -> Option<Self> {
        let place = Self(state.clone());
        let before = state.sockets.fetch_add(1, Ordering::AcqRel);
        (before < state.options.limits.sockets_max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the client sends.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Control {
    Subscribe {
        id: u64,
        #[serde(flatten)]
        to: Subscribe,
    },
    Unsubscribe {
        id: u64,
    },
    Pause {
        id: u64,
    },
    Resume {
        id: u64,
    },
    Ack {
        frame: u64,
    },
}

/// A channel of a tab.
struct Subscription {
    channel: Box<dyn Channel>,
    is_paused: bool,
    /// Counts as one of the user's watches.
    _permit: Permit,
}

type Subscriptions = BTreeMap<u64, Subscription>;
type Opened = (u64, Result<Subscription, Failure>);

/// What ends a tab.
enum End {
    /// The client has left.
    Left,
    /// The server ends it, with a reason.
    Closing(u16, &'static str),
}

/// A tab's WebSocket.
struct Tab {
    state: Shared,
    caller: Caller,
    quota: Arc<UserQuota>,
    socket: WebSocket,
    subscriptions: Subscriptions,
    /// Channels that are being opened; those that were unsubscribed since are not in it, and paused ones are marked.
    opening: BTreeMap<u64, bool>,
    opened: (UnboundedSender<Opened>, UnboundedReceiver<Opened>),
    /// Items for the next frame: errors.
    items: Vec<Item>,
    sent: u64,
    acknowledged: u64,
    /// When the next frame may be sent.
    frame_at: Instant,
    interval: Duration,
    heard: Instant,
    ping_at: Instant,
}

/// A part of a frame.
struct Item {
    id: u64,
    channel: &'static str,
    /// JSON.
    body: Result<Vec<u8>, String>,
}

impl Tab {
    fn new(state: Shared, caller: Caller, quota: Arc<UserQuota>, socket: WebSocket) -> Self {
        let now = Instant::now();
        Self {
            state,
            caller,
            quota,
            socket,
            subscriptions: BTreeMap::new(),
            opening: BTreeMap::new(),
            opened: unbounded_channel(),
            items: Vec::new(),
            sent: 0,
            acknowledged: 0,
            frame_at: now,
            interval: FRAME_INTERVAL,
            heard: now,
            ping_at: now + PING_INTERVAL,
        }
    }

    async fn run(mut self) {
        let Err(End::Closing(code, reason)) = self.serve().await else { return };
        // The client may have left, or take nothing.
        let closing = serde_json::json!({ "closing": reason }).to_string();
        let _ = self.send(Message::Text(closing.into())).await;
        let close = CloseFrame { code, reason: reason.into() };
        let _ = self.send(Message::Close(Some(close))).await;
        // Until the client has closed its side too.
        let rest = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _ = timeout(Duration::from_millis(500), rest).await;
    }

    async fn serve(&mut self) -> Result<(), End> {
        let mut closing = self.state.closing.clone();
        loop {
            let may_send = self.sent - self.acknowledged < UNACKNOWLEDGED;
            let look_at = self.frame_at.max(Instant::now());
            let has_channels = !self.subscriptions.is_empty() || !self.items.is_empty();
            tokio::select! {
                () = closed(&mut closing) => {
                    return Err(End::Closing(GOING_AWAY, "the server is shutting down"));
                }
                message = self.socket.recv() => self.take(message)?,
                Some((id, opened)) = self.opened.1.recv() => self.opened(id, opened),
                () = sleep_until(look_at), if may_send && has_channels => self.look().await?,
                () = sleep_until(self.ping_at) => self.ping().await?,
            }
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        self.socket.send(message).await.map_err(|_| End::Left)
    }

    async fn ping(&mut self) -> Result<(), End> {
        if self.heard.elapsed() > SILENCE_MAX {
            return Err(End::Left);
        }
        self.check_user()?;
        self.ping_at = Instant::now() + PING_INTERVAL;
        self.send(Message::Ping(Default::default())).await
    }

    fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        let Some(Ok(message)) = message else { return Err(End::Left) };
        self.heard = Instant::now();
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return Err(End::Left),
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Binary(_) => return Err(End::Closing(POLICY, "messages are JSON texts")),
        };
        let Ok(control) = serde_json::from_str(&text) else {
            return Err(End::Closing(POLICY, "a message is no operation of this protocol"));
        };
        self.obey(control)
    }

    fn obey(&mut self, control: Control) -> Result<(), End> {
        match control {
            Control::Subscribe { id, to } => self.subscribe(id, to),
            Control::Unsubscribe { id } => {
                self.opening.remove(&id);
                self.subscriptions.remove(&id);
            }
            Control::Pause { id } => self.pause(id, true),
            Control::Resume { id } => self.pause(id, false),
            Control::Ack { frame } if frame > self.sent => {
                return Err(End::Closing(POLICY, "a frame is acknowledged that was not sent"));
            }
            Control::Ack { frame } => self.acknowledged = self.acknowledged.max(frame),
        }
        Ok(())
    }

    fn pause(&mut self, id: u64, is_paused: bool) {
        if let Some(waiting) = self.opening.get_mut(&id) {
            *waiting = is_paused;
        }
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            subscription.is_paused = is_paused;
            subscription.channel.pause(is_paused);
        }
    }

    /// Opens a channel beside this task: that may read history.
    fn subscribe(&mut self, id: u64, to: Subscribe) {
        let channel = to.name();
        let mut refuse = |what: &str| self.items.push(Item { id, channel, body: Err(what.into()) });
        if self.opening.contains_key(&id) || self.subscriptions.contains_key(&id) {
            return refuse("the id is in use");
        }
        if self.opening.len() + self.subscriptions.len() >= CHANNELS_MAX {
            return refuse("the WebSocket has as many channels as it may have");
        }
        let Some(permit) = self.quota.watch(&self.caller.user, self.state.server.access_limits()) else {
            return refuse("the user has reached the limit of watches");
        };
        self.opening.insert(id, false);
        let (state, caller, sender) = (self.state.clone(), self.caller.clone(), self.opened.0.clone());
        tokio::spawn(async move {
            let shared = state.clone();
            let opened = state.workers.run(move || to.open(&shared, &caller)).await;
            let opened = opened.map(|channel| Subscription { channel, is_paused: false, _permit: permit });
            // The tab may have been closed.
            let _ = sender.send((id, opened));
        });
    }

    fn opened(&mut self, id: u64, opened: Result<Subscription, Failure>) {
        // It may have been unsubscribed.
        let Some(is_paused) = self.opening.remove(&id) else { return };
        match opened {
            Ok(mut subscription) => {
                subscription.is_paused = is_paused;
                subscription.channel.pause(is_paused);
                self.subscriptions.insert(id, subscription);
                (self.interval, self.frame_at) =
                    (FRAME_INTERVAL, self.frame_at.min(Instant::now() + FRAME_INTERVAL));
            }
            Err(failure) => self.items.push(Item { id, channel: "", body: Err(failure.text) }),
        }
    }

    /// The user with the present rights.
    fn check_user(&self) -> Result<Arc<User>, End> {
        self.caller.watching().ok_or(End::Closing(POLICY, "the session has ended"))
    }

    /// Looks at the channels, and sends what they have.
    async fn look(&mut self) -> Result<(), End> {
        let user = self.check_user()?;
        let mut items = std::mem::take(&mut self.items);
        if self.subscriptions.values().any(|subscription| subscription.is_due()) {
            let mut subscriptions = std::mem::take(&mut self.subscriptions);
            let looked = spawn_blocking(move || {
                let found = look_at(&mut subscriptions, &user);
                (subscriptions, found)
            });
            // A panic in a channel ends the tab.
            let (subscriptions, found) =
                looked.await.map_err(|_| End::Closing(GOING_AWAY, "the server has failed"))?;
            self.subscriptions = subscriptions;
            items.extend(found);
        }
        let now = Instant::now();
        if items.is_empty() {
            self.interval = (self.interval * 5 / 4).min(IDLE_INTERVAL);
            self.frame_at = now + self.interval;
            return Ok(());
        }
        self.sent += 1;
        let frame = frame(self.sent, &items);
        let per_second = self.state.options.limits.socket_bytes_per_second.max(1);
        let pace = Duration::from_secs_f64(frame.len() as f64 / per_second as f64);
        self.interval = FRAME_INTERVAL;
        self.frame_at = now + pace.max(FRAME_INTERVAL);
        self.send(Message::Text(frame.into())).await
    }
}

impl Subscription {
    fn is_due(&self) -> bool {
        !self.is_paused && self.channel.is_due()
    }
}

/// What the channels have; those that have failed are removed.
fn look_at(subscriptions: &mut Subscriptions, user: &User) -> Vec<Item> {
    let (mut items, mut ended) = (Vec::new(), BTreeSet::new());
    for (id, subscription) in subscriptions.iter_mut().filter(|(_, subscription)| subscription.is_due()) {
        let channel = subscription.channel.name();
        let item = |body| Item { id: *id, channel, body };
        let mut out = Vec::new();
        match subscription.channel.look(user, &mut out) {
            Ok(false) => {}
            Ok(true) => items.push(item(Ok(out))),
            Err(failure) => {
                ended.insert(*id);
                items.push(item(Err(failure.text)));
            }
        }
    }
    subscriptions.retain(|id, _| !ended.contains(id));
    items
}

fn frame(number: u64, items: &[Item]) -> String {
    let mut out = Vec::new();
    // A vector takes every write.
    let _ = write!(out, "{{\"frame\":{number},\"items\":[");
    for (index, Item { id, channel, body }) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let _ = write!(out, "{{\"id\":{id},");
        match body {
            Ok(data) => {
                let _ = write!(out, "\"stream\":\"{channel}\",\"data\":");
                out.extend_from_slice(data);
            }
            Err(error) => {
                out.extend_from_slice(b"\"error\":");
                write_text(error, &mut out);
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    String::from_utf8(out).unwrap_or_default()
}
