//! The conformance suite over every link, bare and wrapped.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use emp_link::conformance::{self, Pair};
use emp_link::{
    CAPTURE_BYTES, CaptureLink, Fabric, FaultLink, FaultPlan, Link, LinkThread, LinkWork,
    PacketLink, PacketOptions, ShmLink, ShmOptions, ThreadedLink, UdpLink, UdpOptions, XdpLink,
    XdpMode, XdpOptions,
};
use emp_testing::{Need, skip};

use emp_testing::lab::{INTERFACE, Lab};

type Ends = Result<[Box<dyn Link>; 2], String>;

/// Two nodes in memory, with long frames of so many bytes.
struct Sim {
    long_frame_bytes: usize,
}

impl Pair for Sim {
    fn name(&self) -> String {
        format!("sim, long frames of {} bytes", self.long_frame_bytes)
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let fabric = Fabric::new(2).map_err(|error| error.to_string())?;
        let fabric = fabric.with_long_frames(self.long_frame_bytes);
        let link = |index: u32| -> Result<Box<dyn Link>, String> {
            let link = fabric.link(index, tags[index as usize]).ok_or("no such node")?;
            Ok(Box::new(link))
        };
        Ok([link(0)?, link(1)?])
    }
}

/// Two nodes that meet in a directory of their own.
struct Shm(tempfile::TempDir);

impl Shm {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }
}

impl Pair for Shm {
    fn name(&self) -> String {
        "shm".into()
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let open = |side: usize| -> Result<Box<dyn Link>, String> {
            let directory = Some(self.0.path().join("emp"));
            let options = ShmOptions { directory, ..ShmOptions::new(tags[side]) };
            Ok(Box::new(ShmLink::open(&options).map_err(describe)?))
        };
        Ok([open(0)?, open(1)?])
    }
}

/// Two sockets on loopback, or, in a lab, on either end of a cable.
struct Udp<'l> {
    ips: [IpAddr; 2],
    mtu: Option<usize>,
    lab: Option<&'l Lab>,
}

impl Pair for Udp<'_> {
    fn name(&self) -> String {
        format!("udp on {}, MTU {:?}", self.ips[0], self.mtu)
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let open = |side: usize| -> Result<UdpLink, String> {
            let (bind, mtu) = (Some(self.ips[side]), self.mtu);
            let options = UdpOptions { bind, port: 0, mtu, ..UdpOptions::new(tags[side]) };
            let work = || UdpLink::open(&options).map_err(|error| error.to_string());
            self.lab.map_or_else(work, |lab| lab.inside(side, work))
        };
        let (mut a, mut b) = (open(0)?, open(1)?);
        a.set_peers(vec![b.local_address()]);
        b.set_peers(vec![a.local_address()]);
        Ok([Box::new(a), Box::new(b)])
    }

    fn set_up(&self, up: bool) -> bool {
        let Some(lab) = self.lab.filter(|_| self.ips[0].is_ipv4()) else { return false };
        lab.ip(0, &["link", "set", INTERFACE, if up { "up" } else { "down" }]);
        true
    }
}

struct Packet<'l>(&'l Lab);

impl Pair for Packet<'_> {
    fn name(&self) -> String {
        "packet".into()
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let open = |side: usize| -> Result<Box<dyn Link>, String> {
            let options = PacketOptions::new(INTERFACE, tags[side]);
            let link = self.0.inside(side, || PacketLink::open(&options));
            Ok(Box::new(link.map_err(|error| error.to_string())?))
        };
        Ok([open(0)?, open(1)?])
    }

    fn set_up(&self, up: bool) -> bool {
        self.0.ip(0, &["link", "set", INTERFACE, if up { "up" } else { "down" }]);
        true
    }
}

struct Xdp<'l> {
    lab: &'l Lab,
    mode: XdpMode,
}

impl Pair for Xdp<'_> {
    fn name(&self) -> String {
        format!("xdp, {}", self.mode)
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let open = |side: usize| -> Result<Box<dyn Link>, String> {
            let modes = vec![self.mode];
            let options = XdpOptions { modes, ..XdpOptions::new(INTERFACE, tags[side]) };
            let link = self.lab.inside(side, || XdpLink::open(&options));
            Ok(Box::new(link.map_err(|error| error.to_string())?))
        };
        Ok([open(0)?, open(1)?])
    }

    fn set_up(&self, up: bool) -> bool {
        self.lab.ip(0, &["link", "set", INTERFACE, if up { "up" } else { "down" }]);
        true
    }
}

/// What a link is in.
#[derive(Clone, Copy, Debug)]
enum In {
    Fault,
    Capture,
    /// Another thread makes its calls.
    Thread,
    /// The same, which sleeps whenever it can.
    SleepyThread,
}

/// Any pair inside wrappers that change nothing.
struct Wrapped<'p> {
    inner: &'p dyn Pair,
    by: In,
}

/// The link of a thread that looks for so long before it sleeps.
fn threaded(link: Box<dyn Link>, look_for: Duration) -> Result<Box<dyn Link>, String> {
    let spawn = |work: LinkWork| std::thread::Builder::new().spawn(move || work.run());
    let thread = LinkThread::start(Some(look_for), spawn).map_err(describe)?;
    Ok(Box::new(ThreadedLink::new(link, &thread).map_err(describe)?))
}

impl Pair for Wrapped<'_> {
    fn name(&self) -> String {
        format!("{} in {:?}", self.inner.name(), self.by)
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let [a, b] = self.inner.open(tags)?;
        let wrap = |link: Box<dyn Link>| -> Result<Box<dyn Link>, String> {
            match self.by {
                In::Fault => {
                    // Not the quiet plan, which is passed by, but one that looks at each frame and, as
                    // no frame is of kind 31, lets it be.
                    let plan: FaultPlan = "drop:1,kinds:31,on:both".parse().map_err(describe)?;
                    Ok(Box::new(FaultLink::new(link, &plan)))
                }
                In::Capture => {
                    let capture = CaptureLink::new(link, std::io::sink(), CAPTURE_BYTES);
                    Ok(Box::new(capture.map_err(describe)?))
                }
                In::Thread => threaded(link, Duration::from_micros(50)),
                In::SleepyThread => threaded(link, Duration::ZERO),
            }
        };
        Ok([wrap(a)?, wrap(b)?])
    }

    fn is_threaded(&self) -> bool {
        matches!(self.by, In::Thread | In::SleepyThread)
    }

    fn set_up(&self, up: bool) -> bool {
        self.inner.set_up(up)
    }
}

fn describe(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs the suite over a pair, bare and in each wrapper.
fn conform(pair: &dyn Pair) {
    let all = [In::Fault, In::Capture, In::Thread].map(|by| Wrapped { inner: pair, by });
    for pair in std::iter::once(pair).chain(all.iter().map(|pair| pair as &dyn Pair)) {
        if let Err(failures) = conformance::run(pair) {
            panic!("{failures}");
        }
    }
}

/// The fabric's descriptor stays when a link is closed, those of sockets go with them.
#[test]
fn a_thread_that_sleeps_at_once_conforms() {
    let sim = Sim { long_frame_bytes: 0 };
    let udp = Udp { ips: loopback("127.0.0.1"), mtu: Some(1500), lab: None };
    for inner in [&sim as &dyn Pair, &udp] {
        conformance::run(&Wrapped { inner, by: In::SleepyThread }).expect("it conforms");
    }
}

fn loopback(ip: &str) -> [IpAddr; 2] {
    [0, 1].map(|_| ip.parse().expect("an address"))
}

#[test]
fn sim_conforms() {
    conform(&Sim { long_frame_bytes: 0 });
    conform(&Sim { long_frame_bytes: 61_472 });
}

#[test]
fn shm_conforms() {
    conform(&Shm::new());
}

#[test]
fn udp_conforms_over_ipv4() {
    conform(&Udp { ips: loopback("127.0.0.1"), mtu: Some(1500), lab: None });
}

#[test]
fn udp_conforms_at_the_full_size_of_loopback() {
    let pair = Udp { ips: loopback("127.0.0.1"), mtu: None, lab: None };
    conformance::run(&pair).expect("it conforms");
}

#[test]
fn udp_conforms_over_ipv6() {
    let ips = loopback("::1");
    if std::net::UdpSocket::bind(SocketAddr::new(ips[0], 0)).is_err() {
        return skip(Need::Root, "this machine has no IPv6");
    }
    conform(&Udp { ips, mtu: Some(1500), lab: None });
}

#[test]
fn udp_conforms_over_a_cable() {
    let Some(lab) = Lab::build(1500) else { return };
    // IPv6 first: taking the interface down takes its IPv6 addresses away.
    let v6 = ["fd77::1", "fd77::2"].map(|ip| ip.parse().expect("an address"));
    conformance::run(&Udp { ips: v6, mtu: None, lab: Some(&lab) }).expect("it conforms");
    let v4 = [1, 2].map(|host| IpAddr::from([10, 77, 0, host]));
    conform(&Udp { ips: v4, mtu: None, lab: Some(&lab) });
}

#[test]
fn packet_conforms() {
    let Some(lab) = Lab::build(1500) else { return };
    conform(&Packet(&lab));
}

#[test]
fn packet_conforms_with_jumbo_frames() {
    let Some(lab) = Lab::build(9000) else { return };
    conformance::run(&Packet(&lab)).expect("it conforms");
}

#[test]
fn xdp_conforms() {
    let Some(lab) = Lab::build(1500) else { return };
    conform(&Xdp { lab: &lab, mode: XdpMode::Native });
}

#[test]
fn xdp_conforms_behind_the_driver() {
    let Some(lab) = Lab::build(1500) else { return };
    conformance::run(&Xdp { lab: &lab, mode: XdpMode::Generic }).expect("it conforms");
}

#[test]
fn xdp_conforms_with_jumbo_frames() {
    let Some(lab) = Lab::build(9000) else { return };
    for mode in [XdpMode::Native, XdpMode::Generic] {
        conformance::run(&Xdp { lab: &lab, mode }).expect("it conforms");
    }
}
