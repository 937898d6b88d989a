//! Replays to WebSocket clients: what they receive, what is refused, and how they end.

mod clients;
mod messages;
mod place;
