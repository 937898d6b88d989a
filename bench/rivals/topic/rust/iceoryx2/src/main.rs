//! Measures iceoryx2 for `bench/rivals/run topic`; see `tapedb_rival_rules::run` for what it reads and prints.

#![deny(unsafe_code)]

use std::process::ExitCode;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use tapedb_rival_rules::{Failure, Medium, Publish, Settings, Subscribe, run};

/// Messages that a subscriber may be behind.
const BUFFER: usize = 1_024;

fn main() -> ExitCode {
    set_log_level(LogLevel::Error);
    run(|settings: &Settings| Ok(Iceoryx { service: settings.place.clone() }))
}

/// A service that loses nothing: its publisher waits for its subscriber.
struct Iceoryx {
    service: String,
}

/// The ends keep the node that they belong to.
struct Sending<const N: usize> {
    port: Publisher<ipc::Service, [u64; N], ()>,
    service: Service<N>,
    _node: Node<ipc::Service>,
}

struct Receiving<const N: usize> {
    port: Subscriber<ipc::Service, [u64; N], ()>,
    _service: Service<N>,
    _node: Node<ipc::Service>,
}

type Service<const N: usize> =
    iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [u64; N], ()>;

impl Iceoryx {
    fn open<const N: usize>(&self) -> Result<(Node<ipc::Service>, Service<N>), Failure> {
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let service = node
            .service_builder(&self.service.as_str().try_into()?)
            .publish_subscribe::<[u64; N]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(BUFFER)
            .open_or_create()?;
        Ok((node, service))
    }
}

impl Medium for Iceoryx {
    type Publisher<const N: usize> = Sending<N>;
    type Subscriber<const N: usize> = Receiving<N>;

    fn publisher<const N: usize>(&self) -> Result<Sending<N>, Failure> {
        let (node, service) = self.open()?;
        let port = service
            .publisher_builder()
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        Ok(Sending { port, service, _node: node })
    }

    fn subscriber<const N: usize>(&self) -> Result<Receiving<N>, Failure> {
        let (node, service) = self.open()?;
        let port = service.subscriber_builder().buffer_size(BUFFER).create()?;
        Ok(Receiving { port, _service: service, _node: node })
    }
}

impl<const N: usize> Publish<N> for Sending<N> {
    fn is_connected(&self) -> bool {
        self.service.dynamic_config().number_of_subscribers() > 0
    }

    #[inline]
    fn publish(&mut self, message: &[u64; N]) -> Result<bool, Failure> {
        self.port.loan_uninit()?.write_payload(*message).send()?;
        Ok(true)
    }
}

impl<const N: usize> Subscribe<N> for Receiving<N> {
    #[inline]
    fn poll(&mut self, mut found: impl FnMut(&[u64; N])) -> Result<usize, Failure> {
        let Some(sample) = self.port.receive()? else { return Ok(0) };
        found(sample.payload());
        Ok(1)
    }
}
