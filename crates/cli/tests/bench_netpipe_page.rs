//! The report of `emp bench netpipe` in a real browser: it renders in light, dark and on paper, nothing is complained about,
//! and the curves are to be seen. Skipped where there is no Chromium.

mod lab_support;
mod listener_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab_support::*;
use listener_support::Listener;
use serde_json::Value;

/// Longest time for the browser: a few seconds on a loaded machine.
const BROWSER_LIMIT: Duration = Duration::from_secs(60);

/// Looks at the page from inside, as a reader would. Only in the copy under test: the page itself has no scripts.
const PROBE: &str = r#"<script>
addEventListener("load", () => {
  const rgb = (element, property) => getComputedStyle(element)[property];
  const curves = [...document.querySelectorAll("svg .curve")].map(curve => {
    const box = curve.getBoundingClientRect();
    const extent = Math.max(box.width, box.height);
    return { length: curve.getTotalLength(), extent, stroke: rgb(curve, "stroke") };
  });
  const words = [...document.querySelectorAll("svg text")].map(text => {
    const box = text.getBoundingClientRect(), picture = text.ownerSVGElement.getBoundingClientRect();
    return { inside: box.left >= picture.left && box.right <= picture.right, width: box.width };
  });
  const seen = {
    curves, words,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    page: rgb(document.body, "backgroundColor"), ink: rgb(document.body, "color"),
    wide: document.documentElement.scrollWidth > innerWidth,
    rows: document.querySelectorAll("tbody tr").length,
  };
  const result = document.createElement("pre");
  result.id = "probe";
  result.textContent = "PROBE" + JSON.stringify(seen) + "EBORP";
  document.body.append(result);
});
</script></body>"#;

fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        skip(Need::Browser, "there is no chromium here (apt-get install chromium)");
    }
    found
}

/// Runs the browser without a window.
fn browse(browser: &str, directory: &Path, page: &Path, options: &[&str]) -> Output {
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args(["--window-size=1200,900", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(directory.join("stdout")).unwrap())
        .stderr(fs::File::create(directory.join("stderr")).unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > BROWSER_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the browser took longer than {BROWSER_LIMIT:?}");
        }
        sleep(Duration::from_millis(20));
    };
    let read = |name| fs::read(directory.join(name)).unwrap();
    let output = Output { status, stdout: read("stdout"), stderr: read("stderr") };
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// What the page's console got, which the browser logs with this word.
fn complaints(output: &Output) -> Vec<String> {
    stderr(output).lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

fn report(directory: &Path) -> PathBuf {
    let page = directory.join("report.html");
    let listener = Listener::start();
    let mut command = emp(&["bench", "netpipe", listener.address(), "--end", "4K", "--pert", "0"]);
    succeed(command.args(["--trials", "2", "--seconds", "0.0002", "--html"]).arg(&page));
    page
}

/// What the probe saw.
fn look(browser: &str, directory: &Path, page: &Path, options: &[&str]) -> Value {
    let output = browse(browser, directory, page, &[&["--dump-dom"], options].concat());
    assert_eq!(complaints(&output), [""; 0]);
    let dom = String::from_utf8(output.stdout).unwrap();
    // The script's own text comes first.
    let (_, seen) = dom.rsplit_once("PROBE").expect("the page was loaded and the probe has run");
    let seen = seen.split_once("EBORP").unwrap().0.replace("&gt;", ">").replace("&lt;", "<");
    serde_json::from_str(&seen.replace("&amp;", "&")).unwrap()
}

/// How bright `rgb(r, g, b)` is, 0 to 255.
fn brightness(colour: &Value) -> f64 {
    let text = colour.as_str().unwrap();
    let parts: Vec<f64> = text
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    assert!(parts.len() >= 3, "{text}");
    parts[..3].iter().sum::<f64>() / 3.0
}

#[test]
fn the_report_renders_in_light_and_dark_and_on_paper() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let page = report(directory);
    let text = fs::read_to_string(&page).unwrap();
    assert!(!text.contains("<script"), "the page itself needs no script");
    let probed = directory.join("probed.html");
    fs::write(&probed, text.replace("</body>", PROBE)).unwrap();

    for (scheme, dark) in [("preferredColorScheme=1", false), ("preferredColorScheme=0", true)] {
        let option = format!("--blink-settings={scheme}");
        let seen = look(browser, directory, &probed, &[&option]);
        assert_eq!(seen["dark"], dark, "the browser takes the scheme it was given");
        let curves = seen["curves"].as_array().unwrap();
        // Throughput and signature of EMP, the bare link and TCP; the ratio.
        assert_eq!(curves.len(), 7, "{seen}");
        let page = brightness(&seen["page"]);
        assert_eq!(page < 128.0, dark, "{seen}");
        assert!((brightness(&seen["ink"]) - page).abs() > 150.0, "text stands out: {seen}");
        for curve in curves {
            assert!(curve["length"].as_f64().unwrap() > 100.0, "{curve}");
            // A signature is narrow if one stalled trial has made the axis of times long; then it is high.
            assert!(curve["extent"].as_f64().unwrap() > 50.0, "{curve}");
            assert!((brightness(&curve["stroke"]) - page).abs() > 60.0, "{curve} on {page}");
        }
        for word in seen["words"].as_array().unwrap() {
            assert!(
                word["inside"].as_bool().unwrap() && word["width"].as_f64() > Some(0.0),
                "{word}"
            );
        }
        assert_eq!(seen["wide"], false, "nothing reaches beyond the window");
        assert!(seen["rows"].as_u64() > Some(20));
    }

    // On paper.
    let pdf = directory.join("report.pdf");
    let print = format!("--print-to-pdf={}", pdf.display());
    let output = browse(browser, directory, &page, &[&print]);
    assert_eq!(complaints(&output), [""; 0]);
    let bytes = fs::read(&pdf).unwrap();
    assert!(bytes.starts_with(b"%PDF") && bytes.len() > 20_000, "{} bytes", bytes.len());
}

#[test]
fn complaints_of_a_page_are_noticed() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("bad.html");
    fs::write(&page, "<!doctype html><script>nosuch.thing()</script>").unwrap();
    let output = browse(browser, directory.path(), &page, &["--dump-dom"]);
    assert!(complaints(&output).iter().any(|line| line.contains("nosuch")), "{}", stderr(&output));
}
