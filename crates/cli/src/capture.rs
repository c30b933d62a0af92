//! `emp capture`: frames of EMP on a live interface, to a pcapng file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use emp_link::{CAPTURE_BYTES, Captured, Pcapng, TAP_PORTS_MAX, Tap, TapOptions};
use emp_wire::{NodeId, UDP_PORT_DEFAULT, UDP_PORT_GROUP};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bail_user;
use crate::error::{print, user_error};
use crate::sizes;

/// How often an end is looked for, and what was seen is on disk at the latest.
const GLANCE: Duration = Duration::from_millis(100);

/// Write the frames of EMP that an interface sends and receives to a file for Wireshark.
///
/// Needs CAP_NET_RAW. Frames that the link `packet` sends pass by the kernel's taps and are seen only where they arrive; EMP_CAPTURE
/// (emp(7)) captures inside a process, with what became of each frame. share/emp/emp.lua shows captures in Wireshark and tshark.
#[derive(clap::Args)]
pub struct Args {
    /// The interface to look at.
    #[arg(long, short)]
    interface: String,
    /// Only frames from or to this node: its name, or its identity in hexadecimal (0x...).
    #[arg(long)]
    node: Option<String>,
    /// A UDP port to look at besides raw frames; may be given several times [default: 51966, and 51965, the multicast group's].
    #[arg(long, conflicts_with = "any_port")]
    port: Vec<u16>,
    /// Look at all UDP ports, for datagrams that consist of frames of EMP: those of MPI and of the other faces.
    #[arg(long)]
    any_port: bool,
    /// The EtherType of raw frames.
    #[arg(long, value_parser = ethertype, default_value = "0x88b5")]
    ethertype: u16,
    /// Stop when the file has this many bytes, such as 100M [default: 1G].
    #[arg(long, value_name = "BYTES")]
    limit: Option<String>,
    /// Stop after this many frames.
    #[arg(long, value_name = "N")]
    frames: Option<u64>,
    /// Stop after this many seconds.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// The file to write.
    file: PathBuf,
}

/// An EtherType, in decimal or hexadecimal.
pub(crate) fn ethertype(text: &str) -> Result<u16, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    // Below are lengths of IEEE 802.3.
    parsed.ok().filter(|number| *number >= 0x600).ok_or("an EtherType is 0x600 to 0xffff".into())
}

fn node(text: &str) -> anyhow::Result<NodeId> {
    let node = match text.strip_prefix("0x") {
        Some(hex) => match u64::from_str_radix(hex, 16) {
            Ok(number) => NodeId(number),
            Err(_) => bail_user!("--node {text} is no identity of 64 bits in hexadecimal"),
        },
        None => NodeId::from_name(text),
    };
    if node == NodeId::ANY {
        bail_user!("--node {text} means no node");
    }
    Ok(node)
}

fn options(args: &Args) -> anyhow::Result<TapOptions> {
    let ports = match (args.any_port, args.port.as_slice()) {
        (true, _) => Vec::new(),
        (false, []) => vec![UDP_PORT_DEFAULT, UDP_PORT_GROUP],
        (false, ports) if ports.len() > TAP_PORTS_MAX => {
            bail_user!("--port may be given {TAP_PORTS_MAX} times; --any-port looks at all")
        }
        (false, ports) => ports.to_vec(),
    };
    let node = args.node.as_deref().map(node).transpose()?;
    Ok(TapOptions { interface: args.interface.clone(), ethertype: args.ethertype, ports, node })
}

/// Why it has stopped.
enum End {
    Asked,
    Full,
}

/// Runs `emp capture`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let limit = args.limit.as_deref().map(sizes::parse_one).transpose()?;
    let limit = limit.map_or(CAPTURE_BYTES, |bytes| bytes as u64);
    let options = options(args)?;
    let mut tap = Tap::open(options).map_err(|error| user_error(error.to_string()))?;
    let name = args.file.display();
    let mut file = match Pcapng::create(&args.file, limit) {
        Ok(file) => file,
        Err(error) => bail_user!("{name}: {error}"),
    };
    let interface = file.interface(&args.interface);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let end = look_on(args, &mut tap, &mut file, interface, &stop)?;
    file.flush();
    let dropped = tap.dropped();
    if let Some(error) = file.failure() {
        bail!(
            "{name}: {error}; of {} frames that were seen the file has those before",
            file.frames()
        );
    }
    let full = match end {
        End::Full => format!("; it is full ({limit} bytes: --limit)"),
        End::Asked => String::new(),
    };
    let (frames, bytes) = (file.frames(), file.bytes());
    print(&format!("{name}: {frames} frames, {bytes} bytes; the kernel dropped {dropped}{full}\n"))
}

fn look_on(
    args: &Args,
    tap: &mut Tap,
    file: &mut Pcapng,
    interface: u32,
    stop: &AtomicBool,
) -> anyhow::Result<End> {
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut flushed = Instant::now();
    loop {
        let over = until.is_some_and(|until| Instant::now() >= until);
        if over
            || stop.load(Ordering::Relaxed)
            || args.frames.is_some_and(|most| file.frames() >= most)
        {
            return Ok(End::Asked);
        }
        let seen = tap.next(GLANCE).with_context(|| format!("capture on {}", args.interface))?;
        if let Some(seen) = seen {
            let captured =
                Captured { interface, time: seen.time, direction: seen.direction, comment: "" };
            if !file.frame(&captured, std::iter::once(seen.bytes)) {
                return Ok(End::Full);
            }
        }
        if flushed.elapsed() >= GLANCE {
            file.flush();
            flushed = Instant::now();
            if file.failure().is_some() {
                return Ok(End::Full);
            }
        }
    }
}
