use super::*;

const LINK: LinkIndex = LinkIndex(1);
const TARGET: Target = Target::Link(LINK);
const PATH: PathId = PathId::new(1);

fn address(index: u32) -> LinkAddress {
    LinkAddress::index(index)
}

#[test]
fn a_search_asks_a_few_times_and_rests_ever_longer() {
    for target in [TARGET, Target::First] {
        let mut table = Table::new();
        let mut now = Time(0);
        let mut rest = Span(0);
        for _ in 0..3 {
            assert!(table.may_seek(now, 7, target));
            table.seek(now, 7, target, 99);
            assert_eq!(table.sought(99), Some((7, target)));
            let mut asked = 0;
            while let Some(due) = table.next_deadline() {
                now = due;
                asked += u32::from(table.pop_due(now).is_some());
            }
            assert_eq!(asked, SEEK_TRIES);
            assert!(!table.may_seek(now, 7, target));
            let longer = Span(RETRY.0.0.max(rest.0 * 2));
            assert!(!table.may_seek(now + Span(longer.0 - 1), 7, target));
            rest = longer;
            now = now + rest;
        }
    }
}

/// Runs a search to its end without an answer; whether everyone may be asked in it.
fn search(table: &mut Table, now: &mut Time, target: Target) -> bool {
    assert!(table.may_seek(*now, 7, target));
    assert!(table.seek(*now, 7, target, 99));
    let mut everyone = false;
    while let Some(due) = table.next_deadline() {
        *now = due;
        everyone |= table.pop_due(due).is_some_and(|question| question.everyone);
    }
    *now = *now + RETRY.1;
    everyone
}

/// A better link than the only one by which the peer is known is not looked for any more after eight searches; a first path that
/// failed is, as others carry on meanwhile, but everyone is not asked for ever.
#[test]
fn searches_that_ask_everyone_end() {
    let mut table = Table::new();
    let mut now = Time(0);
    for _ in 0..BROADCASTS_MAX {
        assert!(search(&mut table, &mut now, Target::First));
    }
    assert!(!table.may_seek(now + Span(1_000 * RETRY.1.0), 7, Target::First));
    let mut table = Table::new();
    assert!(table.rise(now, 7, (LINK, address(4)), 1_500, 0).is_some());
    assert!(table.fall(now, 7, PathId::FIRST));
    now = now + RETRY.1;
    for _ in 0..BROADCASTS_MAX {
        assert!(search(&mut table, &mut now, Target::First));
    }
    for _ in 0..20 {
        assert!(!search(&mut table, &mut now, Target::First));
    }
}

/// A path that fails again and again rests longer and longer, one that was sound before as after its first failure.
#[test]
fn a_path_that_was_sound_is_tried_again_soon() {
    let mut table = Table::new();
    let mut now = Time(0);
    let mut fails_after = |up: Span, rest_ms: u64| {
        assert_eq!(table.rise(now, 7, (LINK, address(4)), 1_500, 0), Some(PATH));
        now = now + up;
        assert!(table.fall(now, 7, PATH));
        assert!(!table.may_seek(now + Span(Span::ms(rest_ms).0 - 1), 7, TARGET));
        now = now + Span::ms(rest_ms);
        assert!(table.may_seek(now, 7, TARGET));
    };
    for rest_ms in [100, 200, 400] {
        fails_after(Span::ms(1), rest_ms);
    }
    fails_after(SOUND_AFTER, 100);
    fails_after(Span::ms(1), 200);
}

#[test]
fn all_paths_but_one_may_fail() {
    let mut table = Table::new();
    table.seek(Time(0), 7, TARGET, 1);
    assert!(!table.fall(Time(1), 7, PathId::FIRST), "it is the only one");
    assert_eq!(table.rise(Time(1), 7, (LINK, address(4)), 1_500, 0), Some(PATH));
    assert_eq!(table.rise(Time(1), 7, (LinkIndex(2), address(5)), 1_500, 0), Some(PathId::new(2)));
    assert_eq!(table.hop(7, PATH), Some((LINK, &address(4))));
    assert_eq!((table.up(7), table.path(7, LINK)), (0b110, Some(PATH)));
    assert!(table.fall(Time(2), 7, PATH) && !table.fall(Time(2), 7, PATH));
    assert_eq!((table.hop(7, PATH), table.up(7)), (None, 0b100));
    assert!(table.fall(Time(2), 7, PathId::FIRST));
    assert!(!table.fall(Time(2), 7, PathId::new(2)), "the last one");
    table.rise(Time(3), 7, (LINK, address(4)), 1_500, 0);
    assert!(table.hop(7, PATH).is_some());
    table.forget(7);
    assert_eq!((table.hop(7, PATH), table.next_deadline()), (None, None));
}

#[test]
fn a_pair_has_so_many_paths_and_no_more() {
    let mut table = Table::new();
    for link in 1..PATHS_MAX as u8 {
        let path = table.rise(Time(0), 7, (LinkIndex(link), address(link.into())), 1_500, 0);
        assert_eq!(path, Some(PathId::new(link.into())));
    }
    assert_eq!(table.rise(Time(0), 7, (LinkIndex(9), address(9)), 1_500, 0), None);
    assert!(!table.seek(Time(0), 7, Target::Link(LinkIndex(9)), 5));
    assert_eq!(table.sought(5), None);
    // A better link than the first's makes room among the others for that.
    table.change_first(Time(1), 7, LinkIndex(2), (LinkIndex(0), address(0), 1_500), 0);
    assert_eq!(table.path(7, LinkIndex(0)), Some(PathId::new(2)));
    assert_eq!((table.path(7, LinkIndex(2)), table.up(7)), (None, 0b1111_1110));
}
