//! `emp trace`: a capture of EMP's as qlog.

use std::fs::File;
use std::io::{BufWriter, Read, Write, stdout};
use std::path::PathBuf;

use anyhow::Context;
use emp_wire::Header;
use serde_json::json;

use crate::bail_user;
use crate::error::printed;
use crate::qlog::{self, Qlog};

/// Bytes of the longest block that is read: a frame that a kernel segments later, with its options.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Turn a capture of `emp capture` or EMP_CAPTURE into qlog: JSON text sequences with an event for each frame.
///
/// Events are emp:frame_sent, emp:frame_received and emp:frame_dropped, whose trigger is why. `emp sim --seed N --qlog FILE` writes
/// the same of a simulated run.
#[derive(clap::Args)]
pub struct Args {
    /// The capture.
    capture: PathBuf,
    /// Where to [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// One packet of a capture.
struct Packet<'a> {
    nanoseconds: u64,
    sent: bool,
    comment: &'a str,
    bytes: &'a [u8],
}

/// Runs `emp trace`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.capture.display().to_string();
    let mut file = match File::open(&args.capture) {
        Ok(file) => std::io::BufReader::new(file),
        Err(error) => bail_user!("{name}: {error}"),
    };
    let writer: Box<dyn Write> = match &args.output {
        None => Box::new(stdout().lock()),
        Some(path) => match File::create(path) {
            Ok(file) => Box::new(file),
            Err(error) => bail_user!("{}: {error}", path.display()),
        },
    };
    let clock = ("system", "1970-01-01T00:00:00.000Z");
    let mut log =
        printed(Qlog::new(BufWriter::new(writer), &name, &name, clock)).context(WRITING)?;
    let mut block = Vec::new();
    let mut first = true;
    while let Some(kind) = next_block(&mut file, &mut block) {
        if std::mem::take(&mut first) && kind != Some(SECTION) {
            bail_user!("{name} is no capture that emp has written");
        }
        let Some(kind) = kind else {
            bail_user!("{name} is cut, or no capture that emp has written")
        };
        if kind == PACKET
            && let Some(packet) = packet(&block)
        {
            printed(events(&mut log, &packet)).context(WRITING)?;
        }
    }
    if first {
        bail_user!("{name} is empty");
    }
    // What cannot be written is told of, and not lost with the last buffer.
    printed(log.finish()).context(WRITING)?;
    Ok(())
}

const WRITING: &str = "writing the trace";
const SECTION: u32 = 0x0A0D_0D0A;
const PACKET: u32 = 6;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The next block's kind, and its body. `None` at the end of the file; `Some(None)` if that is no block.
fn next_block(file: &mut impl Read, body: &mut Vec<u8>) -> Option<Option<u32>> {
    let mut head = [0; 8];
    match file.read(&mut head[..1]) {
        Ok(1) => {}
        _ => return None,
    }
    if file.read_exact(&mut head[1..]).is_err() {
        return Some(None);
    }
    let (kind, length) = (word(&head, 0), word(&head, 4).unwrap_or(0) as usize);
    if !(12..=BLOCK_BYTES_MAX).contains(&length) || length % 4 != 0 {
        return Some(None);
    }
    body.resize(length - 8, 0);
    let whole = file.read_exact(body).is_ok() && word(body, length - 12) == Some(length as u32);
    body.truncate(length - 12);
    Some(kind.filter(|_| whole))
}

/// A packet, of the body of its block.
fn packet(body: &[u8]) -> Option<Packet<'_>> {
    let nanoseconds = u64::from(word(body, 4)?) << 32 | u64::from(word(body, 8)?);
    let length = word(body, 12)? as usize;
    let bytes = body.get(20..20 + length)?;
    let (mut sent, mut comment) = (false, "");
    let mut options = body.get(20 + length.next_multiple_of(4)..).unwrap_or_default();
    while let Some(head) = word(options, 0) {
        let (code, size) = (head & 0xFFFF, (head >> 16) as usize);
        let Some(value) = options.get(4..4 + size) else { break };
        match code {
            0 => break,
            1 => comment = str::from_utf8(value).unwrap_or_default(),
            2 => sent = word(value, 0).is_some_and(|flags| flags & 3 == 2),
            _ => {}
        }
        options = options.get(4 + size.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Packet { nanoseconds, sent, comment, bytes })
}

/// One event for each frame of a packet.
fn events<W: Write>(log: &mut Qlog<W>, packet: &Packet<'_>) -> std::io::Result<()> {
    let Some(link_frame) = emp_link::carried_frame(packet.bytes) else { return Ok(()) };
    let name = match (packet.sent, packet.comment) {
        (true, _) => "frame_sent",
        (false, "") => "frame_received",
        (false, _) => "frame_dropped",
    };
    for frame in emp_wire::frames(link_frame) {
        let mut data = match Header::parse(frame) {
            Ok((header, _)) => qlog::frame(&header, frame.len()),
            Err(reason) => {
                json!({ "unreadable": format!("{reason:?}"), "raw": { "length": frame.len() } })
            }
        };
        if name == "frame_dropped" {
            data["trigger"] = packet.comment.trim_start_matches("dropped: ").into();
        }
        log.event(packet.nanoseconds, name, &data)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use emp_link::{Captured, Direction, Pcapng};

    use super::*;

    fn ethernet(frame: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &[0x88, 0xB5], frame].concat()
    }

    #[test]
    fn a_capture_becomes_events_with_reasons() {
        let directory = tempfile::tempdir().unwrap();
        let (capture, output) =
            (directory.path().join("a.pcapng"), directory.path().join("a.sqlog"));
        let mut file = Pcapng::create(&capture, 1 << 20).unwrap();
        let interface = file.interface("emp0");
        let mut frame = vec![0; 40];
        (frame[0], frame[1], frame[3], frame[19]) = (0x24, 9, 8, 7);
        let time = UNIX_EPOCH + Duration::from_micros(1_500_250);
        let two = [frame.clone(), frame.clone()].concat();
        for (direction, comment, bytes) in [
            (Direction::Out, "", &two),
            (Direction::In, "", &frame),
            (Direction::In, "dropped: stale source", &frame),
        ] {
            let captured = Captured { interface, time, direction, comment };
            assert!(file.frame(&captured, std::iter::once(&*ethernet(bytes))));
        }
        drop(file);
        run(&Args { capture: capture.clone(), output: Some(output.clone()) }).unwrap();
        let text = std::fs::read_to_string(output).unwrap();
        let records: Vec<serde_json::Value> = text
            .split('\u{1E}')
            .skip(1)
            .map(|record| serde_json::from_str(record).expect("a record of JSON"))
            .collect();
        assert_eq!(records[0]["serialization_format"], "application/qlog+json-seq");
        let names: Vec<_> =
            records[1..].iter().map(|record| record["name"].as_str().unwrap()).collect();
        let wanted = ["frame_sent", "frame_sent", "frame_received", "frame_dropped"];
        assert_eq!(names, wanted.map(|name| format!("emp:{name}")));
        let last = &records[4];
        assert_eq!(last["time"], 1500.25);
        assert_eq!(last["data"]["trigger"], "stale source");
        assert_eq!((&last["data"]["kind"], &last["data"]["sequence"]), (&"data".into(), &7.into()));

        // What is cut or foreign is one line.
        let whole = std::fs::read(&capture).unwrap();
        for bytes in [&whole[..whole.len() - 3], &whole[28..], b"", b"GIF89a is none"] {
            std::fs::write(&capture, bytes).unwrap();
            let error =
                run(&Args { capture: capture.clone(), output: Some(directory.path().join("x")) });
            assert!(
                error.unwrap_err().to_string().contains("a.pcapng is "),
                "{} bytes",
                bytes.len()
            );
        }
    }
}
