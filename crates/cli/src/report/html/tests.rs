use super::*;
use crate::measured::fixtures::point as test_point;
use crate::measured::{Environment, NetpipeRun, Point, SubjectKind};

fn run() -> NetpipeRun {
    let sizes = [1, 64, 1500, 64 << 10, 8 << 20];
    let subjects = [(SubjectKind::Emp, 1.0), (SubjectKind::Raw, 0.5), (SubjectKind::Tcp, 3.0)];
    let results = sizes
        .into_iter()
        .flat_map(|bytes| {
            subjects.map(|(kind, us)| test_point(kind, bytes, us + bytes as f64 / 4000.0))
        })
        .collect();
    run_of(results)
}

fn run_of(results: Vec<Point>) -> NetpipeRun {
    NetpipeRun {
        environment: Environment { mtu: 1500, lab: true, cores: 2, ..Environment::default() },
        command: "emp bench netpipe --html <a&b>.html".to_owned(),
        auto: Some("packet".to_owned()),
        trials: 7,
        seconds: 0.02,
        results,
    }
}

#[test]
fn the_page_needs_nothing_beside_it() {
    let page = page(&run());
    for outside in ["<script", "src=", "href=", "@import", "url(", "http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn it_holds_the_curves_the_tables_the_machine_and_the_command() {
    let page = page(&run());
    // Throughput and signature of three subjects, and one ratio.
    assert_eq!(page.matches("<path class=\"curve ").count(), 7);
    assert_eq!(page.matches("<svg").count(), 3);
    for text in ["EMP packet", "bare packet", "TCP spinning", "8 MiB", "Kernel", "Offloads"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.contains("<pre>emp bench netpipe --html &lt;a&amp;b&gt;.html</pre>"));
    assert_eq!(page.matches("<small>cubic</small>").count(), 5, "at each size of TCP's");
    assert!(page.contains("TCP spinning under cubic") && page.contains("cubic here, named"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

#[test]
fn tags_are_closed() {
    let page = page(&run());
    for tag in ["svg", "table", "tr", "td", "th", "dl", "div", "figure", "details", "h2", "title"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        assert!(opened > 0, "{tag}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf "));
}

#[test]
fn runs_without_tcp_or_with_one_size_have_a_page_too() {
    let alone = page(&run_of(vec![test_point(SubjectKind::Emp, 64, 1.0)]));
    assert_eq!(alone.matches("<svg").count(), 2);
    assert!(!alone.contains("÷ TCP</h2>") && !alone.contains("NaN"));
}
