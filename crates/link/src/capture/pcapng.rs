//! Writing pcapng: one section, Ethernet interfaces, one block a frame. Little endian throughout, which the section's byte-order mark
//! announces.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const BYTE_ORDER_MARK: u32 = 0x1A2B_3C4D;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_TIME_RESOLUTION: u16 = 9;
/// Time stamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Bytes of a packet block without its data and comment: type, two lengths, interface, time, two data lengths (32), the flags option
/// (8) and the end of options (4).
const PACKET_BLOCK_BYTES: usize = 44;
/// Bytes that are collected before the system gets them: some dozens of frames a call.
const COLLECTED_BYTES: usize = 128 << 10;
/// Bytes of the longest comment.
const COMMENT_BYTES_MAX: usize = 1000;

/// Which way a frame went; the numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In = 1,
    /// Sent.
    Out = 2,
}

/// A frame with what is said of it. Its bytes are in parts.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// As [`Pcapng::interface`] numbered it.
    pub interface: u32,
    /// When it was seen.
    pub time: SystemTime,
    /// Which way it went.
    pub direction: Direction,
    /// What a reader is told of it; may be empty.
    pub comment: &'a str,
}

/// What a capture is written to.
pub trait Target: Write {
    /// Makes it end after so many bytes, all of which were written. Best effort.
    fn cut(&mut self, bytes: u64) {
        let _ = bytes;
    }
}

impl Target for File {
    fn cut(&mut self, bytes: u64) {
        let _ = self.set_len(bytes);
        let _ = self.seek(SeekFrom::Start(bytes));
    }
}

impl Target for Vec<u8> {}
impl Target for &mut Vec<u8> {}
impl Target for io::Sink {}

/// A file being written. It ends with a whole block whatever happens, so that others can always read it.
pub struct Pcapng<W: Target = File> {
    target: W,
    collected: Vec<u8>,
    /// Bytes that the target has, all of whole blocks.
    written: u64,
    limit: u64,
    interfaces: u32,
    frames: u64,
    skipped: u64,
    /// Why nothing more is written.
    failure: Option<io::Error>,
}

impl Pcapng<File> {
    /// A new file, of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or not even its beginning can be written.
    pub fn create(path: &Path, limit: u64) -> io::Result<Self> {
        Self::new(File::create(path)?, limit)
    }
}

impl<W: Target> Pcapng<W> {
    /// Begins with the section's header; at most `limit` bytes are written.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub fn new(target: W, limit: u64) -> io::Result<Self> {
        let mut collected = Vec::with_capacity(COLLECTED_BYTES);
        section(&mut collected);
        let mut file = Self {
            target,
            collected,
            written: 0,
            limit,
            interfaces: 0,
            frames: 0,
            skipped: 0,
            failure: None,
        };
        file.flush();
        match file.failure.take() {
            Some(error) => Err(error),
            None => Ok(file),
        }
    }

    /// Describes another interface, and gives its number.
    pub fn interface(&mut self, name: &str) -> u32 {
        // A file without the description of a frame's interface cannot be read, so it is not bounded by the limit.
        description(&mut self.collected, name);
        self.flush();
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Writes a frame given in parts. False if there was no room, or writing failed.
    pub fn frame<'a>(
        &mut self,
        captured: &Captured<'_>,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> bool {
        let length: usize = parts.clone().map(<[u8]>::len).sum();
        let comment = truncated(captured.comment);
        let said = if comment.is_empty() { 0 } else { 4 + comment.len().next_multiple_of(4) };
        let total = PACKET_BLOCK_BYTES + length.next_multiple_of(4) + said;
        let used = self.written + self.collected.len() as u64;
        if self.failure.is_some() || used + total as u64 > self.limit {
            self.skipped += 1;
            return false;
        }
        let time = captured.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let block = &mut self.collected;
        let start = begin(block, ENHANCED_PACKET);
        for word in
            [captured.interface, (time >> 32) as u32, time as u32, length as u32, length as u32]
        {
            block.extend_from_slice(&word.to_le_bytes());
        }
        parts.for_each(|part| block.extend_from_slice(part));
        block.resize(block.len() + length.next_multiple_of(4) - length, 0);
        if !comment.is_empty() {
            option(block, OPTION_COMMENT, comment.as_bytes());
        }
        option(block, OPTION_PACKET_FLAGS, &(captured.direction as u32).to_le_bytes());
        option(block, OPTION_END, &[]);
        finish(block, start);
        debug_assert_eq!(block.len() - start, total);
        self.frames += 1;
        if self.collected.len() >= COLLECTED_BYTES {
            self.flush();
        }
        self.failure.is_none()
    }

    /// Hands everything to the system. A failure shows in [`failure`](Self::failure) and in the next frame.
    pub fn flush(&mut self) {
        if self.failure.is_some() || self.collected.is_empty() {
            return;
        }
        match self.target.write_all(&self.collected).and_then(|()| self.target.flush()) {
            Ok(()) => self.written += self.collected.len() as u64,
            Err(error) => {
                self.salvage();
                self.failure = Some(error);
            }
        }
        self.collected.clear();
    }

    /// Writes as many whole blocks as there is room for: a torn one would make all of the file unreadable.
    fn salvage(&mut self) {
        self.target.cut(self.written);
        let mut rest = self.collected.as_slice();
        while let Some(length) = rest.get(4..).and_then(|rest| rest.first_chunk()) {
            let (block, behind) = rest.split_at(u32::from_le_bytes(*length) as usize);
            if self.target.write_all(block).is_err() {
                self.target.cut(self.written);
                break;
            }
            self.written += block.len() as u64;
            rest = behind;
        }
        let mut lost = 0;
        while let Some(length) = rest.get(4..).and_then(|rest| rest.first_chunk()) {
            rest = &rest[u32::from_le_bytes(*length) as usize..];
            lost += 1;
        }
        self.frames = self.frames.saturating_sub(lost);
        self.skipped += lost;
    }

    /// Why nothing more is written: the disk is full, say.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Frames written, or collected to be.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames not written: the limit is reached, or writing failed.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.written + self.collected.len() as u64
    }
}

impl<W: Target> Drop for Pcapng<W> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The beginning of a comment that is not longer than comments may be.
fn truncated(comment: &str) -> &str {
    let mut end = comment.len().min(COMMENT_BYTES_MAX);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    &comment[..end]
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
    block.resize(block.len() + value.len().next_multiple_of(4) - value.len(), 0);
}
