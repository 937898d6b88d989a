//! A TCP proxy that cuts connections after random numbers of bytes.

use crate::plain::lock;
use crate::support::Random;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes bytes to a server, and cuts connections.
pub struct Proxy {
    pub address: SocketAddr,
    /// Number of cut connections.
    pub cuts: Arc<AtomicU64>,
    /// The most bytes in one direction before a cut; 0: unlimited.
    pub bytes_max: Arc<AtomicU64>,
}

impl Proxy {
    /// A proxy for a server.
    pub fn before(server: SocketAddr, bytes_max: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, bytes_max) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(bytes_max)));
        let proxy = Self { address, cuts: cuts.clone(), bytes_max: bytes_max.clone() };
        let random = Arc::new(Mutex::new(Random::new()));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                for (from, to) in [(client, server), (back, forth)] {
                    let (cuts, bytes_max, random) = (cuts.clone(), bytes_max.clone(), random.clone());
                    thread::spawn(move || pass(from, to, &cuts, &bytes_max, &random));
                }
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("tape://{}", self.address)
    }
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    cuts: &AtomicU64,
    bytes_max: &AtomicU64,
    random: &Mutex<Random>,
) {
    let mut passed = 0;
    let share = lock(random).next() % 1024;
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let most = bytes_max.load(Ordering::Relaxed);
        let left = match most {
            0 => read as u64,
            _ => (most * share / 1024).saturating_sub(passed),
        };
        let kept = (read as u64).min(left) as usize;
        passed += read as u64;
        if to.write_all(&buffer[..kept]).is_err() {
            break;
        }
        if kept < read {
            cuts.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
