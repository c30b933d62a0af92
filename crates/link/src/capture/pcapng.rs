//! Writing pcapng: one section, one Ethernet interface, one block a frame. Little endian
//! throughout, which the section's byte-order mark announces.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const BYTE_ORDER_MARK: u32 = 0x1A2B_3C4D;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_TIME_RESOLUTION: u16 = 9;
/// Time stamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Bytes of a packet block without its data: type, two lengths, interface, time, two data lengths
/// (32), the flags option (8) and the end of options (4).
const PACKET_BLOCK_BYTES: usize = 44;

/// Which way a frame went; the numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In = 1,
    Out = 2,
}

/// A file being written.
pub(super) struct Pcapng<W: Write> {
    writer: W,
    /// Bytes that may still be written; 0 after a failure.
    left: u64,
    block: Vec<u8>,
}

impl<W: Write> Pcapng<W> {
    /// Begins the file: section header and interface description.
    pub(super) fn new(mut writer: W, interface: &str, limit: u64) -> io::Result<Self> {
        let mut block = Vec::new();
        section(&mut block);
        description(&mut block, interface);
        writer.write_all(&block)?;
        writer.flush()?;
        Ok(Self { writer, left: limit.saturating_sub(block.len() as u64), block })
    }

    /// Writes a frame given in parts. False if there was no room, or writing failed.
    pub(super) fn frame<'a>(
        &mut self,
        time: SystemTime,
        direction: Direction,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> bool {
        let length: usize = parts.clone().map(<[u8]>::len).sum();
        let total = PACKET_BLOCK_BYTES + length.next_multiple_of(4);
        if total as u64 > self.left {
            return false;
        }
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let block = &mut self.block;
        block.clear();
        for word in [
            ENHANCED_PACKET,
            total as u32,
            0,
            (time >> 32) as u32,
            time as u32,
            length as u32,
            length as u32,
        ] {
            block.extend_from_slice(&word.to_le_bytes());
        }
        parts.for_each(|part| block.extend_from_slice(part));
        block.resize(block.len().next_multiple_of(4), 0);
        option(block, OPTION_PACKET_FLAGS, &(direction as u32).to_le_bytes());
        option(block, OPTION_END, &[]);
        block.extend_from_slice(&(total as u32).to_le_bytes());
        if self.writer.write_all(block).is_err() {
            // A torn block would make the rest unreadable: better no rest.
            self.left = 0;
            return false;
        }
        self.left -= total as u64;
        true
    }

    /// Hands everything to the system. A failure shows in the next frame.
    pub(super) fn flush(&mut self) {
        if self.writer.flush().is_err() {
            self.left = 0;
        }
    }
}

fn section(block: &mut Vec<u8>) {
    let start = begin(block, SECTION_HEADER);
    block.extend_from_slice(&BYTE_ORDER_MARK.to_le_bytes());
    // Version 1.0, and a section of unknown length.
    block.extend_from_slice(&1u16.to_le_bytes());
    block.extend_from_slice(&0u16.to_le_bytes());
    block.extend_from_slice(&u64::MAX.to_le_bytes());
    option(block, OPTION_USER_APPLICATION, b"emp");
    option(block, OPTION_END, &[]);
    finish(block, start);
}

fn description(block: &mut Vec<u8>, name: &str) {
    let start = begin(block, INTERFACE_DESCRIPTION);
    block.extend_from_slice(&u32::from(LINKTYPE_ETHERNET).to_le_bytes());
    // Frames are not cut: no snap length.
    block.extend_from_slice(&0u32.to_le_bytes());
    option(block, OPTION_INTERFACE_NAME, &name.as_bytes()[..name.len().min(255)]);
    option(block, OPTION_TIME_RESOLUTION, &[NANOSECONDS]);
    option(block, OPTION_END, &[]);
    finish(block, start);
}

fn begin(block: &mut Vec<u8>, kind: u32) -> usize {
    let start = block.len();
    block.extend_from_slice(&kind.to_le_bytes());
    block.extend_from_slice(&[0; 4]);
    start
}

/// Fills in the length, which stands at a block's beginning and end.
fn finish(block: &mut Vec<u8>, start: usize) {
    let total = (block.len() - start + 4) as u32;
    block[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    block.extend_from_slice(&total.to_le_bytes());
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    block.resize(block.len().next_multiple_of(4), 0);
}
