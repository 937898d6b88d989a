//! Streams, publishers and consumers of JetStream, as its users would set them up.

use std::collections::VecDeque;

use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats_extended as extended;
use bytes::Bytes;
use futures_util::StreamExt;
use jetstream_extra::batch_publish_fast::{FastPublishExt, FastPublisher};

use crate::Failure;

/// Publishes that may wait for their acknowledgment; the client's own limit is 5,000.
const ACKS_MAX: usize = 4_000;
/// Messages between two acknowledgments of fast ingest, and how many of these may be under way: the most it allows.
const FAST_FLOW: u16 = 1_000;
const FAST_ACKS: u16 = 3;

/// A stream of one subject, in files.
pub async fn create_stream(url: &str, name: &str) -> Result<(), Failure> {
    let context = jetstream::new(async_nats::connect(url).await?);
    let config = Config {
        name: name.into(),
        subjects: vec![name.into()],
        storage: StorageType::File,
        allow_batch_publish: true,
        ..Config::default()
    };
    context.create_stream(config).await?;
    Ok(())
}

/// Removes a stream with its files.
pub async fn delete_stream(url: &str, name: &str) -> Result<(), Failure> {
    jetstream::new(async_nats::connect(url).await?).delete_stream(name).await?;
    Ok(())
}

/// Publishes over a connection of its own; every message is acknowledged, later.
pub enum Publisher {
    /// Each message by its own acknowledgment.
    Acked { context: Context, subject: String, acks: VecDeque<PublishAckFuture> },
    /// Fast ingest: one acknowledgment for many messages.
    Fast { context: extended::jetstream::Context, subject: String, batch: Option<Box<FastPublisher>> },
}

impl Publisher {
    /// Connects.
    pub async fn connect(url: &str, subject: &str, fast: bool) -> Result<Self, Failure> {
        let subject = subject.to_string();
        if fast {
            let context = extended::jetstream::new(extended::connect(url).await?);
            return Ok(Self::Fast { context, subject, batch: None });
        }
        let context = jetstream::new(async_nats::connect(url).await?);
        Ok(Self::Acked { context, subject, acks: VecDeque::with_capacity(ACKS_MAX) })
    }

    /// Sends one message; waits while too many acknowledgments are owed.
    pub async fn send(&mut self, payload: Bytes) -> Result<(), Failure> {
        match self {
            Self::Acked { context, subject, acks } => {
                if acks.len() == ACKS_MAX {
                    acknowledged(acks.pop_front()).await?;
                }
                acks.push_back(context.publish(subject.clone(), payload).await?);
            }
            Self::Fast { context, subject, batch } => {
                let batch = match batch {
                    Some(batch) => batch,
                    None => batch.insert(Box::new(begun(context)?)),
                };
                batch.add(subject.clone(), payload).await?;
            }
        }
        Ok(())
    }

    /// Sends the last message and waits until all are acknowledged.
    pub async fn finish(&mut self, payload: Bytes) -> Result<(), Failure> {
        if let Self::Fast { subject, batch, .. } = self
            && let Some(batch) = batch.take()
        {
            let sent = batch.size() + 1;
            let stored = batch.commit(subject.clone(), payload).await?.batch_size;
            return if stored == sent {
                Ok(())
            } else {
                Err(format!("{stored} of {sent} were stored").into())
            };
        }
        self.send(payload).await?;
        if let Self::Acked { acks, .. } = self {
            while let Some(ack) = acks.pop_front() {
                acknowledged(Some(ack)).await?;
            }
        }
        Ok(())
    }
}

fn begun(context: &extended::jetstream::Context) -> Result<FastPublisher, Failure> {
    Ok(context.fast_publish().flow(FAST_FLOW).max_outstanding_acks(FAST_ACKS).build()?)
}

async fn acknowledged(ack: Option<PublishAckFuture>) -> Result<(), Failure> {
    if let Some(ack) = ack {
        ack.await?;
    }
    Ok(())
}

/// Reads a stream from its beginning, over a connection of its own: the server pushes, the client checks the order and
/// asks again for what is missing. Faster than pulling here.
pub struct Consumer(Box<Ordered>);

impl Consumer {
    /// Connects.
    pub async fn connect(url: &str, stream: &str) -> Result<Self, Failure> {
        let client = async_nats::ConnectOptions::new().read_buffer_capacity(u16::MAX).connect(url).await?;
        let config = OrderedConfig { deliver_subject: client.new_inbox(), ..OrderedConfig::default() };
        let stream = jetstream::new(client).get_stream(stream).await?;
        Ok(Self(Box::new(stream.create_consumer(config).await?.messages().await?)))
    }

    /// The payload of the next message.
    pub async fn next(&mut self) -> Result<Bytes, Failure> {
        let message = self.0.next().await.transpose()?;
        Ok(message.ok_or("the server ended the stream")?.message.payload)
    }
}
