//! Opening TCP's half of a benchmark: on the interface it is to be measured on, under the congestion control it is to have.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use anyhow::Context;
use socket2::{Domain, SockRef, Socket, Type};

use super::end::{ACCEPT_LIMIT, Tcp, TcpOptions};
use crate::bail_user;
use crate::bench::job::{Spec, SubjectKind};
use crate::bench::subject::kind::{Card, Opening, Role, Subject};
use crate::bench::subject::place::{Neighbour, Place, socket_by};

/// One end's half, open but not connected.
pub struct TcpOpening {
    listener: Option<TcpListener>,
    /// This end's address where TCP runs.
    here: IpAddr,
    /// The interface that it is kept on, if the routes might lead by another.
    only_on: Option<String>,
    peer: Neighbour,
    options: TcpOptions,
    congestion: Option<String>,
}

impl TcpOpening {
    /// Listens, if this is the passive end.
    pub fn open(spec: &Spec, place: &Place, role: Role) -> anyhow::Result<Self> {
        let here = place.address_here()?;
        let only_on = (here != place.own).then(|| place.interface.name.clone());
        let options = TcpOptions { spinning: spec.kind == SubjectKind::Tcp, bundle: spec.bundle };
        let listener = match role {
            Role::Active => None,
            Role::Passive => Some(TcpListener::bind(socket_by(here, 0, place.interface.index))?),
        };
        let congestion = spec.congestion.clone();
        Ok(Self { listener, here, only_on, peer: place.neighbour(), options, congestion })
    }

    /// A connection to where the other end listens.
    fn reach(&self, to: SocketAddr) -> anyhow::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        if let Some(name) = &self.only_on {
            // Both interfaces may lead there, and the kernel would take the one with EMP's program on it.
            socket
                .bind_device(Some(name.as_bytes()))
                .with_context(|| format!("keeping TCP on {name}"))?;
            socket.bind(&SocketAddr::new(self.here, 0).into())?;
        }
        socket
            .connect_timeout(&to.into(), ACCEPT_LIMIT)
            .with_context(|| format!("TCP connection to {to}"))?;
        Ok(socket.into())
    }
}

impl Opening for TcpOpening {
    fn card(&self) -> Card {
        let address = self.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        Card {
            tcp_port: address.map(|address| address.port()),
            tcp_address: self.only_on.as_ref().map(|_| self.here),
            ..Card::default()
        }
    }

    fn connect(self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        let stream = match (&self.listener, other.tcp_port) {
            (Some(listener), _) => Tcp::accept(listener)?,
            (None, Some(port)) => {
                let there =
                    other.tcp_address.map_or(self.peer.port(port), |ip| SocketAddr::new(ip, port));
                self.reach(there)?
            }
            (None, None) => bail_user!("the other end offers no TCP port"),
        };
        if let Some(name) = &self.congestion {
            SockRef::from(&stream)
                .set_tcp_congestion(name.as_bytes())
                .with_context(|| format!("choosing {name} for TCP"))?;
        }
        Ok(Box::new(Tcp::new(stream, self.options)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::congestion;
    use crate::bench::job::LinkChoice;
    use crate::bench::subject::Named;
    use std::net::Ipv4Addr;

    /// What steers both ends of a connection for which one was asked.
    fn steered(asked: &str) -> bool {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let place = Place::find((here, here), &Named::default(), None).unwrap();
        let spec = Spec {
            congestion: Some(asked.to_owned()),
            ..Spec::emp(LinkChoice::Auto).against(SubjectKind::Tcp)
        };
        let passive = TcpOpening::open(&spec, &place, Role::Passive).unwrap();
        let active = TcpOpening::open(&spec, &place, Role::Active).unwrap();
        let card = passive.card();
        assert_eq!(card.tcp_address, None, "on its usual interface");
        let other = std::thread::spawn(move || Box::new(passive).connect(&Card::default()).is_ok());
        let connected = Box::new(active).connect(&card).is_ok();
        connected && other.join().unwrap()
    }

    #[test]
    fn connections_have_the_congestion_control_that_was_asked_for_or_none() {
        for name in congestion::available() {
            assert!(steered(&name), "{name}");
        }
        assert!(!steered("pigeon"));
    }
}
