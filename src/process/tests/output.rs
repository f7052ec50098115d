//! What a child says, within bounds.

use super::*;

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn lines_come_whole_and_the_last_may_be_half() {
    let said = run(sh("echo one; printf 'two\\r\\n\\n\\377x\\n{\"half\":'")).await;
    let expected = [("one", true), ("two", true), ("", true), ("\u{fffd}x", true), ("{\"half\":", false)];
    let got: Vec<(&str, bool)> = said.lines.iter().map(|l| (l.text.as_str(), l.ended)).collect();
    assert_eq!(got, expected);
    assert!(said.lines.iter().all(|l| !l.cut));
}

#[tokio::test]
async fn a_line_arrives_before_the_child_ends() {
    let (_processes, child, mut out) = start(sh("echo early; sleep 1000")).await;
    assert_eq!(line(&mut out).await, "early");
    assert!(alive(child.pid()));
}

#[tokio::test]
async fn a_long_line_is_cut_and_the_next_is_whole() {
    let mut spec = sh("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo next");
    spec.output.line = 1 << 20;
    let said = run(spec).await;
    let [long, next] = &said.lines[..] else { panic!("{} lines", said.lines.len()) };
    assert!(long.cut && long.ended && long.text.len() == 1 << 20);
    assert_eq!((next.text.as_str(), next.cut), ("next", false));
}

#[tokio::test]
async fn a_flood_neither_grows_memory_nor_stops_the_child() {
    for flood in ["head -c 100000000 /dev/zero | tr '\\0' x", "yes abcdefghijklmnopqrstuvwxyz | head -c 100000000"] {
        let mut spec = sh(&format!("{flood}; echo over >&2; exit 5"));
        spec.output.total = 8 << 20;
        let before = resident();
        let (_processes, mut child, mut out) = start(spec).await;
        let (mut bytes, mut too_much, mut most) = (0, 0, 0);
        while let Some(output) = out.next().await.unwrap() {
            match output {
                Output::Line(line) => bytes += line.text.len(),
                Output::TooMuch => too_much += 1,
            }
            most = most.max(resident());
        }
        most = most.max(resident());
        assert_eq!(child.wait().await.unwrap().code, Some(5), "{flood}");
        child.terminate(Duration::ZERO).await;
        assert_eq!(child.stderr_tail().await, "over\n");
        assert!(too_much == 1 && bytes <= 8 << 20, "{too_much} {bytes}");
        // Other tests of this process allocate meanwhile; a flood that is kept would show as 100 MB.
        assert!(most.saturating_sub(before) < 50 << 20, "{flood}: {before} -> {most}");
    }
}

#[tokio::test]
async fn of_standard_error_the_end_is_kept() {
    let mut spec = sh("yes 'a line of error' | head -c 2000000 >&2; printf 'the \\033[1mlast\\n' >&2");
    spec.output.stderr_tail = 16 << 10;
    let said = run(spec).await;
    assert!(said.stderr.len() <= 16 << 10 && said.stderr.len() > 15 << 10, "{}", said.stderr.len());
    assert!(said.stderr.starts_with("a line of error\n"), "the first line is whole");
    assert!(said.stderr.ends_with("the [1mlast\n"), "control characters are gone");
    assert_eq!((said.lines.len(), said.too_much), (0, 0));
}
