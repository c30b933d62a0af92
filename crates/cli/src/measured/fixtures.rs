//! Rows for tests.

use super::{OverlapRow, Pattern, Point, Row, ShareRow, ShareSubject, SubjectKind};

/// A point whose trials all took the same time.
pub fn point(subject: SubjectKind, bytes: usize, us: f64) -> Point {
    let link = matches!(subject, SubjectKind::Emp | SubjectKind::Raw);
    let row = Row {
        pattern: Pattern::Pingpong,
        subject,
        link: link.then(|| "packet".to_owned()),
        mtu: 1500,
        size: Some(bytes),
        one_way_us: Some(us),
        gbps: Some(bytes as f64 * 8e-3 / us),
        messages_per_s: Some(1e6 / us),
        samples: 7,
        mean_us: Some(us),
        copies: None,
        pair: None,
        congestion: (subject == SubjectKind::Tcp).then(|| "cubic".to_owned()),
    };
    Point { row, best_us: us, worst_us: us, repeats: 1000, round: true }
}

/// A row of EMP inline.
pub fn overlap_row(user_percent: f64, of_idle: f64) -> OverlapRow {
    OverlapRow {
        subject: SubjectKind::Emp,
        board: Some("inline".to_owned()),
        congestion: None,
        link: Some("packet".to_owned()),
        size: 10_000,
        batch: 5,
        work_us: 12.5,
        user_percent,
        gbps: 8.0 * of_idle,
        of_idle,
        post_receive_us: 0.25,
        post_send_us: 1.5,
        wait_us: 9.0,
        samples: 25,
    }
}

/// A row whose figures say where they belong.
pub fn share_row(subject: ShareSubject, senders: usize, goodput: f64) -> ShareRow {
    ShareRow {
        subject,
        size: 32 << 10,
        senders,
        port_gbps: 0.5,
        goodput_gbps: goodput,
        jain: 0.987,
        dropped_share: 0.0123,
        small_p99_us: Some(123_456.7),
        emp_part: None,
    }
}
