//! The paper's measurements (O19 to O23).

use super::fabric::Fabric;
use super::parameters::{Network, Parameters, USUAL_COALESCING};

impl Network {
    /// Myri-10G as its driver sets it up (O22).
    pub const fn deferred() -> Self {
        Self::ten_gigabit(USUAL_COALESCING)
    }
}

/// Half a round trip of a message, in microseconds.
pub fn latency(
    parameters: &Parameters,
    network: &Network,
    bytes: u64,
    rounds: u32,
) -> Result<f64, String> {
    let mut fabric = Fabric::new(parameters, network, bytes);
    let warm = fabric.run(4, true);
    let took = warm.and_then(|_| fabric.run(rounds, true));
    let took = took.ok_or_else(|| format!("a ping-pong of {bytes} B did not end"))?;
    Ok(took.0 as f64 / 2e3 / f64::from(rounds))
}

/// What half a ping-pong carries, in 10^6 bytes a second.
pub fn bandwidth(
    parameters: &Parameters,
    network: &Network,
    bytes: u64,
    rounds: u32,
) -> Result<f64, String> {
    Ok(bytes as f64 / latency(parameters, network, bytes, rounds)?)
}

/// Times that each byte of a message is copied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Copies {
    /// At its sender.
    pub send: f64,
    /// At its receiver.
    pub receive: f64,
}

/// Copies of a message of so many bytes (O13, O15).
pub fn copies(parameters: &Parameters, network: &Network, bytes: u64) -> Result<Copies, String> {
    const MESSAGES: u32 = 8;
    let mut fabric = Fabric::new(parameters, network, bytes);
    fabric.run(MESSAGES, false).ok_or_else(|| format!("messages of {bytes} B did not arrive"))?;
    let of = |copied: u64| copied as f64 / (bytes * u64::from(MESSAGES)) as f64;
    Ok(Copies { send: of(fabric.copied[0]), receive: of(fabric.copied[1]) })
}

/// How busy two cores of a stream's receiver are, as parts of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Busy {
    /// The one that all arriving frames are processed on (O24).
    pub bottom_half: f64,
    /// The program's.
    pub program: f64,
}

/// Messages of so many bytes that follow each other one way: how busy their receiver's cores are.
pub fn receiver_busy(
    parameters: &Parameters,
    network: &Network,
    bytes: u64,
) -> Result<Busy, String> {
    const MESSAGES: u32 = 12;
    let mut fabric = Fabric::new(parameters, network, bytes);
    let warm = fabric.run(2, false);
    let before = fabric.busy(1);
    let took = warm.and_then(|_| fabric.run(MESSAGES, false));
    let took = took.ok_or_else(|| format!("messages of {bytes} B did not arrive"))?;
    let after = fabric.busy(1);
    let of = |core: usize| (after[core] - before[core]) as f64 / took.0 as f64;
    Ok(Busy { bottom_half: of(0), program: of(1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_firmware::Span;

    #[test]
    fn medium_messages_are_copied_twice_and_large_ones_once_at_their_receiver() {
        let network = Network::ten_gigabit(Span(0));
        let of = |bytes| copies(&Parameters::E5345, &network, bytes).unwrap();
        assert_eq!(of(16 << 10), Copies { send: 1.0, receive: 2.0 });
        assert_eq!(of(256 << 10), Copies { send: 0.0, receive: 1.0 });
    }

    /// O24: the card could bring more, the program's core is idle, and the core of the bottom half is not; where the wire is the limit it is.
    #[test]
    fn the_core_of_the_bottom_half_is_the_limit_on_a_fast_network_only() {
        let of = |network| receiver_busy(&Parameters::E5345, &network, 1 << 20).unwrap();
        let fast = of(Network::ten_gigabit(Span(0)));
        assert!(fast.bottom_half > 0.9 && fast.program < 0.2, "{fast:?}");
        let slow = of(Network::gigabit());
        assert!(slow.bottom_half < 0.9, "{slow:?}");
    }

    #[test]
    fn deferred_interrupts_are_waited_for_and_offloaded_copies_are_not() {
        let set = Parameters::E5345;
        let at_once = Network::ten_gigabit(Span(0));
        let late = Network::ten_gigabit(Span::us(50));
        let of = |network| latency(&set, network, 4, 10).unwrap();
        let more = of(&late) - of(&at_once);
        assert!((45.0..=55.0).contains(&more), "{more}");
        let large = |set: &Parameters| bandwidth(set, &at_once, 1 << 20, 3).unwrap();
        assert!(large(&set.offloaded()) > large(&set));
    }
}
