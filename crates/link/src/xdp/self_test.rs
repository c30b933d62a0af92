//! Whether a socket that was just made does what it should: frames with a checksum are fed to the
//! program as if they had arrived, and must come out of the socket unharmed; one frame is sent.

use std::time::{Duration, Instant};

use emp_rings::{XdpProgram, Xsk};
use emp_wire::{Checksum, DESTINATION_TAG_OFFSET};

use super::program::{PASS, REDIRECT};
use crate::ethernet::Framing;
use crate::gather::ETHERNET_HEADER_BYTES;

/// Longest that a frame may take into the socket or out of it. Both happen within the system call
/// on most interfaces; a machine under load is given time.
const PATIENCE: Duration = Duration::from_millis(500);
/// Pause between looks.
const PAUSE: Duration = Duration::from_micros(50);
/// Frames of each size.
const COPIES: u32 = 8;
/// Frames in bytes, without Ethernet header: the shortest that Ethernet has, one that a driver
/// might copy into the buffer's head, one of the classic full size.
const SIZES: [usize; 3] = [46, 600, 1500];
/// Bytes of the checksum, the last ones of a frame.
const CHECKSUM_BYTES: usize = 4;

/// What is tested.
pub(super) struct Subject<'a> {
    pub(super) program: &'a XdpProgram,
    pub(super) framing: &'a Framing,
    pub(super) node_tag: u16,
    pub(super) interface: u32,
    /// The interface has a carrier: frames can leave.
    pub(super) carrier: bool,
}

impl Subject<'_> {
    /// Tests the socket of a queue. The error says in a sentence what went wrong.
    pub(super) fn test(&self, xsk: &mut Xsk, queue: u32) -> Result<(), String> {
        for (number, bytes) in (1..).zip(SIZES) {
            let bytes = bytes.min(self.framing.frame_bytes_max);
            let frame = self.frame(self.node_tag, bytes, number);
            self.verdicts(&frame, queue)?;
            // The kernel feeds frames to the first queue only.
            if queue == 0 {
                self.receives(xsk, &frame)?;
            }
        }
        if queue == 0 && self.carrier { self.sends(xsk) } else { Ok(()) }
    }

    /// A frame to this very interface: even if it leaves, no switch hands it to anyone.
    fn frame(&self, tag: u16, bytes: usize, seed: u8) -> Vec<u8> {
        let mut frame = self.framing.header_to(self.framing.mac).to_vec();
        frame.extend((0..bytes).map(|place| (place as u8).wrapping_mul(31).wrapping_add(seed)));
        let tag_at = ETHERNET_HEADER_BYTES + DESTINATION_TAG_OFFSET;
        frame[tag_at..tag_at + 2].copy_from_slice(&tag.to_be_bytes());
        let checked = frame.len() - CHECKSUM_BYTES;
        let checksum = Checksum::of(&frame[..checked]).value();
        frame[checked..].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    /// The program takes our frames from the queue to its socket, and no others.
    fn verdicts(&self, frame: &[u8], queue: u32) -> Result<(), String> {
        let mut foreign = frame.to_vec();
        foreign[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
        for (frame, wanted) in [(frame, REDIRECT), (&foreign, PASS)] {
            let verdict = self.program.test(frame, Some((self.interface, queue)));
            let verdict = verdict.map_err(|error| format!("the program cannot be run: {error}"))?;
            if verdict != wanted {
                return Err(format!(
                    "the program answers {verdict} instead of {wanted} on queue {queue}"
                ));
            }
        }
        Ok(())
    }

    /// Frames that are redirected arrive unharmed.
    fn receives(&self, xsk: &mut Xsk, frame: &[u8]) -> Result<(), String> {
        match self.program.inject(frame, COPIES, self.interface) {
            Ok(()) => {}
            // Kernels before 5.18 cannot; then the verdict must do.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            Err(error) => return Err(format!("frames cannot be fed to the program: {error}")),
        }
        let start = Instant::now();
        let (mut good, mut bad) = (0, 0);
        while good < COPIES && start.elapsed() < PATIENCE {
            let looked = xsk.take(|got| match got.bytes {
                bytes if bytes == frame => good += 1,
                // A frame that is ours by its last bytes and yet differs was harmed; others are
                // another node's that happened to arrive.
                bytes if bytes.ends_with(&frame[frame.len() - CHECKSUM_BYTES..]) => bad += 1,
                _ => {}
            });
            if looked.is_none() {
                xsk.publish();
                std::thread::sleep(PAUSE);
            }
        }
        xsk.publish();
        if good < COPIES {
            let bytes = frame.len();
            return Err(format!(
                "of {COPIES} frames of {bytes} bytes {good} arrived, {bad} harmed"
            ));
        }
        Ok(())
    }

    /// A frame that is sent comes back as done.
    fn sends(&self, xsk: &mut Xsk) -> Result<(), String> {
        let frame = self.frame(self.node_tag, SIZES[0].min(self.framing.frame_bytes_max), 0);
        if !xsk.push(&frame, &[]) {
            return Err("the send ring has no room".into());
        }
        xsk.submit();
        let start = Instant::now();
        let mut problem = None;
        while xsk.outstanding() > 0 {
            if start.elapsed() > PATIENCE {
                let why = problem.map(|error: std::io::Error| format!(" ({error})"));
                return Err(format!("a sent frame is not done{}", why.unwrap_or_default()));
            }
            problem = xsk.kick_send().err().or(problem);
            if xsk.reap() == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}
