//! How importers ask, and exporters answer: two messages of fixed length. What arrives was written by somebody else: what is no
//! question and no answer is passed by.

use emp_face::handles::{Key, Table};
use emp_face::log;
use emp_host::{
    Completion, CompletionMode, NodeId, PostError, ReceiveDescriptor, Segment, SegmentList,
    Selector, SendDescriptor, Status,
};

use crate::abi::Code;
use crate::library::{ASK, CONTROL, Library, ROOM, State, process_of};
use crate::proxies::{IMPORTS_MAX, Name};

/// Begins every message; the last byte is the version of what follows.
const MAGIC: u64 = u64::from_be_bytes(*b"EMPVMMC\x02");

/// Words of a message: magic, kind and status, who asks, what for, key, generation, bytes.
const WORDS: usize = 7;
const BYTES: usize = WORDS * 8;

const QUESTION: u64 = 1;
const ANSWER: u64 = 2;

/// Messages that may wait here: others wait in the node, and are taken when these are done with.
const ROOMS: usize = 32;

/// What an exporter says of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    pub key: u64,
    pub generation: u32,
    pub bytes: u64,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    /// The import of the asker that this is for, and the id of the buffer.
    Question {
        import: u64,
        id: u32,
    },
    Answer {
        import: u64,
        answer: Result<Answer, Code>,
    },
}

impl Message {
    fn write(&self) -> [u8; BYTES] {
        let words = match *self {
            Self::Question { import, id } => [MAGIC, QUESTION, import, id.into(), 0, 0, 0],
            Self::Answer { import, answer: Ok(Answer { key, generation, bytes }) } => {
                [MAGIC, ANSWER, import, 0, key, generation.into(), bytes]
            }
            Self::Answer { import, answer: Err(code) } => {
                [MAGIC, ANSWER, import, u64::from(code.0.unsigned_abs()), 0, 0, 0]
            }
        };
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_be_bytes(place.try_into().ok()?);
        }
        let [magic, kind, import, what, key, generation, bytes] = words;
        match (magic, kind) {
            (MAGIC, QUESTION) => Some(Self::Question { import, id: what.try_into().ok()? }),
            (MAGIC, ANSWER) if what == 0 => {
                let generation = generation.try_into().ok()?;
                let fits = bytes != 0 && bytes < crate::abi::BUFFER_MAX;
                let answer = Ok(Answer { key, generation, bytes });
                fits.then_some(Self::Answer { import, answer })
            }
            (MAGIC, ANSWER) => {
                let code = match -i64::try_from(what).ok()? {
                    code if code == i64::from(Code::NO_BUFFER.0) => Code::NO_BUFFER,
                    code if code == i64::from(Code::PERMISSION.0) => Code::PERMISSION,
                    _ => return None,
                };
                Some(Self::Answer { import, answer: Err(code) })
            }
            _ => None,
        }
    }
}

/// A name in one word, which the exporter gives back.
const fn word_of(name: Name) -> u64 {
    (name.generation as u64) << 32 | name.place as u64
}

const fn name_of(word: u64) -> Name {
    Name { place: word as u32, generation: (word >> 32) as u32 }
}

/// Messages of this process, coming and going. They stay where they are until the node is done with them.
pub struct Mailbox {
    rooms: Box<[[u8; BYTES]; ROOMS]>,
    /// Rooms for which no receive could be posted.
    unposted: Vec<usize>,
    /// Questions that have not ended, and the imports that they are for.
    questions: Table<(Name, Box<[u8; BYTES]>)>,
}

impl Default for Mailbox {
    fn default() -> Self {
        let unposted = (0..ROOMS).collect();
        let questions = Table::new(IMPORTS_MAX);
        Self { rooms: Box::new([[0; BYTES]; ROOMS]), unposted, questions }
    }
}

impl Mailbox {
    /// Questions that have not ended.
    pub fn asking(&self) -> usize {
        self.questions.len()
    }

    /// A question has ended; which import was it for?
    pub fn asked(&mut self, ask: Key) -> Option<Name> {
        self.questions.remove(ask).map(|(name, _)| name)
    }
}

fn segment(bytes: &mut [u8; BYTES]) -> SegmentList {
    let address = bytes.as_mut_ptr().expose_provenance() as u64;
    SegmentList::one(Segment { address, bytes: BYTES as u64 })
}

impl Library {
    /// Posts receives for all rooms that have none.
    ///
    /// # Errors
    ///
    /// What the node says; it is tried again later.
    pub fn make_room(&self, state: &mut State) -> Result<(), PostError> {
        while let Some(room) = state.mailbox.unposted.last().copied() {
            let key = Key { place: room as u32, generation: 0 };
            let receive = ReceiveDescriptor {
                endpoint: CONTROL,
                selector: Selector::ANY,
                segments: segment(&mut state.mailbox.rooms[room]),
                claim: None,
                context: key.handle(ROOM),
            };
            // SAFETY: the room is in a box that lives as long as the library, and is used when the receive has ended.
            unsafe { self.control.post_receive_raw(receive) }?;
            state.mailbox.unposted.pop();
        }
        Ok(())
    }

    fn message(&self, to: NodeId, segments: SegmentList, context: u64) -> SendDescriptor {
        SendDescriptor {
            to,
            endpoint: CONTROL,
            to_endpoint: CONTROL,
            match_bits: MAGIC,
            segments,
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Delivered,
            context,
        }
    }

    /// Asks an exporter for a buffer. False: there is no room for the question now.
    pub fn ask(&self, state: &mut State, name: Name, exporter: NodeId, id: u32) -> bool {
        let bytes = Box::new(Message::Question { import: word_of(name), id }.write());
        let Ok(key) = state.mailbox.questions.insert((name, bytes)) else { return false };
        let Some((_, bytes)) = state.mailbox.questions.get_mut(key) else { return false };
        let send = self.message(exporter, segment(bytes), key.handle(ASK));
        // SAFETY: the question is in a box that stays until the send has ended.
        let posted = unsafe { self.control.post_send_raw(send) };
        if posted.is_err() {
            state.mailbox.questions.remove(key);
        } else if let Some(import) = state.imports.get_mut(name) {
            import.asked = true;
        }
        posted.is_ok()
    }

    /// A message has come into a room.
    pub fn message_came(&self, state: &mut State, room: usize, completion: &Completion) {
        let Some(bytes) = state.mailbox.rooms.get(room) else { return };
        let whole = completion.status == Status::Ok && completion.bytes == BYTES as u64;
        let message = whole.then(|| Message::read(bytes)).flatten();
        state.mailbox.unposted.push(room);
        match message {
            Some(Message::Question { import, id }) => {
                self.answer(state, completion.peer, import, id);
            }
            Some(Message::Answer { import, answer }) => {
                self.answered(state, name_of(import), completion.peer, answer);
            }
            None => {}
        }
        // Refused only if the node is full or closed: then the service thread tries again.
        let _ = self.make_room(state);
    }

    fn answer(&self, state: &State, asker: NodeId, import: u64, id: u32) {
        let Some(process) = process_of(asker) else { return };
        let answer = state.exports.answer(process, id);
        if answer == Err(Code::PERMISSION) {
            let (node, number) = (process.node, process.number);
            log::inform(&format!(
                "VMMC: process {number} of node {node:012x} may not import buffer {id}"
            ));
        }
        let mut bytes = Message::Answer { import, answer }.write();
        let mut send = self.message(asker, segment(&mut bytes), 0);
        send.completion = CompletionMode::Buffered;
        // SAFETY: buffered, so it is copied before this returns. Without room for it, the asker asks again.
        let _ = unsafe { self.control.post_send_raw_or_end(send, false) };
    }

    /// True if some room has no receive.
    pub fn lacks_room(state: &State) -> bool {
        !state.mailbox.unposted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let name = Name { place: 7, generation: 8_000 };
        assert_eq!(name_of(word_of(name)), name);
        let import = word_of(name);
        let good = Ok(Answer { key: u64::MAX, generation: u32::MAX, bytes: 5 });
        for message in [
            Message::Question { import, id: u32::MAX },
            Message::Answer { import, answer: good },
            Message::Answer { import, answer: Err(Code::NO_BUFFER) },
            Message::Answer { import, answer: Err(Code::PERMISSION) },
        ] {
            assert_eq!(Message::read(&message.write()), Some(message));
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        let good =
            Message::Answer { import: 1, answer: Ok(Answer { key: 2, generation: 3, bytes: 4 }) };
        let with = |at: usize, value: u8| {
            let mut bytes = good.write();
            bytes[at] = value;
            Message::read(&bytes)
        };
        assert!(with(0, b'e').is_none(), "magic");
        assert!(with(15, 3).is_none(), "kind");
        assert!(with(31, 13).is_none(), "a code that no exporter gives");
        assert!(with(24, 0x80).is_none(), "a code beyond all numbers");
        assert!(with(40, 1).is_none(), "a generation of more than 32 bits");
        assert!(with(48, 1).is_none(), "more bytes than a proxy has addresses");
        assert!(with(55, 0).is_none(), "no bytes");
        let mut question = Message::Question { import: 1, id: 2 }.write();
        question[24] = 1;
        assert!(Message::read(&question).is_none(), "an id of more than 32 bits");
    }
}
