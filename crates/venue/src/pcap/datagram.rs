//! From a packet to what UDP carries in it.

use pcap_parser::Linktype;

/// Most tags of virtual networks in a frame.
const TAGS_MAX: usize = 4;
/// Most headers between that of IPv6 and that of UDP.
const EXTENSIONS_MAX: usize = 8;
const UDP: u8 = 17;

/// Where datagrams are sent to: a line of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Line {
    /// The address; of IPv4 in the low 32 bits.
    pub(crate) address: u128,
    pub(crate) port: u16,
}

/// What a packet is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Datagram<'a> {
    /// A datagram of UDP, and whether the capture cut it.
    Whole { payload: &'a [u8], is_cut: bool, line: Line },
    /// A part of a datagram.
    Fragment,
    /// Something else, by its name.
    Other(&'static str),
}

/// What UDP carries in a packet.
pub(super) fn datagram(link: Linktype, packet: &[u8]) -> Datagram<'_> {
    parse(link, packet).unwrap_or(Datagram::Other("a packet that is cut in its headers"))
}

/// `None`: the packet ends too early.
fn parse(link: Linktype, packet: &[u8]) -> Option<Datagram<'_>> {
    let (kind, network) = match link {
        Linktype::ETHERNET => ethernet(packet)?,
        Linktype::LINUX_SLL => (u16_at(packet, 14)?, packet.get(16..)?),
        Linktype::LINUX_SLL2 => (u16_at(packet, 0)?, packet.get(20..)?),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => match packet.first()? >> 4 {
            6 => (0x86DD, packet),
            _ => (0x0800, packet),
        },
        _ => return Some(Datagram::Other("a packet of an unknown kind of network")),
    };
    match kind {
        0x0800 => ipv4(network),
        0x86DD => ipv6(network),
        _ => Some(Datagram::Other("a packet of another protocol than IP")),
    }
}

/// Type and content of a frame, behind the tags of virtual networks.
fn ethernet(packet: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    for _ in 0..TAGS_MAX {
        match u16_at(packet, at)? {
            0x8100 | 0x88A8 | 0x9100 => at += 4,
            _ => break,
        }
    }
    Some((u16_at(packet, at)?, packet.get(at + 2..)?))
}

fn ipv4(packet: &[u8]) -> Option<Datagram<'_>> {
    let header = usize::from(packet.first()? & 0xF) * 4;
    let total = usize::from(u16_at(packet, 2)?);
    // The bit that more follows, and the offset of the part.
    if u16_at(packet, 6)? & 0x3FFF != 0 {
        return Some(Datagram::Fragment);
    }
    if *packet.get(9)? != UDP {
        return Some(Datagram::Other("a packet of another protocol than UDP"));
    }
    if header < 20 {
        return None;
    }
    let address = u32::from_be_bytes(*packet.get(16..)?.first_chunk()?);
    udp(packet.get(header..)?, total.checked_sub(header)?, address.into())
}

fn ipv6(packet: &[u8]) -> Option<Datagram<'_>> {
    let (mut next, mut left) = (*packet.get(6)?, usize::from(u16_at(packet, 4)?));
    let address = u128::from_be_bytes(*packet.get(24..)?.first_chunk()?);
    let mut rest = packet.get(40..)?;
    for _ in 0..EXTENSIONS_MAX {
        let length = match next {
            UDP => return udp(rest, left, address),
            44 => return Some(Datagram::Fragment),
            0 | 43 | 60 => usize::from(*rest.get(1)?) * 8 + 8,
            _ => break,
        };
        next = *rest.first()?;
        left = left.checked_sub(length)?;
        rest = rest.get(length..)?;
    }
    Some(Datagram::Other("a packet of another protocol than UDP"))
}

/// `stated` is the length that the header before it states.
fn udp(packet: &[u8], stated: usize, address: u128) -> Option<Datagram<'_>> {
    let line = Line { address, port: u16_at(packet, 2)? };
    let length = usize::from(u16_at(packet, 4)?).checked_sub(8)?;
    let there = packet.get(8..)?;
    let length = length.min(stated.checked_sub(8)?);
    // Short frames are padded: behind the length is nothing of the datagram.
    Some(Datagram::Whole { payload: &there[..length.min(there.len())], is_cut: length > there.len(), line })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An Ethernet frame with a datagram of UDP in IPv4.
    pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((28 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 233, 0, 0, 1]);
        frame.extend([0x30, 0x39, 0x30, 0x39]);
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    const LINE: Line = Line { address: 0xE900_0001, port: 0x3039 };

    fn of(packet: &[u8]) -> Datagram<'_> {
        datagram(Linktype::ETHERNET, packet)
    }

    #[test]
    fn datagrams_are_found_behind_tags_and_before_padding() {
        let plain = frame(b"hello");
        let hello = Datagram::Whole { payload: b"hello", is_cut: false, line: LINE };
        assert_eq!(of(&plain), hello);
        let padded = [&plain[..], &[0; 13]].concat();
        assert_eq!(of(&padded), hello);
        let tagged = [&plain[..12], &[0x88, 0xA8, 0, 1, 0x81, 0, 0, 2], &plain[12..]].concat();
        assert_eq!(of(&tagged), hello);
        assert_eq!(datagram(Linktype::RAW, &plain[14..]), hello);
        let cut = &plain[..plain.len() - 2];
        assert_eq!(of(cut), Datagram::Whole { payload: b"hel", is_cut: true, line: LINE });
    }

    #[test]
    fn fragments_and_others_are_named() {
        let mut fragment = frame(b"hello");
        fragment[20] = 0x20;
        assert_eq!(of(&fragment), Datagram::Fragment);
        let mut tcp = frame(b"hello");
        tcp[23] = 6;
        assert_eq!(of(&tcp), Datagram::Other("a packet of another protocol than UDP"));
        let mut arp = frame(b"hello");
        arp[13] = 6;
        assert_eq!(of(&arp), Datagram::Other("a packet of another protocol than IP"));
    }

    #[test]
    fn any_bytes_give_something() {
        let plain = frame(b"hello");
        for length in 0..plain.len() {
            let _ = of(&plain[..length]);
            for value in [0, 0xFF, 0x60, 44] {
                let mut changed = plain.clone();
                changed[length] = value;
                for link in [1, 101, 113, 276, 99] {
                    let _ = datagram(Linktype(link), &changed);
                }
            }
        }
    }
}
