//! The line protocol into streams.

mod clients;
mod http;
mod loading;
mod support;
mod tcp;
