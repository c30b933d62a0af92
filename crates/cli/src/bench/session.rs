//! The client's side of a benchmark: subjects open at both ends, slices of work one at a time.

use std::sync::Once;
use std::time::Duration;

use anyhow::{anyhow, bail};

use super::calls::{Script, Tally};
use super::congestion;
use super::control::{Answer, Control, Request, Silent, hello};
use super::job::{Job, LinkChoice, Measure, Spec};
use super::lifeline::Lost;
use super::subject::{self, Card, End, Named, Place, Role, Subject};
use super::verify;
use crate::bail_user;
use crate::error::UserError;

/// A listener that has no other client answers a hello at once.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// All later answers come after little work: opening links and getting buffers ready takes seconds on a slow machine, and
/// what runs at both ends has limits of its own.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// How long to listen for the other end's last words once this one has failed.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Says hello to whoever listens and learns where that is.
fn greet(control: &mut Control, peer: &str, own: &End, mtu: Option<usize>) -> anyhow::Result<End> {
    control.patience(HELLO_LIMIT)?;
    let answer = control.ask(&hello(own.clone(), mtu));
    control.patience(ANSWER_LIMIT)?;
    match answer {
        Ok(Answer::Here(other)) => Ok(other),
        Ok(_) => bail!("the other end did not say where it is"),
        Err(error) if error.is::<Silent>() => bail_user!(
            "{peer} did not answer in {} s; `emp bench listen` answers at once, unless it serves another client",
            HELLO_LIMIT.as_secs()
        ),
        Err(error) => Err(error),
    }
}

/// Says once why a choice that was left to EMP is not the best one that EMP has.
fn note_choice(specs: &[Spec], place: &Place) {
    static SAID: Once = Once::new();
    let left_to_emp = specs.iter().any(|spec| spec.uses_link() && spec.link == LinkChoice::Auto);
    if let Some(problem) = place.emp_problem().filter(|_| left_to_emp) {
        SAID.call_once(|| eprintln!("note: auto takes udp only: {problem}"));
    }
}

/// TCP's subjects once for each congestion control that both ends have. Says once which are missing.
fn with_congestion(specs: Vec<Spec>, own: &End, other: &End) -> Vec<Spec> {
    static SAID: Once = Once::new();
    let names = congestion::common(&own.congestion, &other.congestion);
    if let Some(text) = congestion::missing(&names).filter(|_| specs.iter().any(Spec::is_tcp)) {
        SAID.call_once(|| eprintln!("note: {text}"));
    }
    congestion::expand(specs, &names)
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
    /// too, on the spare ones; those of TCP once for each congestion control.
    pub fn open(
        peer: &str,
        specs: Vec<Spec>,
        interfaces: &Named,
        mtu: Option<usize>,
    ) -> anyhow::Result<Self> {
        // What is wrong here is said before anybody is asked.
        for name in interfaces.first.iter().chain(&interfaces.together).chain(&interfaces.spares) {
            Place::named(name)?;
        }
        let mut control = Control::connect(peer)?;
        let mut place = Place::find(control.addresses()?, interfaces, mtu)?;
        let own = place.end()?;
        let other = greet(&mut control, peer, &own, mtu)?;
        place.meet(&own, &other);
        note_choice(&specs, &place);
        let specs = with_congestion(specs, &own, &other);
        let openings = subject::open_all(&specs, &place, Role::Active)?;
        let cards: Vec<Card> = openings.iter().map(|opening| opening.card()).collect();
        let open = Request::Open { specs: specs.clone(), cards: cards.clone() };
        let Answer::Welcome { cards: theirs } = control.ask(&open)? else {
            bail!("the other end did not open what was asked");
        };
        let pairs = openings.into_iter().zip(&theirs);
        let subjects = pairs.map(|(opening, card)| opening.connect(card)).collect::<Result<_, _>>();
        let subjects = subjects.map_err(|problem| explain(&mut control, problem))?;
        let copies = vec![None; specs.len()];
        Ok(Self { control, specs, cards, subjects, place, copies })
    }

    /// The subjects, in order.
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// What steers a subject that is TCP.
    pub fn congestion(&self, subject: usize) -> Option<String> {
        let spec = &self.specs[subject];
        let usual = || congestion::usual().unwrap_or_else(|| "unknown".to_owned());
        spec.is_tcp().then(|| spec.congestion.clone().unwrap_or_else(usual))
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
        let measure = self.subjects[subject].active(&job);
        let measure = measure.map_err(|problem| explain(&mut self.control, problem))?;
        self.subjects[subject].leave_memory(&job);
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
        let tally = script.active(&mut *calls);
        drop(calls);
        let tally = tally.map_err(|problem| explain(&mut self.control, problem))?;
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
        let own = own.map_err(|problem| explain(&mut self.control, problem))?;
        match self.control.answer()? {
            Answer::Verified(theirs) => Ok([own, theirs]),
            _ => bail!("the other end did not finish"),
        }
    }
}

/// Why this end's half failed: what was seen here, and what the other end has to say if it gave up. Nothing but that if the
/// other end is gone: all else follows from it.
fn explain(control: &mut Control, problem: anyhow::Error) -> anyhow::Error {
    if let Err(failed) = control.patience(LAST_WORDS) {
        return failed;
    }
    // One answer at most is still on its way from what went well before.
    let last_words = (0..2).find_map(|_| control.answer().err());
    match last_words {
        Some(gone) if gone.is::<Lost>() => gone,
        Some(refused) if !refused.is::<Silent>() && problem.is::<Lost>() => refused,
        Some(refused) if !refused.is::<Silent>() && !problem.is::<UserError>() => {
            anyhow!("{problem:#}; {refused:#}")
        }
        _ => problem,
    }
}
