//! Captures for tests, with what captures have: tags of virtual networks, padding, two lines.

/// A generator of numbers, always the same ones.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A pcap file of nanoseconds with Ethernet frames.
pub struct Capture(pub Vec<u8>);

impl Capture {
    pub fn new() -> Self {
        let mut bytes = vec![0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0];
        bytes.extend([0u32, 0, 65_535, 1].map(u32::to_le_bytes).concat());
        Self(bytes)
    }

    /// A datagram to a port at a time; with as many tags and bytes of padding.
    pub fn add(&mut self, nanos: i64, port: u16, payload: &[u8], (tags, padding): (usize, usize)) {
        let mut frame = vec![0; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((28 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 233, 0, 0, 1, 0x30, 0x39]);
        frame.extend(port.to_be_bytes());
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame.resize(frame.len() + padding, 0);
        let time = [nanos / 1_000_000_000, nanos % 1_000_000_000].map(|part| (part as u32).to_le_bytes());
        self.0.extend(time.concat());
        self.0.extend([frame.len() as u32; 2].map(u32::to_le_bytes).concat());
        self.0.extend(frame);
    }
}
