//! What a program needs to be started at all: its interpreter, and the interpreter of that.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A script may name a script, which may name a program, which needs a loader.
const LONGEST_CHAIN: usize = 4;
/// More than the kernel reads of a script's first line.
const HEAD: usize = 4096;

/// What has to be executable so that a program can start.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Chain {
    pub files: Vec<PathBuf>,
    /// A shell is among them. A shell script runs other programs, which nobody can know beforehand.
    pub shell: bool,
}

impl Chain {
    /// Of the program at `program`. `path`: where `#!/usr/bin/env name` looks for the name. What can't be read ends the
    /// chain: then the start itself says what is wrong.
    pub fn of(program: &Path, path: &str) -> Self {
        let mut chain = Self::default();
        let mut next = Some(program.to_owned());
        while let Some(file) = next.take().filter(|_| chain.files.len() < LONGEST_CHAIN) {
            chain.files.push(file.clone());
            let Ok(opened) = File::open(&file) else { break };
            let mut head = [0; HEAD];
            let Ok(length) = (&opened).read(&mut head) else { break };
            let head = &head[..length];
            if let Some(line) = head.strip_prefix(b"#!") {
                next = chain.script(line, path);
            } else if let Some(loader) = loader(head, &opened) {
                // A loader needs no other.
                chain.files.push(loader);
            }
        }
        chain
    }

    /// The interpreter that the first line of a script names.
    fn script(&mut self, line: &[u8], path: &str) -> Option<PathBuf> {
        let line = line.split(|b| *b == b'\n').next()?;
        let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
        let mut interpreter = PathBuf::from(OsStr::from_bytes(words.next()?));
        if interpreter.file_name() == Some(OsStr::new("env")) {
            // `env -S name arguments`: options and variables come before the name.
            let name = words.find(|w| !w.starts_with(b"-") && !w.contains(&b'='))?;
            self.files.push(interpreter);
            let name = OsStr::from_bytes(name);
            interpreter = std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| file.is_file())?;
        }
        let name = interpreter.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.shell |= ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "busybox"].contains(&name.as_str());
        Some(interpreter)
    }
}

/// The loader (`PT_INTERP`) of a 64-bit ELF program of this machine's byte order; a static program has none.
fn loader(head: &[u8], file: &File) -> Option<PathBuf> {
    const PT_INTERP: u32 = 3;
    let bytes = |at: usize, n: usize| head.get(at..at.checked_add(n)?);
    let short = |at| Some(usize::from(u16::from_ne_bytes(bytes(at, 2)?.try_into().ok()?)));
    let word = |at| Some(u32::from_ne_bytes(bytes(at, 4)?.try_into().ok()?));
    let long = |at| Some(u64::from_ne_bytes(bytes(at, 8)?.try_into().ok()?));
    // Magic number and the class of 64 bits.
    if bytes(0, 5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, size, count) = (usize::try_from(long(32)?).ok()?, short(54)?, short(56)?);
    let entry = |n: usize| table.checked_add(n.checked_mul(size)?);
    let found = (0..count).filter_map(entry).find(|at| word(*at) == Some(PT_INTERP))?;
    let (offset, length) = (long(found + 8)?, usize::try_from(long(found + 32)?).ok()?);
    let mut name = vec![0; length.min(HEAD)];
    file.read_exact_at(&mut name, offset).ok()?;
    let name = name.split(|b| *b == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_script_leads_to_its_interpreter_and_to_that_ones_loader() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let direct = Chain::of(&own, "");
        assert_eq!(direct.files[0], own);
        // On musl this test is a static program.
        assert_eq!(direct.files.len(), if cfg!(target_env = "musl") { 1 } else { 2 }, "{direct:?}");
        assert!(direct.files.iter().all(|f| f.is_file()) && !direct.shell);

        let plain = file(dir.path(), "plain", &format!("#! {} -x\nrest", own.display()));
        let mut expected = vec![plain.clone()];
        expected.extend(direct.files.iter().cloned());
        assert_eq!(Chain::of(&plain, "").files, expected);

        let name = own.file_name().unwrap().to_string_lossy();
        let by_name = file(dir.path(), "by-name", &format!("#!/usr/bin/env -S A=1 {name} --flag\n"));
        let chain = Chain::of(&by_name, &format!("/nowhere:{}", own.parent().unwrap().display()));
        assert_eq!(chain.files[..3], [by_name, "/usr/bin/env".into(), own]);
        assert!(!chain.shell);
    }

    #[test]
    fn a_shell_is_noticed_and_nonsense_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let script = file(dir.path(), "script", "#!/bin/sh\necho");
        assert!(Chain::of(&script, "").shell);
        for text in ["#!", "", "#!\n", "\x7fELF\x02", "#!/usr/bin/env\n", "#!/usr/bin/env no-such-name\n"] {
            let path = file(dir.path(), "odd", text);
            let chain = Chain::of(&path, "/usr/bin");
            assert_eq!(chain.files[0], path);
            assert!(chain.files.len() <= 2 && !chain.shell, "{text:?}: {chain:?}");
        }
        // One that names itself.
        let path = dir.path().join("round");
        std::fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert_eq!(Chain::of(&path, "").files.len(), LONGEST_CHAIN);
        assert_eq!(Chain::of(Path::new("/no/such/program"), "").files, [Path::new("/no/such/program")]);
    }
}
