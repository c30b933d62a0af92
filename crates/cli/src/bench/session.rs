//! The client's side of a benchmark: subjects open at both ends, slices of work one at a time.

use std::sync::Once;

use anyhow::bail;

use super::calls::{Script, Tally};
use super::control::{Answer, Card, Control, Request, hello};
use super::job::{Job, LinkChoice, Measure, Spec};
use super::subject::{self, Place, Role, Subject};
use super::verify;

/// Says once why a choice that was left to EMP is not the best one that EMP has.
fn note_choice(specs: &[Spec], place: &Place) {
    static SAID: Once = Once::new();
    let left_to_emp = specs.iter().any(|spec| spec.uses_link() && spec.link == LinkChoice::Auto);
    if let Some(problem) = place.packet_problem().filter(|_| left_to_emp) {
        SAID.call_once(|| eprintln!("note: auto takes udp only: {problem}"));
    }
}

/// Subjects that are open and connected at both ends.
pub struct Session {
    control: Control,
    specs: Vec<Spec>,
    cards: Vec<Card>,
    subjects: Vec<Box<dyn Subject>>,
    place: Place,
    /// Of each subject's last job: user-space copies of a payload byte, both ends together.
    copies: Vec<Option<f64>>,
}

impl Session {
    /// Reaches the listener and opens the subjects at both ends, on the interface of that name and, what cannot be there
    /// too, on the second.
    pub fn open(
        peer: &str,
        specs: Vec<Spec>,
        interfaces: [Option<String>; 2],
        mtu: Option<usize>,
    ) -> anyhow::Result<Self> {
        let mut control = Control::connect(peer)?;
        let mut place = Place::find(control.addresses()?, interfaces, mtu)?;
        let own = place.end()?;
        let Answer::Here(other) = control.ask(&hello(own.clone(), mtu))? else {
            bail!("the other end did not say where it is");
        };
        place.meet(&own, &other);
        note_choice(&specs, &place);
        let openings = subject::open_all(&specs, &place, Role::Active)?;
        let cards: Vec<Card> = openings.iter().map(|opening| opening.card()).collect();
        let open = Request::Open { specs: specs.clone(), cards: cards.clone() };
        let Answer::Welcome { cards: theirs } = control.ask(&open)? else {
            bail!("the other end did not open what was asked");
        };
        let pairs = openings.into_iter().zip(&theirs);
        let subjects =
            pairs.map(|(opening, card)| opening.connect(card)).collect::<Result<_, _>>()?;
        let copies = vec![None; specs.len()];
        Ok(Self { control, specs, cards, subjects, place, copies })
    }

    /// The subjects, in order.
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// What this end opened for each.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// Where this end is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// How often each payload byte of a subject's last job was copied in user space, both ends together; where counted.
    pub fn copies(&self, subject: usize) -> Option<f64> {
        self.copies[subject]
    }

    /// Both ends do a job; this one measures.
    pub fn run(&mut self, subject: usize, job: Job) -> anyhow::Result<Measure> {
        self.subjects[subject].prepare(Role::Active, &job)?;
        let Answer::Ready = self.control.ask(&Request::Run { subject, job })? else {
            bail!("the other end did not get ready");
        };
        let before = self.subjects[subject].copied();
        let measure = self.subjects[subject].active(&job)?;
        let Answer::Done { copied: theirs } = self.control.answer()? else {
            bail!("the other end did not finish");
        };
        let own = self.subjects[subject].copied().zip(before).map(|(after, before)| after - before);
        let payload = measure.payload_bytes();
        self.copies[subject] = own
            .zip(theirs)
            .filter(|_| payload > 0.0)
            .map(|(own, theirs)| (own + theirs) as f64 / payload);
        Ok(measure)
    }

    /// Both ends play a script; this one measures.
    pub fn play(&mut self, subject: usize, script: Script) -> anyhow::Result<Tally> {
        let mut calls = self.subjects[subject].calls(&script)?;
        script.prepare(&mut *calls)?;
        let Answer::Ready = self.control.ask(&Request::Play { subject, script })? else {
            bail!("the other end did not get ready");
        };
        let tally = script.active(&mut *calls)?;
        match self.control.answer()? {
            Answer::Done { .. } => Ok(tally),
            _ => bail!("the other end did not finish"),
        }
    }

    /// Both ends exchange random messages. Returns what each saw, this one first.
    pub fn verify(
        &mut self,
        subject: usize,
        plan: verify::Plan,
    ) -> anyhow::Result<[verify::Tally; 2]> {
        let request = Request::Verify { subject, plan: plan.clone() };
        let Answer::Ready = self.control.ask(&request)? else {
            bail!("the other end did not get ready");
        };
        let own = self.subjects[subject].verify(&plan, Role::Active);
        let theirs = self.control.answer();
        // What went wrong here says more than what the other end saw of it.
        match (own?, theirs?) {
            (own, Answer::Verified(theirs)) => Ok([own, theirs]),
            _ => bail!("the other end did not finish"),
        }
    }
}
