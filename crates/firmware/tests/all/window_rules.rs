//! How much a sender lets be under way (`WINDOW-1` to `WINDOW-6`), and how long it waits after a refusal (`READY-2`).

use crate::common::forge::*;
use emp_firmware::limits::{NOT_READY_BACKOFF, WINDOW_FRAMES};
use emp_firmware::*;
use emp_wire::{AckDelay, Flags, Kind, NotReadyCause};

/// A message that leaves unasked, in so many frames: the first has the fields of a longer message.
const TRAIN_FRAMES: u32 = 44;
const TRAIN_BYTES: u64 = (MTU - 32 - 44) as u64 + 43 * (MTU - 32) as u64;

/// A sender that always has more to send.
struct Stream {
    real: Real,
    peer: Forged,
    /// The number after the last that left, and the first that is not acknowledged.
    sent: u32,
    acked: u32,
    posted: u32,
}

impl Stream {
    fn new() -> Self {
        Self::of(&Profile::DEFAULT)
    }

    fn of(profile: &Profile) -> Self {
        let mut real = Real::new(profile);
        let peer = Forged::met(2, &mut real);
        Self { real, peer, sent: 0, acked: 0, posted: 0 }
    }

    /// Lets it send what it may; gives how many frames are under way then.
    fn fill(&mut self) -> u32 {
        while self.posted < self.acked + 2 * WINDOW_FRAMES {
            self.real.send(&self.peer, TRAIN_BYTES);
            self.posted += TRAIN_FRAMES;
        }
        let said = self.real.speak();
        self.note(&said);
        self.sent - self.acked
    }

    fn note(&mut self, said: &[Said]) {
        for one in said.iter().filter(|said| said.kind().sequenced()) {
            self.sent = self.sent.max(one.header.sequence.0 + 1);
        }
    }

    /// All that is under way is acknowledged after this round trip.
    fn round(&mut self, trip: Span) {
        self.round_told(trip, AckDelay::default());
    }

    /// The same, and the receiver tells what of it was its own.
    fn round_told(&mut self, trip: Span, delay: AckDelay) {
        self.round_flagged(trip, delay, Flags::default());
    }

    /// The same, by an acknowledgement with these flags.
    fn round_flagged(&mut self, trip: Span, delay: AckDelay, flags: Flags) {
        self.real.now = self.real.now + trip;
        self.acked = self.sent;
        let acknowledges = Forged { acknowledge: Some(self.acked), ..self.peer };
        let frame = acknowledges.frame(
            Kind::Ack,
            flags,
            self.acked - 1,
            delay.word(),
            &self.peer.node.0.to_be_bytes(),
        );
        self.real.hear(&self.peer, &frame);
    }

    /// Rounds of this length; frames under way in the last one.
    fn rounds(&mut self, count: u32, trip: Span) -> u32 {
        for _ in 0..count {
            self.fill();
            self.round(trip);
        }
        self.fill()
    }
}

#[test]
fn short_round_trips_open_the_window_up_to_its_limit() {
    let mut stream = Stream::new();
    let mut before = stream.fill();
    // 72 KB.
    assert!((47..=50).contains(&before), "{before}");
    for round in 0..30 {
        stream.round(Span::us(100));
        let now = stream.fill();
        assert!(now >= before, "round {round}: {now} after {before}");
        // Not more than twice as many at once.
        assert!(now <= 2 * before, "round {round}: {now} after {before}");
        before = now;
    }
    assert_eq!(before, WINDOW_FRAMES);
}

/// `WINDOW-2`.
#[test]
fn long_round_trips_shrink_it_in_proportion_and_to_less_than_a_frame() {
    let mut stream = Stream::new();
    assert_eq!(stream.rounds(30, Span::us(100)), WINDOW_FRAMES);
    // The least was 100 µs: 120 more are no excess for so large a window.
    assert_eq!(stream.rounds(5, Span::us(210)), WINDOW_FRAMES);
    // One round says nothing: its receiver may not have run. Nor does another after one that was as usual.
    for _ in 0..3 {
        assert_eq!(stream.rounds(1, Span::us(5_000)), WINDOW_FRAMES);
        assert_eq!(stream.rounds(1, Span::us(100)), WINDOW_FRAMES);
    }
    assert_eq!(stream.rounds(1, Span::us(300)), WINDOW_FRAMES);
    let little = stream.rounds(1, Span::us(300));
    assert!((WINDOW_FRAMES * 3 / 4..WINDOW_FRAMES).contains(&little), "{little}");
    // Never by more than half, and not twice in one round trip.
    let mut before = little;
    for round in 0..8 {
        stream.round(Span::us(5_000));
        let now = stream.fill();
        assert!(now <= before && now * 2 + 2 >= before, "round {round}: {now} after {before}");
        before = now;
    }
    assert_eq!(before, 1);
}

/// A host that did not run is no queue (`ACK-8`), at either end; what an acknowledgement was held back for is none, either.
#[test]
fn round_trips_in_which_nobody_looked_leave_the_window() {
    let slow = Span::us(5_000);
    let told = |held_us, unseen_us| AckDelay { held_us, unseen_us };
    let after = |delay: AckDelay, unseen: Span| {
        let mut stream = Stream::new();
        stream.rounds(30, Span::us(100));
        stream.real.firmware.set_unseen(unseen);
        for _ in 0..12 {
            stream.round_told(slow, delay);
            stream.fill();
        }
        stream.fill()
    };
    assert_eq!(after(told(0, 4_900), Span(0)), WINDOW_FRAMES);
    assert_eq!(after(told(2_000, 2_900), Span(0)), WINDOW_FRAMES);
    assert_eq!(after(told(0, 0), Span::us(4_900)), WINDOW_FRAMES);
    assert_eq!(after(told(0, 2_000), Span::us(2_900)), WINDOW_FRAMES);
    // What is left is delay.
    assert!(after(told(0, 2_000), Span(0)) < 4);
    assert!(after(told(0, 0), Span::us(2_000)) < 4);
}

/// Marks shrink it though nothing is late (`ACK-9`, RFC 8257): by half where all is marked, by less where little was lately.
#[test]
fn marks_shrink_the_window_without_delay() {
    let mut stream = Stream::new();
    let trip = Span::us(100);
    assert_eq!(stream.rounds(30, trip), WINDOW_FRAMES);
    let marked_round = |stream: &mut Stream| {
        stream.round_flagged(trip, AckDelay::default(), Flags::MARKED);
        stream.fill()
    };
    // Nothing was marked for long, so one marked round takes a little.
    let first = marked_round(&mut stream);
    assert!((WINDOW_FRAMES * 3 / 4..WINDOW_FRAMES).contains(&first), "{first}");
    let (mut before, mut rounds) = (first, 1);
    while before > 8 {
        let now = marked_round(&mut stream);
        assert!(now <= before && 2 * now + 2 >= before, "{now} after {before}");
        (before, rounds) = (now, rounds + 1);
        assert!(rounds < 20, "{before} after {rounds} rounds");
    }
    assert!(stream.rounds(10, trip) > before, "it grows again");
}

/// What comes marked is told by an acknowledgement of its own (`ACK-9`).
#[test]
fn a_receiver_tells_at_once_what_came_marked() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let mut hear = |real: &mut Real, marked| {
        real.firmware.set_marked(marked);
        let frame = peer.message(Flags::default(), None, 7, b"x");
        real.hear(&peer, &frame);
    };
    let flags = |said: &[Said]| -> Vec<bool> {
        of_kind(said, Kind::Ack).iter().map(|ack| ack.header.flags.has(Flags::MARKED)).collect()
    };
    hear(&mut real, false);
    assert_eq!(flags(&real.speak()), [false; 0], "it may wait");
    hear(&mut real, true);
    assert_eq!(flags(&real.speak()), [true]);
    hear(&mut real, false);
    assert_eq!(flags(&real.pass(Span::ms(1))), [false]);
    // Of several in a row the first is told at once, the others as usual.
    hear(&mut real, true);
    hear(&mut real, true);
    assert_eq!(flags(&real.speak()), [true]);
    assert_eq!(flags(&real.pass(Span::ms(1))), [false; 0]);
}

/// A receiver tells for how long nobody had looked, and for how long it sat on the acknowledgement (`ACK-8`).
#[test]
fn a_receiver_tells_its_own_part_of_the_round_trip() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let mut told = |unseen: Span| {
        real.firmware.set_unseen(unseen);
        let frame = peer.message(Flags::default(), None, 7, b"x");
        real.hear(&peer, &frame);
        let said = real.pass(Span::ms(1));
        AckDelay::of_word(of_kind(&said, Kind::Ack)[0].header.word)
    };
    let usual = told(Span(0));
    assert!(usual.unseen_us == 0 && (50..=100).contains(&usual.held_us), "{usual:?}");
    assert_eq!(told(Span::us(1_234)).unseen_us, 1_234);
    assert_eq!(told(Span::ms(1_000)).unseen_us, u16::MAX);
}

/// Frames that are longer than the window leave one by one, and not each time that one is acknowledged (`WINDOW-4`).
#[test]
fn a_window_of_less_than_a_frame_is_paced() {
    let mut stream = Stream::new();
    stream.rounds(30, Span::us(100));
    stream.rounds(12, Span::us(5_000));
    let mut left = Vec::new();
    for _ in 0..1_000 {
        let said = stream.real.pass(Span::us(100));
        stream.note(&said);
        if stream.sent > stream.acked {
            assert_eq!(stream.sent - stream.acked, 1);
            left.push(stream.real.now);
            stream.round(Span::us(5_000));
        }
    }
    // Half a frame in a round trip of 5 ms, and less and less; 20 ms at most.
    assert!(left.len() >= 5, "{left:?}");
    let waits = left.windows(2).map(|pair| pair[1].since(pair[0]));
    for wait in waits {
        assert!(wait >= Span::us(9_900) && wait <= Span::us(20_200), "{left:?}");
    }
}

/// Where a queue stands, as one does that overflows; else it takes an eighth. Neither counts twice for what had left before.
#[test]
fn loss_halves_it_once_for_what_was_under_way() {
    for (trip, left) in [(Span::us(180), WINDOW_FRAMES / 2), (Span::us(100), WINDOW_FRAMES * 7 / 8)]
    {
        let mut stream = Stream::new();
        assert_eq!(stream.rounds(30, Span::us(100)), WINDOW_FRAMES);
        assert_eq!(stream.rounds(3, trip), WINDOW_FRAMES);
        let first = stream.acked;
        // The first of the window is lost, the next forty have come; then the fiftieth, and sixty more.
        for (latest, bits) in [(40, (1u64 << 40) - 1), (60, ((1u64 << 60) - 1) & !(1 << 49))] {
            stream.real.now = stream.real.now + if latest == 40 { trip } else { Span::us(5) };
            let frame = stream.peer.ack(first, first + latest, bits);
            stream.real.hear(&stream.peer, &frame);
            let said = stream.real.speak();
            stream.note(&said);
        }
        stream.round(Span::us(5));
        let now = stream.fill();
        assert!((left - 2..=left + 2).contains(&now), "{now}");
        // From there it grows by a frame a round.
        let later = stream.rounds(10, Span::us(100));
        assert!((now + 8..=now + 12).contains(&later), "{later} after {now}");
    }
}

#[test]
fn after_a_pause_it_is_as_at_first() {
    let mut stream = Stream::new();
    let initial = stream.fill();
    assert_eq!(stream.rounds(30, Span::us(100)), WINDOW_FRAMES);
    // All that was posted leaves and is acknowledged.
    loop {
        let before = stream.sent;
        stream.round(Span::us(100));
        let said = stream.real.speak();
        stream.note(&said);
        if stream.sent == before {
            break;
        }
    }
    stream.real.now = stream.real.now + Span::ms(55);
    let now = stream.fill();
    assert!(now <= initial + 1, "{now}, at first {initial}");
}

/// However many acknowledgements come at the end of a long round trip: they are about the same frames in the same queue.
#[test]
fn one_round_trip_cuts_it_once() {
    let mut stream = Stream::new();
    assert_eq!(stream.rounds(30, Span::us(100)), WINDOW_FRAMES);
    // The second delayed round counts.
    assert_eq!(stream.rounds(1, Span::us(5_000)), WINDOW_FRAMES);
    stream.real.now = stream.real.now + Span::us(5_000);
    let first = stream.acked;
    for part in 1..=4 {
        stream.acked = first + part * WINDOW_FRAMES / 4;
        let frame = stream.peer.ack(stream.acked, stream.acked - 1, 0);
        stream.real.hear(&stream.peer, &frame);
        stream.real.now = stream.real.now + Span::us(1);
    }
    let now = stream.fill();
    assert!((WINDOW_FRAMES / 2..WINDOW_FRAMES).contains(&now), "{now}");
}

/// Karn's rule where bits come with it: what was resent gives no round trip, however soon an answer to an earlier copy comes.
#[test]
fn resent_frames_do_not_make_round_trips_look_short() {
    let mut stream = Stream::new();
    let trip = Span::us(5_000);
    assert_eq!(stream.rounds(30, trip), WINDOW_FRAMES);
    let first = stream.acked;
    let bits = |from: u32, to: u32| (from..to).fold(0, |bits, bit| bits | 1 << bit);
    // The first four are late.
    stream.real.now = stream.real.now + trip;
    let frame = stream.peer.ack(first, first + 40, bits(3, 40));
    stream.real.hear(&stream.peer, &frame);
    let resent = stream.real.speak();
    assert!((0..4).all(|i| resent.iter().any(|said| said.header.sequence.0 == first + i)));
    stream.note(&resent);
    // Two of them come a moment after they were resent.
    stream.real.now = stream.real.now + Span::us(50);
    let frame = stream.peer.ack(first + 2, first + 1, bits(1, 38));
    stream.real.hear(&stream.peer, &frame);
    stream.round(trip);
    let mut before = stream.fill();
    assert!(before >= WINDOW_FRAMES / 2 - 2, "{before}: once for the four that seemed lost");
    for _ in 0..5 {
        let now = stream.rounds(1, trip);
        assert!(now >= before, "round trips are as they were: {now} after {before}");
        before = now;
    }
}

/// Three runs say nothing: the answer tells what was lost. Of a receiver that acknowledges nothing out of order, only the probe does not.
#[test]
fn the_fourth_run_of_the_timer_halves_it_those_before_do_not() {
    let cuts = |profile, runs_that_cut: u64| {
        run_out(profile, runs_that_cut - 1, WINDOW_FRAMES);
        run_out(profile, runs_that_cut, WINDOW_FRAMES / 2);
    };
    cuts(&Profile::DEFAULT, 4);
    let in_order = Profile { selective_acks: false, ..Profile::DEFAULT };
    cuts(&in_order, 2);
    // Whoever sends no probe has none that says nothing.
    cuts(&Profile { tail_probe: false, ..in_order }, 1);
}

/// The timer runs out so many times with nothing acknowledged: how much of a full window that leaves.
fn run_out(profile: &Profile, runs: u64, most: u32) {
    let mut stream = Stream::of(profile);
    assert_eq!(stream.rounds(30, Span::us(100)), WINDOW_FRAMES);
    let before = stream.real.count(Counter::TailProbes) + stream.real.count(Counter::Timeouts);
    let ran = |stream: &Stream| {
        let counted = stream.real.count(Counter::TailProbes);
        counted + stream.real.count(Counter::Timeouts) - before
    };
    while ran(&stream) < runs {
        let said = stream.real.pass(Span::us(50));
        stream.note(&said);
    }
    // What comes then was sent too long ago to be measured, and opens the window by a quarter at most.
    stream.acked = stream.sent;
    let frame = stream.peer.ack(stream.acked, stream.acked - 1, 0);
    stream.real.hear(&stream.peer, &frame);
    let now = stream.fill();
    let open = most + WINDOW_FRAMES / 4;
    assert!((most..=open.min(WINDOW_FRAMES)).contains(&now), "{runs} runs: {now}");
    // By a frame a round.
    assert_eq!(stream.rounds(WINDOW_FRAMES, Span::us(100)), WINDOW_FRAMES);
}

/// Not even what may leave beyond the window goes beyond the numbers that a receiver takes (`SEQ-3`).
#[test]
fn no_number_leaves_that_its_receiver_would_not_take() {
    let mut stream = Stream::new();
    stream.rounds(30, Span::us(100));
    // What was posted is sent to its end; then as many messages of a frame each as there are numbers.
    loop {
        let before = stream.sent;
        stream.round(Span::us(100));
        let said = stream.real.speak();
        stream.note(&said);
        if stream.sent == before {
            break;
        }
    }
    for _ in 0..WINDOW_FRAMES {
        stream.real.send(&stream.peer, 10);
    }
    let said = stream.real.speak();
    stream.note(&said);
    assert_eq!(stream.sent - stream.acked, WINDOW_FRAMES);
    stream.real.receive(Selector::ANY, 10);
    let frame = stream.peer.message(Flags::SYNCHRONOUS, None, 0, b"x");
    stream.real.hear(&stream.peer, &frame);
    let said = stream.real.speak();
    assert!(!said.iter().any(|said| said.kind().sequenced()), "{:?}", kinds(&said));
    // The answer leaves when there is a number for it.
    stream.round(Span::us(100));
    assert_eq!(of_kind(&stream.real.speak(), Kind::Done).len(), 1);
}

/// Refuses the message whose first frame has this number until it comes again: after how long.
fn refuse(real: &mut Real, peer: &Forged, first: &Said, suggested_us: u32) -> (Span, Said) {
    let refused = real.now;
    let sequence = first.header.sequence.0;
    let frame = peer.not_ready(first.header.word, sequence, NotReadyCause::Full, suggested_us);
    real.hear(peer, &frame);
    // A skip takes its place at once.
    let said = real.speak();
    assert_eq!(kinds(&said), [Kind::Skip]);
    assert_eq!(said[0].header.sequence.0, sequence);
    real.hear(peer, &peer.ack(sequence + 1, sequence, 0));
    loop {
        let said = real.pass(Span::us(10));
        if let Some(again) = of_kind(&said, Kind::Message).first() {
            assert_eq!(again.header.word, first.header.word, "its number stays");
            return (again.at.since(refused), again.clone());
        }
        assert!(real.now.since(refused) < Span::ms(50), "it never comes again");
    }
}

#[test]
fn a_refused_message_comes_again_after_50_us_that_double_up_to_5_ms() {
    let (least, most) = NOT_READY_BACKOFF;
    assert_eq!((least, most), (Span::us(50), Span::ms(5)));
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 100);
    let mut first = of_kind(&real.speak(), Kind::Message)[0].clone();
    for message in 0..3 {
        let mut wanted = least;
        for time in 0..15 {
            let (took, again) = refuse(&mut real, &peer, &first, 0);
            assert_eq!(took, wanted, "message {message}, refused {time} times before");
            wanted = Span((2 * wanted.0).min(most.0));
            first = again;
            if time == 3 {
                // Another waits behind it: of refused messages one tries its luck at a time.
                real.send(&peer, 100);
            }
        }
        // What is taken ends it: the next one leaves at once, and begins with the least again.
        let taken = first.header.sequence.0;
        real.hear(&peer, &peer.ack(taken + 1, taken, 0));
        assert_eq!(real.done.len(), message + 1);
        first = of_kind(&real.speak(), Kind::Message)[0].clone();
        assert_eq!(first.at, real.now);
    }
    assert!(real.done.iter().all(|done| done.status == Status::Ok));
}

#[test]
fn a_receiver_may_ask_for_a_longer_wait_within_the_limit() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 100);
    let first = of_kind(&real.speak(), Kind::Message)[0].clone();
    let (took, first) = refuse(&mut real, &peer, &first, 1_000);
    assert_eq!(took, Span::ms(1));
    let (took, first) = refuse(&mut real, &peer, &first, 10);
    assert_eq!(took, Span::us(100), "less than its own it does not wait");
    let (took, _) = refuse(&mut real, &peer, &first, u32::MAX);
    assert_eq!(took, Span::ms(5));
}

/// Which of the frames of messages of so many bytes, of which the peer has the first `acked`, come again whenever a timer runs out: by
/// their order. A probe is one frame, and comes before.
fn runs(profile: &Profile, messages: &[u64], acked: u32) -> Vec<Vec<u32>> {
    let mut real = Real::new(profile);
    let peer = Forged::met(2, &mut real);
    for bytes in messages {
        real.send(&peer, *bytes);
    }
    let sequenced = |said: Vec<Said>| said.into_iter().filter(|said| said.kind().sequenced());
    let base = sequenced(real.speak()).next().expect("the messages left").header.sequence.0;
    if acked > 0 {
        real.hear(&peer, &peer.ack(base + acked, base + acked - 1, 0));
    }
    let mut runs = std::collections::BTreeMap::<Time, Vec<u32>>::new();
    for said in sequenced(real.pass(Span::ms(60))) {
        runs.entry(said.at).or_default().push(said.header.sequence.0.wrapping_sub(base));
    }
    runs.into_values().skip_while(|run| run.len() == 1).collect()
}

/// Those that come again first.
fn come_again(profile: &Profile, messages: &[u64], acked: u32) -> Vec<u32> {
    runs(profile, messages, acked).into_iter().next().unwrap_or_default()
}

/// A profile says what comes again with a frame that is missing: the rest of its collection (E30), of its message, or all behind it (V13);
/// never what is acknowledged.
#[test]
fn what_comes_again_is_the_unit_of_the_profile() {
    let nine = 8 * 1_450 + 100;
    assert_eq!(come_again(&Profile::EMP2001, &[nine], 0), [0, 1, 2]);
    assert_eq!(come_again(&Profile::EMP2001, &[nine], 4), [4, 5]);
    assert_eq!(come_again(&Profile::OPENMX, &[4_000, 4_000], 0), [0, 1, 2]);
    assert_eq!(come_again(&Profile::OPENMX, &[4_000, 4_000], 1), [1, 2]);
    assert_eq!(come_again(&Profile::VMMC2, &[4_000, 4_000], 0), [0, 1, 2, 3, 4, 5]);
    assert_eq!(come_again(&Profile::VMMC2, &[4_000, 4_000], 2), [2, 3, 4, 5]);
}

/// Silence after that says nothing of any frame: without selective acknowledgements all of them come again (`RESEND-1`), as many at a time
/// as windows take.
#[test]
fn after_the_unit_all_comes_again() {
    let nine = 8 * 1_450 + 100;
    let [unit, next, ..] = &runs(&Profile::EMP2001, &[nine], 0)[..] else { panic!("two runs") };
    assert_eq!(unit[..], [0, 1, 2]);
    assert!(next.len() > 3 && next.iter().enumerate().all(|(i, at)| i as u32 == *at), "{next:?}");
}

/// Resent frames always request an acknowledgement (`RESEND-1`), also those of messages for which nobody waits.
#[test]
fn what_is_sent_again_requests_an_acknowledgement() {
    for profile in [Profile::DEFAULT, Profile::EMP2001, Profile::OPENMX, Profile::VMMC2] {
        let mut real = Real::new(&profile);
        let peer = Forged::met(2, &mut real);
        for _ in 0..3 {
            real.send_with(&peer, 100, CompletionMode::Buffered).unwrap();
        }
        let said = real.speak();
        assert!(said.iter().any(|said| !said.header.flags.has(Flags::ACK_REQUEST)), "{said:?}");
        let again = of_kind(&real.pass(Span::ms(60)), Kind::Message);
        assert!(again.len() >= 3, "{}", again.len());
        let requests = again.iter().filter(|said| said.header.flags.has(Flags::ACK_REQUEST));
        assert_eq!(requests.count(), again.len());
    }
}
