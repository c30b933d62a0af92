//! The judge of a whole run: nothing lost, nothing overtaken, nothing held back, every operation ended.

use std::collections::BTreeMap;

use emp_firmware::{CompletionMode, Status, Time};
use emp_wire::NodeId;

use crate::history::History;
use crate::ledger::{Ledger, Message, MessageId, Receive, match_bits};

/// What was wrong at the end of a run, if anything was.
pub fn judge(ledger: &Ledger, history: &History, ids: &[NodeId]) -> Result<(), String> {
    nothing_lost(ledger, history)?;
    synchronous_sends_waited(ledger)?;
    no_overtaking(ledger, ids)?;
    no_receive_passed_over(ledger, ids)
}

/// Every operation that was posted by a node that still lives has ended.
pub fn all_ended(ledger: &Ledger, incarnations: &[Option<u32>]) -> Result<(), String> {
    for (node, incarnation) in incarnations.iter().enumerate() {
        let Some(incarnation) = incarnation else { continue };
        if let Some((kind, number)) = ledger.open_ops(node, *incarnation).first() {
            return Err(format!("node {node}: {kind:?} {number} never completed"));
        }
    }
    Ok(())
}

/// A message whose send ended well has arrived, unless an end of the pair broke down.
fn nothing_lost(ledger: &Ledger, history: &History) -> Result<(), String> {
    for (id, message) in ledger.messages.iter().enumerate() {
        let (Some(posted), Some((Status::Ok, _))) = (&message.posted, message.ended) else {
            continue;
        };
        let spec = &message.spec;
        // What was acknowledged, or matched, is with the receiver: only that may have lost it.
        let there = spec.synchronous || spec.completion == CompletionMode::Delivered;
        let broke = if there {
            history.was_reset(spec.to, spec.from, posted.at)
                || history.was_stopped(spec.to, posted.at)
        } else {
            history.pair_broke(spec.from, spec.to, posted.at)
        };
        let excused = message.taken.is_some()
            || message.discarded
            || broke
            || history.was_closed_since(spec.to, spec.to_endpoint, posted.at);
        if !excused {
            return Err(format!(
                "message {id} ({} → {}, {} B) was lost: sent, complete, never received",
                spec.from, spec.to, spec.bytes
            ));
        }
    }
    Ok(())
}

/// A synchronous send ends after a receive that takes it was posted, not before.
fn synchronous_sends_waited(ledger: &Ledger) -> Result<(), String> {
    for (id, message) in ledger.messages.iter().enumerate() {
        let (true, Some((Status::Ok, ended)), Some(receive)) =
            (message.spec.synchronous, message.ended, message.taken)
        else {
            continue;
        };
        let receive = &ledger.receives[receive];
        if receive.claim.is_none() && receive.posted_at() > ended {
            return Err(format!("synchronous message {id} was complete before it was matched"));
        }
    }
    Ok(())
}

/// Messages from one endpoint of one incarnation to one endpoint of one incarnation: what match order speaks of.
type Stream = (usize, u32, u16, usize, u32, u16);

fn streams(ledger: &Ledger) -> BTreeMap<Stream, Vec<(MessageId, &Message, &Receive)>> {
    let mut streams: BTreeMap<Stream, Vec<_>> = BTreeMap::new();
    for (id, message) in ledger.messages.iter().enumerate() {
        let (Some(posted), Some(taken)) = (&message.posted, message.taken) else { continue };
        let receive = &ledger.receives[taken];
        let incarnation = receive.posted.map_or(0, |posted| posted.incarnation);
        let spec = &message.spec;
        let stream =
            (spec.from, posted.incarnation, spec.endpoint, spec.to, incarnation, spec.to_endpoint);
        streams.entry(stream).or_default().push((id, message, receive));
    }
    for stream in streams.values_mut() {
        stream.sort_by_key(|(_, message, _)| message.posted.map(|posted| posted.order));
    }
    streams
}

/// Of two messages of a stream, the later one must not get a receive that was posted before the earlier one's and would
/// have taken the earlier one.
fn no_overtaking(ledger: &Ledger, ids: &[NodeId]) -> Result<(), String> {
    for stream in streams(ledger).values() {
        for (i, (first, early, early_receive)) in stream.iter().enumerate() {
            for (second, _, late_receive) in &stream[i + 1..] {
                let sooner = late_receive.match_order < early_receive.match_order;
                if sooner && accepts(late_receive, *first, early, ids) {
                    return Err(format!(
                        "message {second} overtook message {first}: it got a receive posted sooner \
                         that both match"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A message must not get a receive while an older one that also accepts it stays without a message until after.
fn no_receive_passed_over(ledger: &Ledger, ids: &[NodeId]) -> Result<(), String> {
    for (id, message) in ledger.messages.iter().enumerate() {
        let Some(taken) = message.taken else { continue };
        let got = &ledger.receives[taken];
        let Some((_, _, ended)) = got.ended else { continue };
        let older = ledger.receives.iter().enumerate().filter(|(_, receive)| {
            (receive.node, receive.endpoint) == (got.node, got.endpoint)
                && receive.claim.is_none()
                && receive.posted.map(|p| p.incarnation) == got.posted.map(|p| p.incarnation)
                && receive.match_order < got.match_order
                && accepts(receive, id, message, ids)
        });
        for (number, receive) in older {
            if still_free(ledger, receive, ended) {
                return Err(format!(
                    "message {id} got receive {taken} although receive {number} is older and matches"
                ));
            }
        }
    }
    Ok(())
}

/// True if a receive was certainly without a message at `order`: it was cancelled later, or its message was posted later.
fn still_free(ledger: &Ledger, receive: &Receive, order: u64) -> bool {
    match receive.ended {
        Some((completion, _, ended)) => match completion.status {
            Status::Cancelled => ended > order,
            Status::Ok | Status::Truncated => {
                let message = ledger.by_bits(completion.match_bits);
                message.is_some_and(|message| {
                    ledger.messages[message].posted.is_some_and(|posted| posted.order > order)
                })
            }
            _ => false,
        },
        None => false,
    }
}

fn accepts(receive: &Receive, id: MessageId, message: &Message, ids: &[NodeId]) -> bool {
    let spec = &message.spec;
    receive.selector.accepts(ids[spec.from], spec.endpoint, match_bits(id, spec.tag))
}

/// For a report: what is still open.
pub fn open_work(ledger: &Ledger, now: Time) -> String {
    let messages: Vec<String> = ledger
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.posted.is_some() && message.ended.is_none())
        .take(8)
        .map(|(id, message)| {
            let spec = &message.spec;
            format!("{id} ({}→{}, {} B)", spec.from, spec.to, spec.bytes)
        })
        .collect();
    let untaken: Vec<MessageId> = ledger.outstanding().map(|(id, _)| id).take(8).collect();
    let receives = ledger.receives.iter().filter(|r| r.posted.is_some() && r.ended.is_none());
    format!(
        "at {} µs: sends open {messages:?}, messages not received {untaken:?}, receives open {}",
        now.0 / 1_000,
        receives.count()
    )
}

#[cfg(test)]
mod tests {
    use emp_firmware::{Profile, Span};

    use crate::host::Want;
    use crate::ledger::MessageSpec;
    use crate::world::{Stop, World, WorldSetup};

    /// Two messages that arrived in order, in receives that take anything.
    fn two_messages() -> World {
        let mut world = World::new(WorldSetup::lan(2, &Profile::DEFAULT));
        for _ in 0..2 {
            world.receive(1, Want::ANY, 10);
        }
        for _ in 0..2 {
            world.send(MessageSpec::plain(0, 1, 10));
        }
        assert_eq!(world.run(Span::ms(1_000)), Stop::Idle);
        assert_eq!(world.judge_finished(), Ok(()));
        world
    }

    /// A judge that never objects is no judge: each forged outcome must be seen.
    #[test]
    fn overtaking_is_seen() {
        let mut world = two_messages();
        let messages = &mut world.ledger.messages;
        (messages[0].taken, messages[1].taken) = (messages[1].taken, messages[0].taken);
        assert!(world.judge().unwrap_err().contains("overtook"));
    }

    #[test]
    fn a_lost_message_is_seen() {
        let mut world = two_messages();
        world.ledger.messages[1].taken = None;
        assert!(world.judge().unwrap_err().contains("was lost"));
    }

    #[test]
    fn an_operation_without_an_end_is_seen() {
        let mut world = two_messages();
        world.ledger.receives[1].ended = None;
        assert!(world.judge_finished().unwrap_err().contains("never completed"));
    }

    #[test]
    fn a_receive_that_was_passed_over_is_seen() {
        let mut world = two_messages();
        let receives = &mut world.ledger.receives;
        (receives[0].match_order, receives[1].match_order) = (99, 1);
        // Receive 1 is now the older one, and its message was posted after receive 0 had its own.
        let late = receives[0].ended.map(|(_, _, order)| order + 100);
        if let Some(posted) = &mut world.ledger.messages[1].posted {
            posted.order = late.unwrap_or(0);
        }
        let complaint = world.judge().unwrap_err();
        assert!(complaint.contains("older") || complaint.contains("overtook"), "{complaint}");
    }
}
