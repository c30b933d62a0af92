//! An engine that has neither a door nor a thread: it takes a client's records one by one. What the fuzz target `service` tries, and nobody else.

use std::io;
use std::os::fd::AsFd;

use emp_host::Node;
use emp_link::service::channel::{Channel, RECORD_BYTES_MAX};

use super::Options;
use super::engine::{Engine, Over};

/// Turns after a record: more than anything needs that goes on by itself.
const TURNS: usize = 16;

/// The engine, and its client's end of the rings.
pub struct Trial {
    engine: Engine,
    client: Channel,
    buffer: Vec<u8>,
}

impl Trial {
    /// Of a node that runs by itself.
    ///
    /// # Errors
    ///
    /// If there is no memory for the rings.
    pub fn new(node: Node, options: &Options) -> io::Result<Self> {
        let (channel, memory, bell) = Channel::create()?;
        let client = Channel::open(memory.as_fd(), bell)?;
        let engine = Engine::new(node, channel, options);
        Ok(Self { engine, client, buffer: vec![0; RECORD_BYTES_MAX] })
    }

    /// Hands it a record, turns it, and takes what it says.
    ///
    /// # Errors
    ///
    /// The line with which the client is put out.
    ///
    /// # Panics
    ///
    /// If it holds more for the client than it may, or what it says cannot be read.
    pub fn take(&mut self, mark: u32, record: &[u8]) -> Result<(), String> {
        self.client.write(mark, &[record]).map_err(|broken| broken.to_string())?;
        for _ in 0..TURNS {
            let worked = self.engine.turn(&mut self.buffer).map_err(|over| match over {
                Over::Wrong(why) => why,
                Over::Left | Over::Closed => String::from("it left"),
            })?;
            while self.client.read(&mut self.buffer).expect("the service is sound").is_some() {}
            if !worked {
                break;
            }
        }
        let Engine { held, held_bytes_max, sends, receives, operations_max, .. } = self.engine;
        assert!(held <= held_bytes_max, "{held} bytes are held");
        let most = operations_max;
        assert!(sends <= most && receives <= most, "{sends} and {receives}, not {most} operations");
        Ok(())
    }
}
