//! Frames of clients of a service, sent and received one at a time.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_link::service::ServiceLink;
use emp_link::{Link, LinkAddress, TxFrame};
use emp_wire::{Epoch, Flags, HEADER_BYTES, Header, Kind, Sequence, destination_tag_of};

/// Longest that anything here may take on a machine under load.
const PATIENCE: Duration = Duration::from_secs(30);

/// A data frame from one node to another with a number in it.
pub fn frame(from: u32, to: u32, number: u64, payload: usize) -> Vec<u8> {
    let header = Header {
        kind: Kind::Data,
        flags: Flags(0),
        length: (8 + payload) as u16,
        destination_tag: destination_tag_of(to),
        destination_epoch: 1,
        source_tag: from,
        source_epoch: Epoch(1),
        sequence: Sequence(number as u32),
        acknowledge: Sequence(0),
        word: 0,
    };
    let mut bytes = [0; HEADER_BYTES];
    header.emit(&mut bytes);
    let fill = (0..payload).map(|place| (number as usize * 7 + place) as u8);
    bytes.into_iter().chain(number.to_be_bytes()).chain(fill).collect()
}

pub fn send(link: &mut ServiceLink, to: LinkAddress, bytes: &[u8]) {
    let since = Instant::now();
    while link.send(&[TxFrame { to, parts: &[IoSlice::new(bytes)] }]) == 0 {
        assert!(since.elapsed() < PATIENCE, "the service takes nothing");
        std::thread::yield_now();
    }
}

/// Receives one frame.
pub fn receive(link: &mut ServiceLink) -> Vec<u8> {
    let (since, mut got) = (Instant::now(), None);
    while link.receive(1, &mut |bytes, _| got = Some(bytes.to_vec())) == 0 {
        assert!(since.elapsed() < PATIENCE, "nothing comes");
        link.wait(Some(Duration::from_millis(10)));
    }
    got.expect("it was counted")
}
