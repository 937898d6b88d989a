//! Lines over TCP.

use crate::support::{place, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use tapedb_ilp_load::LoadOptions;

#[test]
fn lines_in_any_pieces() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = TcpStream::connect(server.addresses().tcp.unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    let lines = b"t,symbol=A a==\x10\n\n\n\n\n\n\n?,s=\"x\ny\" 1n\n# comment\nt,symbol=B a=2 2\n";
    for byte in lines {
        client.write_all(&[*byte]).unwrap();
    }
    wait_until(|| place.db.stream("t").is_ok() && place.read("t").lines().count() == 2);
    client.write_all(b"t,symbol=B a=3 3").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(place.read("t").lines().count(), 2, "a line without its end is not stored");
}

#[test]
fn a_wrong_line_ends_the_connection_and_those_before_it_are_stored() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = TcpStream::connect(server.addresses().tcp.unwrap()).unwrap();
    client.write_all(b"t,symbol=A a=1 1\nt,symbol=A a=2 2\nt,symbol=A a=x 3\nt,symbol=A a=4 4\n").unwrap();
    // Closed, perhaps with a reset.
    let _ = client.read(&mut [0]);
    wait_until(|| place.db.stream("t").is_ok() && place.read("t").lines().count() == 2);
}

#[test]
fn a_line_without_an_end_is_bounded() {
    let place = place();
    let server = place.serve(LoadOptions::default(), None);
    let mut client = TcpStream::connect(server.addresses().tcp.unwrap()).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while sent < 64 && client.write_all(&piece).is_ok() {
        sent += 1;
    }
    assert!(sent < 64, "the connection is closed");
}

#[test]
fn users_that_must_log_in_cannot_use_tcp() {
    let place = place();
    let server = place.serve(LoadOptions::default(), Some(place.users()));
    let mut client = TcpStream::connect(server.addresses().tcp.unwrap()).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
}
