//! The judge of one completion: is it the first of its operation, does something explain its status, is every value that
//! it shows right, and are the bytes those that were sent?

use emp_firmware::{BufferPlace, Completion, OpKind, Status, Time};
use emp_wire::NodeId;

use crate::history::History;
use crate::ledger::{
    Ledger, MessageId, Posted, Receive, ReceiveId, immediate_of, match_bits, of_context,
};
use crate::memory::{SimMemory, payload};

/// What the judge knows of the node that completed something, and of all others.
pub struct Witness<'a> {
    /// The node.
    pub node: usize,
    /// Its incarnation.
    pub incarnation: u32,
    /// The time.
    pub now: Time,
    /// Identities of all nodes by index.
    pub ids: &'a [NodeId],
    /// What was done to them.
    pub history: &'a History,
}

/// Takes a completion into the ledger; an error says what is wrong with it.
pub fn complete(
    ledger: &mut Ledger,
    witness: &Witness<'_>,
    completion: &Completion,
    memory: &mut SimMemory,
) -> Result<(), String> {
    if completion.op.kind() == OpKind::Undelivered {
        return explain_undelivered(ledger, witness, completion)
            .map_err(|what| format!("node {}: {what}", witness.node));
    }
    let (kind, number) = of_context(completion.context);
    if completion.op.kind() != kind {
        return Err(format!("completion {completion:?} has another operation's context"));
    }
    match kind {
        OpKind::Send => complete_send(ledger, witness, completion, number, memory),
        OpKind::Receive => complete_receive(ledger, witness, completion, number, memory),
        other => Err(format!("{other:?} was never posted")),
    }
    .map_err(|what| format!("node {}: {what}", witness.node))
}

/// A send that had ended well was not heard to arrive: something must explain that, too.
fn explain_undelivered(
    ledger: &Ledger,
    witness: &Witness<'_>,
    completion: &Completion,
) -> Result<(), String> {
    let message = ledger.by_bits(completion.match_bits).map(|id| &ledger.messages[id]);
    let discarded = message.is_some_and(|message| message.discarded);
    let peer = witness.ids.iter().position(|id| *id == completion.peer);
    let explained = peer.is_some_and(|peer| match completion.status {
        Status::Abandoned if discarded => true,
        Status::NoEndpoint | Status::Abandoned => {
            witness.history.was_closed_since(peer, completion.peer_endpoint, Time(0))
        }
        Status::EndpointClosed => {
            witness.history.was_closed_since(witness.node, completion.context as u16, Time(0))
        }
        status => witness.history.explains(status, witness.node, peer, (witness.now, witness.now)),
    });
    if explained { Ok(()) } else { Err(format!("undelivered without a reason: {completion:?}")) }
}

/// The posting that a completion names, if it is this node's, and still without an end.
fn open(
    posted: &mut Option<Posted>,
    ended: bool,
    witness: &Witness<'_>,
    completion: &Completion,
) -> Result<Posted, String> {
    let Some(posted) = posted.as_mut() else {
        return Err("it was never posted".into());
    };
    if posted.op != completion.op || posted.incarnation != witness.incarnation {
        return Err("it names an operation of another post".into());
    }
    if ended {
        return Err("it had ended before".into());
    }
    let before = *posted;
    posted.buffer = None;
    Ok(before)
}

fn complete_send(
    ledger: &mut Ledger,
    witness: &Witness<'_>,
    completion: &Completion,
    number: MessageId,
    memory: &mut SimMemory,
) -> Result<(), String> {
    let Some(message) = ledger.messages.get_mut(number) else {
        return Err(format!("completion of a send that never was: {completion:?}"));
    };
    let spec = &message.spec;
    let what = format!("send of message {number} ({} → {}, {} B)", spec.from, spec.to, spec.bytes);
    let posted = open(&mut message.posted, message.ended.is_some(), witness, completion)
        .map_err(|why| format!("{what} completed, but {why}"))?;
    if let Some(buffer) = posted.buffer {
        memory.release(buffer);
    }
    let status = completion.status;
    message.ended = Some((status, witness.now));
    let (sender, receiver) = (spec.from, spec.to);
    if completion.total_bytes != spec.bytes || completion.peer != witness.ids[receiver] {
        return Err(format!("{what} completed as another: {completion:?}"));
    }
    let explained = match status {
        Status::Ok => !message.cancelled,
        Status::Cancelled => message.cancelled,
        Status::NoEndpoint => {
            witness.history.was_closed_since(receiver, spec.to_endpoint, posted.at)
        }
        Status::EndpointClosed => {
            witness.history.was_closed_since(sender, spec.endpoint, posted.at)
        }
        Status::Abandoned => {
            message.discarded
                || witness.history.was_closed_since(receiver, spec.to_endpoint, posted.at)
        }
        Status::Truncated | Status::MemoryFault => false,
        _ => witness.history.explains(status, sender, receiver, (posted.at, witness.now)),
    };
    if explained {
        return Ok(());
    }
    Err(format!("{what} ended with \"{}\", which nothing explains", status.describe()))
}

fn complete_receive(
    ledger: &mut Ledger,
    witness: &Witness<'_>,
    completion: &Completion,
    number: ReceiveId,
    memory: &mut SimMemory,
) -> Result<(), String> {
    let order = ledger.tick();
    let Some(receive) = ledger.receives.get_mut(number) else {
        return Err(format!("completion of a receive that never was: {completion:?}"));
    };
    let what = format!("receive {number} on endpoint {}", receive.endpoint);
    let posted = open(&mut receive.posted, receive.ended.is_some(), witness, completion)
        .map_err(|why| format!("{what} completed, but {why}"))?;
    receive.ended = Some((*completion, witness.now, order));
    let content = posted.buffer.map(|buffer| {
        let content = memory.content(buffer);
        memory.release(buffer);
        content
    });
    match completion.status {
        Status::Ok | Status::Truncated => {
            let content = content.unwrap_or_default();
            check_arrival(ledger, witness, completion, number, &content)
                .map_err(|why| format!("{what}: {why}"))
        }
        _ if failure_explained(ledger, witness, completion, number) => Ok(()),
        status => {
            let from = witness.ids.iter().position(|id| *id == completion.peer);
            Err(format!(
                "{what} ended with \"{}\" (peer {from:?}), which nothing explains",
                status.describe()
            ))
        }
    }
}

/// True if something that was done explains that a receive ended with this error.
fn failure_explained(
    ledger: &Ledger,
    witness: &Witness<'_>,
    completion: &Completion,
    number: ReceiveId,
) -> bool {
    let receive = &ledger.receives[number];
    let since = receive.posted_at();
    match completion.status {
        Status::Cancelled => receive.cancelled,
        Status::EndpointClosed => {
            witness.history.was_closed_since(witness.node, receive.endpoint, since)
        }
        Status::Abandoned => {
            // The sender took its message back, or closed its endpoint, after it had matched.
            ledger.by_bits(completion.match_bits).is_some_and(|message| {
                let message = &ledger.messages[message];
                message.cancelled
                    || message.posted.is_some_and(|posted| {
                        let spec = &message.spec;
                        witness.history.was_closed_since(spec.from, spec.endpoint, posted.at)
                    })
            })
        }
        status => {
            let peer = witness.ids.iter().position(|id| *id == completion.peer);
            peer.is_some_and(|peer| {
                witness.history.explains(status, witness.node, peer, (since, witness.now))
            })
        }
    }
}

/// Checks a message that arrived: identity, uniqueness, values, bytes.
fn check_arrival(
    ledger: &mut Ledger,
    witness: &Witness<'_>,
    completion: &Completion,
    number: ReceiveId,
    content: &[u8],
) -> Result<(), String> {
    let Some(id) = ledger.by_bits(completion.match_bits) else {
        return Err(format!("got a message that was never sent: {completion:?}"));
    };
    let receive = &ledger.receives[number];
    let message = &ledger.messages[id];
    let spec = &message.spec;
    let Some(posted) = &message.posted else {
        return Err(format!("got message {id}, which was not posted yet"));
    };
    if (spec.to, spec.to_endpoint) != (witness.node, receive.endpoint) {
        return Err(format!(
            "got message {id}, which is for node {} endpoint {}",
            spec.to, spec.to_endpoint
        ));
    }
    if let Some(before) = message.taken {
        return Err(format!("got message {id}, which receive {before} had got before"));
    }
    if message.cancelled {
        return Err(format!("got message {id}, which was cancelled"));
    }
    if message.discarded {
        return Err(format!("got message {id}, which was given up"));
    }
    check_selection(receive, id, message.claimed.is_some(), witness, spec)?;
    let wanted = Completion {
        op: completion.op,
        context: completion.context,
        status: if spec.bytes > receive.bytes { Status::Truncated } else { Status::Ok },
        bytes: spec.bytes.min(receive.bytes),
        total_bytes: spec.bytes,
        peer: witness.ids[spec.from],
        peer_endpoint: spec.endpoint,
        match_bits: match_bits(id, spec.tag),
        immediate: spec.immediate.then(|| immediate_of(id)),
        place: BufferPlace::WHOLE,
    };
    if wanted != *completion {
        return Err(format!("message {id} should show {wanted:?} but shows {completion:?}"));
    }
    check_bytes(id, wanted.bytes as usize, content)?;
    let end_reported = |stopped| {
        witness.history.restart_seen(witness.node, spec.from, stopped, receive.posted_at())
    };
    if witness.history.stopped_after(spec.from, posted.at).is_some_and(end_reported) {
        return Err(format!(
            "got message {id} of an earlier incarnation after its end was reported"
        ));
    }
    ledger.messages[id].taken = Some(number);
    Ok(())
}

fn check_selection(
    receive: &Receive,
    id: MessageId,
    claimed: bool,
    witness: &Witness<'_>,
    spec: &crate::ledger::MessageSpec,
) -> Result<(), String> {
    if let Some((_, claim)) = receive.claim {
        return if claim == id {
            Ok(())
        } else {
            Err(format!("got message {id}, but had claimed {claim}"))
        };
    }
    if claimed {
        return Err(format!("got message {id}, which a probe had claimed"));
    }
    let from = witness.ids[spec.from];
    if !receive.selector.accepts(from, spec.endpoint, match_bits(id, spec.tag)) {
        return Err(format!("got message {id}, which {:?} does not accept", receive.selector));
    }
    Ok(())
}

fn check_bytes(id: MessageId, placed: usize, content: &[u8]) -> Result<(), String> {
    let sent = payload(id as u64, placed as u64);
    if let Some(at) = sent.iter().zip(content).position(|(a, b)| a != b) {
        return Err(format!("message {id} differs from what was sent at byte {at} of {placed}"));
    }
    if let Some(at) = content[placed..].iter().position(|byte| *byte != 0xA5) {
        return Err(format!("message {id} wrote {} bytes past its end", at + 1));
    }
    Ok(())
}
