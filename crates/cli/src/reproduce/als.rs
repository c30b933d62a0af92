//! The comparison of LAM, MPICH and MVICH on Gigabit Ethernet (A10 to A17): what EMP is measured against.

use emp_model::als::{Mpi, Nic, Window, list, mpi, tcp, via_mbps, via_us};

use super::experiment::{Experiment, Picture};
use super::row::{Bar, Row};

/// Table 1: MTU, then Alteon with 64 K and 128 K, SysKonnect with 64 K and 128 K.
const TABLE_1: [(u32, [f64; 4]); 4] = [
    (1_500, [294.624, 301.765, 326.488, 331.028]),
    (4_500, [402.537, 441.932, 506.391, 509.832]),
    (8_500, [362.068, 495.932, 495.813, 561.456]),
    (9_000, [372.955, 513.576, 512.490, 613.219]),
];

const MPICH_ON_SYSK: &str = "MPICH lost 25 % on SK-NET and 42 to 49 % on the other two cards: no one cost of the library gives both";

#[expect(clippy::too_many_lines, reason = "a table of the paper's figures")]
pub fn run() -> anyhow::Result<Experiment> {
    let mut rows = Vec::new();
    let ten = Bar::Percent(10.0);
    let columns = [
        ("Alteon 64 K", Nic::Alteon, Window::K64),
        ("Alteon 128 K", Nic::Alteon, Window::K128),
        ("SysKonnect 64 K", Nic::SysKonnect, Window::K64),
        ("SysKonnect 128 K", Nic::SysKonnect, Window::K128),
    ];
    for (mtu, paper) in TABLE_1 {
        for ((name, nic, window), paper) in columns.iter().zip(paper) {
            let model = tcp(*nic, mtu, *window);
            let what = format!("TCP, {name}, MTU {mtu}");
            let fitted = match window {
                Window::K128 => mtu < 8_000,
                Window::K64 => mtu == 9_000,
            };
            rows.push(if fitted {
                Row::fitted("A10", what, "Mb/s", paper, model)
            } else {
                Row::predicted("A10", what, "Mb/s", paper, model, ten)
            });
        }
    }
    rows.push(Row::fitted("A13", "M-VIA, latency", "us", 16.0, via_us(1, false)));
    rows.push(Row::fitted("A13", "M-VIA, 30 KB", "Mb/s", 448.0, via_mbps(30_000, false)));
    rows.push(Row::fitted("A17", "MVICH, latency", "us", 26.0, via_us(1, true)));
    rows.push(Row::fitted("A17", "MVICH, 32 KB", "Mb/s", 280.0, via_mbps(32_768, true)));
    let cards = [("GNIC-II", Nic::Gnic), ("Alteon", Nic::Alteon), ("SK-NET", Nic::SysKonnect)];
    for ((name, nic), paper) in cards.into_iter().zip([216.0, 188.0, 210.0]) {
        let (what, model) = (format!("LAM, {name}"), mpi(Mpi::Lam, nic, 1_500));
        rows.push(match nic {
            Nic::SysKonnect => Row::fitted("A14", what, "Mb/s", paper, model),
            _ => Row::predicted("A14", what, "Mb/s", paper, model, ten),
        });
    }
    for ((name, nic), paper) in cards.into_iter().zip([188.0, 176.0, 249.0]) {
        let (what, model) = (format!("MPICH, {name}"), mpi(Mpi::Mpich, nic, 1_500));
        rows.push(match nic {
            Nic::Gnic => Row::fitted("A15", what, "Mb/s", paper, model),
            Nic::SysKonnect => {
                Row::predicted("A15", what, "Mb/s", paper, model, ten).because(MPICH_ON_SYSK)
            }
            Nic::Alteon => Row::predicted("A15", what, "Mb/s", paper, model, ten),
        });
    }
    let jumbo = |library, nic| (mpi(library, nic, 9_000) / mpi(library, nic, 1_500) - 1.0) * 100.0;
    rows.push(Row::predicted(
        "A16",
        "LAM, gain of MTU 9000, SK-NET",
        "%",
        42.0,
        jumbo(Mpi::Lam, Nic::SysKonnect),
        Bar::Within(5.0),
    ));
    rows.push(Row::predicted(
        "A16",
        "LAM, gain of MTU 9000, Alteon",
        "%",
        36.0,
        jumbo(Mpi::Lam, Nic::Alteon),
        Bar::Within(5.0),
    ));
    rows.push(Row::stated(
        "A16",
        "MPICH, gain of MTU 9000, SK-NET: none",
        "%",
        jumbo(Mpi::Mpich, Nic::SysKonnect),
        (-20.0, 0.0),
    ));
    Ok(Experiment {
        name: "als",
        title: "TCP, MPI over it, and VIA (ALS 2000)",
        rows,
        parameters: vec![("450 MHz hosts", list())],
    })
}

pub fn pictures() -> Vec<Picture> {
    let sizes = [64, 256, 1_024, 4_096, 8_192, 16_384, 32_768];
    let via = |mvich| sizes.map(|bytes| (f64::from(bytes), via_mbps(bytes, mvich))).to_vec();
    vec![Picture {
        title: "Throughput over block size, GNIC-II",
        x: "block size, bytes",
        y: "Mb/s (of 2^20 bits)",
        curves: vec![("M-VIA".to_owned(), via(false)), ("MVICH".to_owned(), via(true))],
        points: vec![(30_000.0, 448.0), (32_768.0, 280.0)],
    }]
}
