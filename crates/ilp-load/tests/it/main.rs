//! The line protocol into streams.

mod again;
mod clients;
mod http;
mod loading;
mod support;
mod tcp;
