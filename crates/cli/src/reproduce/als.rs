//! The comparison of LAM, MPICH and MVICH on Gigabit Ethernet (A10 to A17): what EMP is measured against.

use emp_model::als::{
    Mpi, Nic, Window, list, mpi, mpi_us, tcp, tcp_block, tcp_us, via_mbps, via_us,
};

use super::experiment::{Axes, Experiment, Picture};
use super::row::{Bar, Row};

/// Table 1: MTU, then Alteon with 64 K and 128 K, SysKonnect with 64 K and 128 K.
const TABLE_1: [(u32, [f64; 4]); 4] = [
    (1_500, [294.624, 301.765, 326.488, 331.028]),
    (4_500, [402.537, 441.932, 506.391, 509.832]),
    (8_500, [362.068, 495.932, 495.813, 561.456]),
    (9_000, [372.955, 513.576, 512.490, 613.219]),
];

const CARDS: [(&str, Nic); 3] =
    [("GNIC-II", Nic::Gnic), ("Alteon", Nic::Alteon), ("SK-NET", Nic::SysKonnect)];

const TEN: Bar = Bar::Percent(10.0);

const MPICH_ON_SYSK: &str = "MPICH lost 25 % on SK-NET and 42 to 49 % on the other two cards. Tried: one cost of a byte (taken: SK-NET 177 Mb/s); a wait of the card's latency for each 4096 bytes of its socket buffer, which gives 249 and 188 Mb/s, and then 140 instead of 176 on Alteon";
const MPICH_ON_GNIC: &str = "MPICH's first byte came 2 us after LAM's on GNIC-II, 33 on SK-NET, 45 on Alteon. Tried: one cost of a message (taken), and one factor of LAM's latency (1.5, 210 us)";
const MPICH_STALLS: &str = "20 times what any other row has: a stall of that driver (A18, severe dropouts), which neither a cost of a message nor a factor of LAM's latency makes (177 and 212 us)";
const MPICH_JUMBO: &str = "Tried: a socket buffer of 4096 bytes never fills a longer frame (taken), so that nothing changes; its 4096 bytes are one frame then, and waits are as long as the card's latency: SK-NET gains 31 %, Alteon 42. The paper says only that a larger MTU does not help much";
const VIA_OF_GNIC: &str = "the paper's TCP has 293 Mb/s there. Tried: the waits that its 16 KB demand (A11; taken: 246 Mb/s), and none (312, which leaves SK-NET 8 % ahead at 16 KB instead of 32)";

fn table_1(rows: &mut Vec<Row>) {
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
                Row::predicted("A10", what, "Mb/s", paper, model, TEN)
            });
        }
    }
}

/// TCP with blocks of one size, and its first byte.
fn blocks_and_first_bytes(rows: &mut Vec<Row>) {
    let [gnic, alteon, sysk] = CARDS.map(|(_, nic)| tcp_block(nic, 1_500, 16 << 10));
    let what = |card| format!("TCP, 16 KB: SK-NET ahead of {card}");
    let ahead = |of: f64| (sysk / of - 1.0) * 100.0;
    rows.push(Row::fitted("A11", what("GNIC-II"), "%", 32.0, ahead(gnic)));
    let far = ahead(alteon);
    rows.push(Row::predicted("A11", what("Alteon"), "%", 82.0, far, Bar::Within(10.0)));
    let gain = (tcp(Nic::Alteon, 9_000, Window::K128) / tcp(Nic::Alteon, 1_500, Window::K128)
        - 1.0)
        * 100.0;
    let (what, points) = ("TCP, gain of MTU 9000, Alteon", Bar::Within(5.0));
    rows.push(Row::predicted("A12", what, "%", 70.0, gain, points));
    for ((name, nic), paper) in CARDS[1..].iter().zip([121.0, 46.0]) {
        let what = format!("TCP, latency, {name}, MTU 9000");
        rows.push(Row::fitted("A12", what, "us", paper, tcp_us(*nic, 9_000)));
    }
    let more = tcp_us(Nic::SysKonnect, 9_000) / tcp_us(Nic::SysKonnect, 1_500);
    let what = "TCP, latency, SK-NET, MTU 9000 of 1500: slightly more";
    rows.push(Row::stated("A12", what, "", more, (1.0, 1.15)));
    let less = tcp_us(Nic::Alteon, 9_000) / tcp_us(Nic::Alteon, 1_500);
    rows.push(Row::stated("A12", "the same of Alteon: less", "", less, (0.5, 0.95)));
}

fn via(rows: &mut Vec<Row>) {
    rows.push(Row::fitted("A13", "M-VIA, latency", "us", 16.0, via_us(1, false)));
    rows.push(Row::fitted("A13", "M-VIA, 30 KB", "Mb/s", 448.0, via_mbps(30_000, false)));
    for ((name, nic), paper) in CARDS.iter().zip([1.53, 1.42, 1.04]) {
        // The longest frames that the card has.
        let mtu = if *nic == Nic::Gnic { 1_500 } else { 9_000 };
        let model = via_mbps(30_000, false) / tcp_block(*nic, mtu, 30_000);
        let what = format!("M-VIA, 30 KB, of the best TCP on {name}");
        rows.push(match nic {
            Nic::Gnic => Row::predicted("A13", what, "", paper, model, TEN).because(VIA_OF_GNIC),
            _ => Row::predicted("A13", what, "", paper, model, TEN),
        });
    }
    rows.push(Row::fitted("A17", "MVICH, latency", "us", 26.0, via_us(1, true)));
    rows.push(Row::fitted("A17", "MVICH, 32 KB", "Mb/s", 280.0, via_mbps(32_768, true)));
}

/// LAM and MPICH with frames of 1500 bytes: peaks, what of TCP's they lose, and first bytes.
fn libraries(rows: &mut Vec<Row>) {
    let lost =
        |library, nic| (1.0 - mpi(library, nic, 1_500) / tcp(nic, 1_500, Window::K128)) * 100.0;
    let five = Bar::Within(5.0);
    let figures = [(216.0, 42.0, 140.0), (188.0, 38.0, 194.0), (210.0, 41.0, 66.0)];
    for ((name, nic), (peak, loss, first)) in CARDS.iter().zip(figures) {
        let (what, model) = (format!("LAM, {name}"), mpi(Mpi::Lam, *nic, 1_500));
        rows.push(match nic {
            Nic::SysKonnect => Row::fitted("A14", what, "Mb/s", peak, model),
            _ => Row::predicted("A14", what, "Mb/s", peak, model, TEN),
        });
        let (what, model) = (format!("LAM, {name}, lost of TCP's"), lost(Mpi::Lam, *nic));
        rows.push(Row::predicted("A14", what, "%", loss, model, five));
        let what = format!("LAM, {name}, latency");
        rows.push(Row::fitted("A14", what, "us", first, mpi_us(Mpi::Lam, *nic, 1_500)));
    }
    let figures = [(188.0, 49.0, 142.0), (176.0, 42.0, 239.0), (249.0, 25.0, 99.0)];
    for ((name, nic), (peak, loss, first)) in CARDS.iter().zip(figures) {
        let (what, model) = (format!("MPICH, {name}"), mpi(Mpi::Mpich, *nic, 1_500));
        let row = match nic {
            Nic::Gnic => Row::fitted("A15", what, "Mb/s", peak, model),
            _ => Row::predicted("A15", what, "Mb/s", peak, model, TEN),
        };
        let (what, model) = (format!("MPICH, {name}, lost of TCP's"), lost(Mpi::Mpich, *nic));
        let share = Row::predicted("A15", what, "%", loss, model, five);
        let (what, model) = (format!("MPICH, {name}, latency"), mpi_us(Mpi::Mpich, *nic, 1_500));
        let latency = Row::predicted("A15", what.clone(), "us", first, model, TEN);
        rows.extend(match nic {
            Nic::Gnic => [row, share, latency.because(MPICH_ON_GNIC)],
            Nic::Alteon => [row, share, latency],
            Nic::SysKonnect => {
                let latency = Row::fitted("A15", what, "us", first, model);
                [row.because(MPICH_ON_SYSK), share.because(MPICH_ON_SYSK), latency]
            }
        });
    }
}

/// Both with frames of 9000 bytes.
fn jumbo(rows: &mut Vec<Row>) {
    let gain = |library, nic| (mpi(library, nic, 9_000) / mpi(library, nic, 1_500) - 1.0) * 100.0;
    let cards = [("SK-NET", Nic::SysKonnect), ("Alteon", Nic::Alteon)];
    for ((name, nic), paper) in cards.into_iter().zip([42.0, 36.0]) {
        let what = format!("LAM, gain of MTU 9000, {name}");
        rows.push(Row::predicted("A16", what, "%", paper, gain(Mpi::Lam, nic), Bar::Within(5.0)));
    }
    for ((name, nic), paper) in cards.into_iter().zip([-7.0, -15.0]) {
        let what = format!("MPICH, gain of MTU 9000, {name}");
        let row = Row::predicted("A16", what, "%", paper, gain(Mpi::Mpich, nic), Bar::Within(3.0));
        rows.push(row.because(MPICH_JUMBO));
    }
    let figures = [("LAM", Mpi::Lam, [69.0, 141.0]), ("MPICH", Mpi::Mpich, [100.0, 2_330.0])];
    for (library_name, library, paper) in figures {
        for ((name, nic), paper) in cards.into_iter().zip(paper) {
            let what = format!("{library_name}, {name}, latency, MTU 9000");
            let model = mpi_us(library, nic, 9_000);
            rows.push(match (library, nic) {
                (Mpi::Lam, Nic::SysKonnect) => Row::fitted("A16", what, "us", paper, model),
                (Mpi::Mpich, Nic::Alteon) => {
                    Row::predicted("A16", what, "us", paper, model, TEN).because(MPICH_STALLS)
                }
                _ => Row::predicted("A16", what, "us", paper, model, TEN),
            });
        }
    }
}

pub fn run() -> anyhow::Result<Experiment> {
    let mut rows = Vec::new();
    table_1(&mut rows);
    blocks_and_first_bytes(&mut rows);
    via(&mut rows);
    libraries(&mut rows);
    jumbo(&mut rows);
    Ok(Experiment {
        name: "als",
        title: "TCP, MPI over it, and VIA (ALS 2000)",
        rows,
        parameters: vec![("450 MHz hosts", list())],
    })
}

pub fn pictures() -> Vec<Picture> {
    let sizes = [64, 256, 1_024, 4_096, 8_192, 16_384, 32_768];
    let curve = |of: &dyn Fn(u32) -> f64| -> Vec<(f64, f64)> {
        sizes.iter().map(|bytes| (f64::from(*bytes), of(*bytes))).collect()
    };
    let mut curves = vec![
        ("M-VIA, GNIC-II".to_owned(), curve(&|bytes| via_mbps(bytes, false))),
        ("MVICH, GNIC-II".to_owned(), curve(&|bytes| via_mbps(bytes, true))),
    ];
    for (name, nic) in CARDS {
        curves.push((format!("TCP, {name}"), curve(&|bytes| tcp_block(nic, 1_500, bytes))));
    }
    vec![Picture {
        title: "Throughput over block size",
        x: "block size, bytes",
        y: "Mb/s (of 2^20 bits)",
        axes: Axes::Bandwidth { unit: 1.0, bits: 1_048_576.0 },
        curves,
        points: vec![(30_000.0, 448.0), (32_768.0, 280.0)],
        note: "",
    }]
}
