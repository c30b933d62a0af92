//! What the two ends of a threaded link ask each other beside frames: seldom, so each question and answer is a value in a ring.

use emp_rings::{SlotConsumer, SlotProducer, slot_ring};
use emp_wire::LinkAddress;

use crate::condition::Condition;
use crate::{Capabilities, FaultCounters, Link, LinkStatistics};

/// Questions that may be open at a time: one to look again, one that is waited for, and those of which nobody awaits the answer any more; and
/// answers, of which half are for what was not asked.
const OPEN_MAX: usize = 16;

/// What the thread is asked.
#[derive(Clone, Copy, Default)]
pub(super) enum Question {
    /// How the interface is now.
    #[default]
    Look,
    /// Counts of this moment.
    Count,
    /// Whether the peer there has ended.
    HasEnded(LinkAddress),
    /// To close the link.
    Close,
}

/// What was in the questions that were answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// Nothing that anybody sleeps for.
    Asked,
    /// Something that who asked is to hear of soon.
    News,
    /// The link is to be closed.
    Close,
}

/// What it answers.
#[derive(Default)]
pub(super) enum Answer {
    Looked(Box<Looked>),
    Counted(LinkStatistics, Option<FaultCounters>),
    HasEnded(LinkAddress, bool),
    #[default]
    Closed,
}

/// How a link is.
pub(super) struct Looked {
    capabilities: Capabilities,
    condition: Option<Known>,
    notice: Option<String>,
    changed: Option<bool>,
}

/// A [`Condition`] that owns its name.
#[derive(Clone, PartialEq)]
struct Known {
    interface: String,
    mtu: usize,
    frame_bytes_max: usize,
    trouble: Option<&'static str>,
}

impl Looked {
    fn at(link: &mut dyn Link) -> Self {
        let condition = link.condition().map(|seen| Known {
            interface: seen.interface.to_owned(),
            mtu: seen.mtu,
            frame_bytes_max: seen.frame_bytes_max,
            trouble: seen.trouble,
        });
        Self {
            condition,
            notice: link.notice(),
            changed: link.interfaces_changed(),
            capabilities: link.capabilities().clone(),
        }
    }
}

/// The thread's end.
pub(super) struct TalkedTo {
    /// As it was told last.
    told: Option<Known>,
    /// Frames that the link did not take for too long.
    lost: u64,
    questions: SlotConsumer<Question>,
    answers: SlotProducer<Answer>,
}

/// The end that asks, and what it was told.
pub(super) struct Talk {
    questions: SlotProducer<Question>,
    answers: SlotConsumer<Answer>,
    /// A question to look again is open.
    looks: bool,
    condition: Option<Known>,
    capabilities: Option<Capabilities>,
    notice: Option<String>,
    changed: Option<bool>,
    counts: LinkStatistics,
    faults: Option<FaultCounters>,
    counted: u64,
    ended: Option<(LinkAddress, bool)>,
    closed: bool,
    /// Something of what was told is other than before, and nobody has asked for it yet.
    news: bool,
}

/// Both ends, of a link that is looked at once before it is handed over.
pub(super) fn ends(link: &mut dyn Link) -> (Talk, TalkedTo) {
    let (asks, questions) = slot_ring(OPEN_MAX / 2);
    let (answers, hears) = slot_ring(OPEN_MAX);
    let mut talk = Talk {
        questions: asks,
        answers: hears,
        looks: false,
        condition: None,
        capabilities: None,
        notice: None,
        changed: None,
        counts: link.statistics(),
        faults: link.faults(),
        counted: 0,
        ended: None,
        closed: false,
        news: false,
    };
    talk.note(Looked::at(link));
    talk.news = false;
    let told = talk.condition.clone();
    (talk, TalkedTo { told, lost: 0, questions, answers })
}

impl Talk {
    /// Asks. False: too many questions are open.
    pub(super) fn ask(&mut self, question: Question) -> bool {
        let asked = self.questions.fill(|slot| *slot = question).is_some();
        self.questions.publish();
        asked
    }

    pub(super) fn must_wake(&self) -> bool {
        self.questions.must_wake()
    }

    /// Has the thread look at the link again, unless it is about to.
    pub(super) fn look_again(&mut self) {
        self.looks = self.looks || self.ask(Question::Look);
    }

    /// Takes the answers that are there.
    pub(super) fn hear(&mut self) {
        while let Some(answer) = self.answers.take(std::mem::take) {
            match answer {
                Answer::Looked(looked) => {
                    self.looks = false;
                    self.note(*looked);
                }
                Answer::Counted(counts, faults) => {
                    (self.counts, self.faults) = (counts, faults);
                    self.counted += 1;
                }
                Answer::HasEnded(address, ended) => self.ended = Some((address, ended)),
                Answer::Closed => self.closed = true,
            }
        }
    }

    fn note(&mut self, looked: Looked) {
        let Looked { capabilities, condition, notice, changed } = looked;
        self.news |= condition != self.condition || notice.is_some() || changed == Some(true);
        self.condition = condition;
        self.capabilities = Some(capabilities);
        self.notice = match (self.notice.take(), notice) {
            (Some(first), Some(then)) => Some(format!("{first}; {then}")),
            (first, then) => first.or(then),
        };
        self.changed = match (self.changed, changed) {
            (Some(before), Some(now)) => Some(before || now),
            (_, now) => now,
        };
    }

    pub(super) fn condition(&self) -> Option<Condition<'_>> {
        let Known { interface, mtu, frame_bytes_max, trouble } = self.condition.as_ref()?;
        let (mtu, frame_bytes_max, trouble) = (*mtu, *frame_bytes_max, *trouble);
        Some(Condition { interface, mtu, frame_bytes_max, trouble })
    }

    /// True if [`condition`](Self::condition) or what goes with it is other than when this was last said to be heard.
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    pub(super) fn news_are_heard(&mut self) {
        self.news = false;
    }

    /// What the link can do now, if it was looked at since this was asked.
    pub(super) fn take_capabilities(&mut self) -> Option<Capabilities> {
        self.capabilities.take()
    }

    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    pub(super) fn take_change(&mut self) -> Option<bool> {
        self.changed.as_mut().map(std::mem::take)
    }

    /// Times that counts were told.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    pub(super) fn counts(&self) -> LinkStatistics {
        self.counts
    }

    pub(super) fn faults(&self) -> Option<FaultCounters> {
        self.faults
    }

    pub(super) fn forget_ended(&mut self) {
        self.ended = None;
    }

    /// Whether the peer at this address has ended, if that was the last question of the kind that was answered.
    pub(super) fn ended(&self, address: &LinkAddress) -> Option<bool> {
        self.ended.filter(|(of, _)| of == address).map(|(_, ended)| ended)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

impl TalkedTo {
    /// Questions that are there now.
    pub(super) fn asked(&mut self) -> usize {
        self.questions.ready()
    }

    /// Answers the first so many questions.
    pub(super) fn answer(&mut self, asked: usize, link: &mut dyn Link) -> Answered {
        let mut answered = Answered::Asked;
        for _ in 0..asked {
            let Some(question) = self.questions.take(std::mem::take) else { break };
            let answer = match question {
                Question::Look => {
                    if self.look(link) {
                        answered = Answered::News;
                    }
                    continue;
                }
                Question::Count => {
                    let mut counts = link.statistics();
                    counts.system_errors += self.lost;
                    Answer::Counted(counts, link.faults())
                }
                Question::HasEnded(address) => Answer::HasEnded(address, link.has_ended(&address)),
                Question::Close => return Answered::Close,
            };
            self.say(answer);
        }
        answered
    }

    /// Tells how the link is. True if that is news.
    fn look(&mut self, link: &mut dyn Link) -> bool {
        let looked = Looked::at(link);
        let news = looked.condition != self.told
            || looked.notice.is_some()
            || looked.changed == Some(true);
        if news {
            self.told.clone_from(&looked.condition);
        }
        self.say(Answer::Looked(Box::new(looked)));
        news
    }

    /// The same unasked, as something has changed. False if too much waits to be heard already.
    pub(super) fn tell(&mut self, link: &mut dyn Link) -> bool {
        let room = self.answers.free() > OPEN_MAX / 2;
        if room {
            self.look(link);
        }
        room
    }

    /// Frames were lost that the link did not take.
    pub(super) fn note_lost(&mut self, frames: usize) {
        self.lost += frames as u64;
    }

    /// The link is closed.
    pub(super) fn closed(&mut self) {
        self.say(Answer::Closed);
    }

    fn say(&mut self, answer: Answer) {
        // There is room: no more questions are open than there are places for answers.
        self.answers.fill(|slot| *slot = answer);
        self.answers.publish();
    }

    /// Wants to be woken by the next question. True: one is there.
    pub(super) fn arm(&self) -> bool {
        self.questions.arm()
    }

    pub(super) fn disarm(&self) {
        self.questions.disarm();
    }
}
