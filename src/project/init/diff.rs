//! What changes in a text, line by line.

use std::fmt::Write as _;

/// Lines of both texts that are compared each with each, at most; beyond, all old ones go and all new ones come.
const MOST: usize = 4_000_000;

/// The lines that go, with `-`, and those that come, with `+`, under a line that says where they stand.
///
/// Lines around them are left out: configuration holds secrets, and a diff is copied into bug reports.
pub(super) fn lines(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut text = String::new();
    let mut open = false;
    for (place, sign, line) in changes(old_middle, new_middle) {
        match sign {
            ' ' => open = false,
            _ => {
                if !open {
                    let _ = writeln!(text, "@@ line {} @@", head + place + 1);
                }
                open = true;
                let _ = writeln!(text, "{sign}{line}");
            }
        }
    }
    if text.is_empty() && before != after {
        text.push_str("only the ends of lines\n");
    }
    text
}

/// Each line with its sign, and which line of the new text it is or stands before.
fn changes<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(usize, char, &'a str)> {
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    if old.len().saturating_mul(new.len()) <= MOST {
        let width = new.len() + 1;
        // How many lines the rests of both have in common, at best.
        let mut common = vec![0_u32; (old.len() + 1) * width];
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i * width + j] = if old[i] == new[j] {
                    common[(i + 1) * width + j + 1] + 1
                } else {
                    common[(i + 1) * width + j].max(common[i * width + j + 1])
                };
            }
        }
        while i < old.len() && j < new.len() {
            if old[i] == new[j] {
                found.push((j, ' ', old[i]));
                (i, j) = (i + 1, j + 1);
            } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
                found.push((j, '-', old[i]));
                i += 1;
            } else {
                found.push((j, '+', new[j]));
                j += 1;
            }
        }
    }
    found.extend(old[i..].iter().map(|line| (j, '-', *line)));
    found.extend(new[j..].iter().enumerate().map(|(n, line)| (j + n, '+', *line)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_is_shown() {
        assert_eq!(lines("a\nsecret\nb\nc\n", "a\nsecret\nB\nc\nd\n"), "@@ line 3 @@\n-b\n+B\n@@ line 5 @@\n+d\n");
        assert_eq!(lines("", "a\n"), "@@ line 1 @@\n+a\n");
        assert_eq!(lines("a\n", ""), "@@ line 1 @@\n-a\n");
        assert_eq!(lines("a\n", "a\n"), "");
        assert_eq!(lines("a", "a\n"), "only the ends of lines\n");
    }
}
