//! Measures Aeron IPC for `bench/rivals/run topic`, driver and client in C; see `tapedb_rival_rules::run` for what it
//! reads and prints.

#![deny(unsafe_code)]

use std::ffi::CString;
use std::process::ExitCode;
use std::time::Duration;

use rusteron_client::{Aeron, AeronExclusivePublication, AeronSubscription, Handlers, IntoCString};
use rusteron_media_driver::bindings::aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED;
use rusteron_media_driver::testing::EmbeddedDriver;
use tapedb_rival_rules::{Failure, Medium, Publish, Settings, Subscribe, run};

const STREAM: i32 = 1_001;
/// How long the driver may take to add a publication or a subscription.
const ADD_MAX: Duration = Duration::from_secs(10);
/// Messages that a poll may give.
const FRAGMENTS: usize = 256;

fn main() -> ExitCode {
    run(|settings: &Settings| AeronIpc::meet(settings))
}

/// A media driver's folder in shared memory, with the driver if this process is its host.
struct AeronIpc {
    folder: String,
    channel: CString,
    _driver: Option<EmbeddedDriver>,
}

impl AeronIpc {
    fn meet(settings: &Settings) -> Result<Self, Failure> {
        let folder = format!("/dev/shm/{}", settings.place);
        let driver = if settings.is_guest { None } else { Some(launch(&folder)?) };
        let channel = format!("aeron:ipc?term-length={}", settings.term).into_c_string();
        Ok(Self { folder, channel, _driver: driver })
    }
}

/// One thread for the whole driver, as there are two cores; it backs off when idle, the default.
fn launch(folder: &str) -> Result<EmbeddedDriver, Failure> {
    let folder = folder.into_c_string();
    let driver = EmbeddedDriver::launch_with(|context| {
        context.set_dir(&folder)?;
        context.set_threading_mode(AERON_THREADING_MODE_SHARED)?;
        Ok(())
    })?;
    Ok(driver)
}

/// An end, with the client that it belongs to.
struct Sending {
    publication: AeronExclusivePublication,
    _client: Aeron,
}

struct Receiving {
    subscription: AeronSubscription,
    _client: Aeron,
}

impl Medium for AeronIpc {
    type Publisher<const N: usize> = Sending;
    type Subscriber<const N: usize> = Receiving;

    fn publisher<const N: usize>(&self) -> Result<Sending, Failure> {
        let client = Aeron::connect_dir(&self.folder)?;
        let adding = client.async_add_exclusive_publication(&self.channel, STREAM)?;
        Ok(Sending { publication: adding.poll_blocking(ADD_MAX)?, _client: client })
    }

    fn subscriber<const N: usize>(&self) -> Result<Receiving, Failure> {
        let client = Aeron::connect_dir(&self.folder)?;
        let adding = client.async_add_subscription(&self.channel, STREAM, Handlers::NONE, Handlers::NONE)?;
        Ok(Receiving { subscription: adding.poll_blocking(ADD_MAX)?, _client: client })
    }
}

impl<const N: usize> Publish<N> for Sending {
    fn is_connected(&self) -> bool {
        self.publication.is_connected()
    }

    #[inline]
    fn publish(&mut self, message: &[u64; N]) -> Result<bool, Failure> {
        match self.publication.offer(bytemuck::cast_slice(message)) {
            Ok(_) => Ok(true),
            Err(error) if error.is_retryable() => Ok(false),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

impl<const N: usize> Subscribe<N> for Receiving {
    #[inline]
    fn poll(&mut self, mut found: impl FnMut(&[u64; N])) -> Result<usize, Failure> {
        let mut wrong = None;
        let count = self.subscription.poll_fn(
            |bytes, _| match words(bytes) {
                Some(message) => found(&message),
                None => wrong = Some(bytes.len()),
            },
            FRAGMENTS,
        )?;
        match wrong {
            None => Ok(count as usize),
            Some(length) => Err(format!("a message of {length} bytes instead of {}", N * 8).into()),
        }
    }
}

#[inline]
fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    rest.is_empty().then(|| words.map(u64::from_le_bytes))
}
