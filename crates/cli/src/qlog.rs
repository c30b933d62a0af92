//! qlog's envelope (a header and events, as records of JSON text sequences, RFC 7464) around EMP's own events: what tools that draw
//! sequence diagrams and the like of qlog take.
//!
//! Events: `emp:frame_sent`, `emp:frame_received`, `emp:frame_dropped` (with `trigger`, why) and, of the simulator, `emp:frame_lost`
//! (with `trigger`, by what).

use std::io::{self, Write};

use emp_wire::{Flags, Header};
use serde_json::{Value, json};

/// Begins each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1E;

/// A sequence being written.
pub struct Qlog<W: Write>(W);

impl<W: Write> Qlog<W> {
    /// Begins it with its header. Times are milliseconds since `epoch`, of the clock of this type.
    ///
    /// # Errors
    ///
    /// Of the writer.
    pub fn new(
        writer: W,
        title: &str,
        vantage: &str,
        (clock, epoch): (&str, &str),
    ) -> io::Result<Self> {
        let mut log = Self(writer);
        log.record(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": title,
            "trace": {
                "vantage_point": { "type": "network", "name": vantage },
                "event_schemas": ["urn:emp:qlog:frames"],
                "common_fields": {
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": clock, "epoch": epoch },
                },
            },
        }))?;
        Ok(log)
    }

    /// Writes an event.
    ///
    /// # Errors
    ///
    /// Of the writer.
    pub fn event(&mut self, nanoseconds: u64, name: &str, data: &Value) -> io::Result<()> {
        let time = nanoseconds as f64 / 1e6;
        self.record(&json!({ "time": time, "name": format!("emp:{name}"), "data": data }))
    }

    fn record(&mut self, value: &Value) -> io::Result<()> {
        self.0.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.0, value)?;
        self.0.write_all(b"\n")
    }

    /// Hands out the writer, with all in it.
    ///
    /// # Errors
    ///
    /// Of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.0.flush()?;
        Ok(self.0)
    }
}

/// What an event says of a frame.
pub fn frame(header: &Header, bytes: usize) -> Value {
    let hex = |value: u64, digits: usize| format!("0x{value:0digits$x}");
    let known = [("ACK", Flags::ACK), ("ACK-REQUEST", Flags::ACK_REQUEST), ("LAST", Flags::LAST)];
    let flags: Vec<_> =
        known.iter().filter(|(_, flag)| header.flags.has(*flag)).map(|(name, _)| *name).collect();
    json!({
        "kind": header.kind.name(),
        "flags": flags,
        "sequence": header.sequence.0,
        "acknowledge": header.acknowledge.0,
        "word": hex(header.word.into(), 8),
        "source_tag": hex(header.source_tag.into(), 8),
        "source_epoch": hex(header.source_epoch.0.into(), 8),
        "destination_tag": hex(header.destination_tag.into(), 4),
        "destination_epoch": hex(header.destination_epoch.into(), 4),
        "raw": { "length": bytes },
    })
}
