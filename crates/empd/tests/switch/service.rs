//! A service for tests: a thread that answers clients as the door does, and a switch behind it whose wires are what a test says.

use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_link::service::protocol::{
    Answer, BUFFER_BYTES, Carrier, Refused, Request, VERSION, Welcome,
};
use emp_link::service::{ServiceLink, ServiceOptions, socket};
use emp_link::{
    Capabilities, Fabric, Link, LinkAddress, LinkStatistics, SimLink, TAG_ANY, TxFrame, Wire,
};
use emp_wire::NodeId;
use empd::switch::pace::Polling;
use empd::switch::{Attachment, Lanes, OpenWire, Options, RateOf, Switch};

/// Longest that anything here may take on a machine under load.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The MTU of simulated interfaces.
pub const MTU: u32 = 1500;

/// The node whose source tag is this (`FRAME-4`): the inverse of splitmix64's finaliser.
pub fn node_of(source_tag: u32) -> NodeId {
    let unshift = |mut z: u64, by: u32| {
        let word = z;
        for _ in 0..64 / by + 1 {
            z = word ^ (z >> by);
        }
        z
    };
    let z = unshift(u64::from(source_tag) << 32, 31).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = unshift(z, 27).wrapping_mul(0x96de_1b17_3f11_9089);
    let node = NodeId(unshift(z, 30));
    assert_eq!(node.source_tag(), source_tag);
    node
}

/// A node of the in-memory fabric as an interface: places are MAC addresses.
pub struct SimWire {
    link: SimLink,
    capabilities: Capabilities,
}

fn mac(index: u32) -> LinkAddress {
    LinkAddress::mac([2, 0, 0, 0, 0, index as u8])
}

impl SimWire {
    pub fn new(fabric: &Fabric, index: u32) -> Self {
        let link = fabric.link(index, TAG_ANY).expect("there is such a node");
        let capabilities = Capabilities { address: mac(index), ..link.capabilities().clone() };
        Self { link, capabilities }
    }
}

impl Wire for SimWire {}

impl Link for SimWire {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        for frame in batch {
            let to = frame
                .to
                .as_mac()
                .map_or(LinkAddress::EVERYONE, |[.., last]| LinkAddress::index(u32::from(last)));
            let parts: &[IoSlice<'_>] = frame.parts;
            self.link.send(&[TxFrame { to, parts }]);
        }
        batch.len()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.link.receive(budget, &mut |frame, from| {
            sink(frame, &mac(from.as_index().expect("the fabric's")));
        })
    }

    fn readiness(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.link.readiness()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        self.link.wait(timeout)
    }

    fn statistics(&self) -> LinkStatistics {
        self.link.statistics()
    }
}

/// A running service.
pub struct Service {
    pub path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// What it logged.
    pub log: Arc<Mutex<Vec<String>>>,
    /// Clients that are attached.
    pub clients: Arc<AtomicU64>,
    place: Option<tempfile::TempDir>,
}

/// How a service is to be.
pub struct Setup {
    pub polling: Polling,
    pub rate: RateOf,
    pub open: OpenWire,
    /// The address of its interfaces.
    pub carrier: Carrier,
    /// The users of clients by the order in which they come; those beyond are this process's.
    pub users: Vec<u32>,
}

impl Setup {
    /// One interface, which is a node of a fabric.
    pub fn sim(fabric: &Fabric, index: u32) -> Self {
        let fabric = fabric.clone();
        Self {
            polling: Polling::Adaptive,
            rate: Box::new(|_| None),
            open: Box::new(move |_, _, _| Ok(Box::new(SimWire::new(&fabric, index)))),
            carrier: Carrier { index, mtu: MTU, mac: mac(index).as_mac().expect("it is one") },
            users: Vec::new(),
        }
    }
}

impl Service {
    pub fn start(setup: Setup) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let mut service = Self::start_at(&place.path().join("socket"), setup);
        service.place = Some(place);
        service
    }

    pub fn start_at(path: &Path, setup: Setup) -> Self {
        let _ = std::fs::remove_file(path);
        let listening = socket::listen(path).expect("it listens");
        let (over, log) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let clients = Arc::default();
        let (told, lines, count) = (Arc::clone(&over), Arc::clone(&log), Arc::clone(&clients));
        let thread = std::thread::spawn(move || serve(&listening, setup, &told, (&lines, &count)));
        Self { path: path.to_path_buf(), over, thread: Some(thread), log, clients, place: None }
    }

    /// Options of a client with this source tag.
    pub fn options(&self, source_tag: u32) -> ServiceOptions {
        let socket = self.path.clone();
        ServiceOptions { socket, ..ServiceOptions::new("sim", node_of(source_tag)) }
    }

    pub fn client(&self, source_tag: u32) -> ServiceLink {
        ServiceLink::open(&self.options(source_tag)).expect("the service takes it")
    }

    /// Waits until it has logged so many lines with a text in them. Returns how many there are.
    pub fn await_lines(&self, text: &str, least: usize) -> usize {
        let since = Instant::now();
        loop {
            let lines = self.log.lock().expect("nobody panicked").clone();
            let count = lines.iter().filter(|line| line.contains(text)).count();
            if count >= least {
                return count;
            }
            assert!(since.elapsed() < PATIENCE, "{count} of {least} lines of {text}: {lines:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn stop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the service ends well");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(
    listening: &OwnedFd,
    setup: Setup,
    over: &AtomicBool,
    (log, count): (&Mutex<Vec<String>>, &AtomicU64),
) {
    let Setup { polling, rate, open, carrier, users } = setup;
    let mut lanes = Lanes::new(Options { polling, rate, open }).expect("it starts");
    let mut clients: HashMap<u64, OwnedFd> = HashMap::new();
    let mut next = 0;
    while !over.load(Ordering::Acquire) {
        while let Ok(connection) = socket::accept(listening.as_fd()) {
            let user = users.get(next as usize).copied();
            let process = socket::peer(connection.as_fd()).expect("it is known");
            let who = (next, user.unwrap_or(process.user), process.process);
            if welcome(&connection, who, carrier, &mut lanes).is_some() {
                clients.insert(next, connection);
            }
            next += 1;
        }
        let gone = |connection: &OwnedFd| socket::is_over(connection.as_fd());
        for (client, _) in clients.extract_if(|_, connection| gone(connection)) {
            lanes.detach(client);
        }
        for (client, line) in lanes.take_ended() {
            clients.remove(&client);
            log.lock().expect("nobody panicked").push(line);
        }
        log.lock().expect("nobody panicked").extend(lanes.take_lines());
        assert!(lanes.is_alive(), "the switch is dead");
        let attached =
            lanes.counts().map(|(_, counts)| counts.clients.load(Ordering::Relaxed)).sum();
        count.store(attached, Ordering::Release);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn welcome(
    connection: &OwnedFd,
    (client, user, process): (u64, u32, i32),
    carrier: Carrier,
    lanes: &mut Lanes,
) -> Option<()> {
    let mut bytes = [0; BUFFER_BYTES];
    let mut next = || {
        for _ in 0..5000 {
            match socket::receive(connection.as_fd(), &mut bytes) {
                Ok(0) => return None,
                Ok(got) => return Request::parse(&bytes[..got]).ok(),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    };
    let (Some(Request::Hello(_)), Some(Request::Attach(attach))) = (next(), next()) else {
        return None;
    };
    let welcome = Welcome { version: VERSION, lends: false, attaches: true, clients_max: 9 };
    socket::send(connection.as_fd(), &Answer::Welcome(welcome).emit(), &[]).ok()?;
    let attachment = Attachment {
        client,
        user,
        process,
        interface: attach.interface,
        carrier,
        ethertype: attach.ethertype,
        node: attach.node,
        token: attach.token,
    };
    match lanes.attach(&attachment) {
        Ok(given) => {
            let answer = Answer::Attached(given.answer).emit();
            let descriptors = [given.memory.as_fd(), given.bell.as_fd()];
            socket::send(connection.as_fd(), &answer, &descriptors).ok()
        }
        Err(reason) => {
            let refused = Answer::Refused(Refused { reason }).emit();
            socket::send(connection.as_fd(), &refused, &[]).ok()?;
            None
        }
    }
}
