//! Whether the household can do its work: one loop probes the disk, descriptors, memory and the database, tells
//! `base::Machine`, the log and the owner what it found, and answers at any time without waiting for anything.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use base::task::{self, lock};
use base::{ActiveFault, ByteSize, DiskSpace, Fault, HumanDuration, Machine, memory};
use butler::Trouble;
use outbox::Outbox;
use store::Database;

/// How often the machine is probed.
const EVERY: Duration = Duration::from_millis(500);
/// How often a file is written although nothing seems wrong: a disk that sleeps is left alone in between.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// A probe that is out for so long makes the household not ready: with the time until it is sent, people are told
/// within two seconds.
const SLOW: Duration = Duration::from_millis(750);
/// A probe that was waited for so long is a fault: work is begun no more. A machine under load answers late, too.
const SILENT: Duration = Duration::from_secs(5);
/// A question to the database is given up after so long, and asked over a new connection.
const GIVEN_UP: Duration = Duration::from_secs(15);
/// A loop that has not come round for so long has ended or hangs.
const STUCK: Duration = Duration::from_secs(10);
/// Of fewer free inodes than this nobody makes a workspace.
const FEW_INODES: u64 = 64;

/// The household's health. Clones share it.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    db: Arc<Database>,
    /// Where files are written.
    dir: PathBuf,
    /// Less free space than this counts as none.
    floor: ByteSize,
    round: Mutex<Option<Instant>>,
    /// When the probes that are out were begun: of the disk, of the database.
    out: Mutex<[Option<Instant>; 2]>,
}

/// What is probed, and how people call it.
const NAMES: [(Fault, &str); 2] = [(Fault::Disk, "the disk"), (Fault::Database, "the database")];

fn silence(name: &str, late: Duration) -> String {
    format!("{name} has not answered for {} s", late.as_secs())
}

/// One probe: what it found for each fault that it looks for.
type Found = Vec<(Fault, Option<String>)>;

/// A probe that is out.
struct Out {
    begun: Instant,
    /// For how long it was waited for. A wait counts as one, however long this process stood still in it.
    waited: Duration,
    probe: JoinHandle<Found>,
}

impl Health {
    pub(super) fn new(db: Arc<Database>, data_dir: &Path, floor: ByteSize) -> Self {
        let dir = data_dir.join("run");
        Self { inner: Arc::new(Inner { db, dir, floor, round: Mutex::default(), out: Mutex::default() }) }
    }

    fn machine(&self) -> &Machine {
        self.inner.db.machine()
    }

    /// Why no work can be done now; nothing: it can be done.
    pub fn troubles(&self) -> Vec<Trouble> {
        let faults = self.machine().faults();
        let has = |fault| faults.iter().any(|lasting| lasting.fault == fault);
        let late = NAMES.iter().zip(*lock(&self.inner.out)).filter_map(|((fault, name), begun)| {
            let late = begun?.elapsed();
            (late > SLOW && !has(*fault)).then(|| Trouble::new(fault.as_str(), silence(name, late)))
        });
        let watch = (!self.is_watched()).then(|| Trouble::new("watch", "the daemon does not watch itself any more"));
        let known = faults.iter().map(|lasting| Trouble::new(lasting.fault.as_str(), &*lasting.why));
        known.chain(late).chain(watch).collect()
    }

    /// Whether the loop runs. Before its first round nothing is known that speaks against it.
    pub fn is_watched(&self) -> bool {
        lock(&self.inner.round).is_none_or(|round| round.elapsed() < STUCK)
    }

    /// Probes until `stop`.
    pub(super) async fn keep(self, outbox: Outbox, stop: CancellationToken) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut disk, mut database) = (None, None);
        let mut written = Instant::now();
        let mut notices = FaultNotices::default();
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => false,
                () = self.machine().asked() => true,
            };
            *lock(&self.inner.round) = Some(Instant::now());
            let thorough = asked || !self.machine().is_up() || written.elapsed() > WRITE_EVERY;
            if thorough {
                written = Instant::now();
            }
            let disk_out = disk.take().unwrap_or_else(|| self.probe_disk(thorough));
            let database_out = database.take().unwrap_or_else(|| self.probe_database(thorough));
            *lock(&self.inner.out) = [Some(disk_out.begun), Some(database_out.begun)];
            (disk, database) = tokio::join!(self.answer(disk_out, NAMES[0]), self.answer(database_out, NAMES[1]));
            *lock(&self.inner.out) = [&disk, &database].map(|out| out.as_ref().map(|out| out.begun));
            self.machine().probed();
            if stop.is_cancelled() {
                return;
            }
            notices.tell(self.machine().faults(), &outbox);
        }
    }

    /// Waits a moment for a probe, and tells what it found. Returns it while it is still out.
    async fn answer(&self, mut out: Out, (fault, name): (Fault, &str)) -> Option<Out> {
        match tokio::time::timeout(EVERY, &mut out.probe).await {
            Ok(Ok(found)) => {
                // Limits within a probe run out, too, while this process stands still: the next one says what is so.
                let stood_still = out.begun.elapsed().saturating_sub(out.waited) > SILENT;
                let known = found.into_iter().filter(|(_, why)| why.is_none() || !stood_still);
                known.for_each(|(fault, why)| self.machine().tell(fault, why));
                None
            }
            // It panicked, which the log has; nothing was found out.
            Ok(Err(_)) => None,
            Err(_) => {
                out.waited += EVERY;
                if out.waited > SILENT {
                    self.machine().tell(fault, Some(silence(name, out.begun.elapsed())));
                }
                Some(out)
            }
        }
    }

    fn probe_disk(&self, write: bool) -> Out {
        let (dir, floor) = (self.inner.dir.clone(), self.inner.floor);
        let probe = task::spawn(task::Kind::Job, "disk-probe", async move {
            // A disk that hangs holds this thread, and no other probe of the disk is begun meanwhile.
            let looked = tokio::task::spawn_blocking(move || look(&dir, floor, write)).await;
            looked.unwrap_or_default()
        });
        Out { begun: Instant::now(), waited: Duration::ZERO, probe }
    }

    fn probe_database(&self, write: bool) -> Out {
        let db = self.inner.db.clone();
        let probe = task::spawn(task::Kind::Job, "database-probe", async move {
            let answer = tokio::time::timeout(GIVEN_UP, db.ping(write)).await;
            let why = match answer {
                Ok(Ok(())) => None,
                Ok(Err(e)) => Some(e.to_string()),
                Err(_) => Some(format!("the database did not answer within {}", HumanDuration(GIVEN_UP))),
            };
            vec![(Fault::Database, why)]
        });
        Out { begun: Instant::now(), waited: Duration::ZERO, probe }
    }
}

/// Looks at the file system of `dir` and at what this process may still get. A short look opens no file there.
fn look(dir: &Path, floor: ByteSize, write: bool) -> Found {
    let descriptors = match File::open("/dev/null") {
        Err(e) if Fault::of_io(&e) == Some(Fault::Descriptors) => {
            Some("the daemon has no open file left; raise LimitNOFILE of its unit, or `ulimit -n`".to_owned())
        }
        _ => None,
    };
    // A full table of files says nothing of the disk.
    let disk = no_room(dir, floor).or_else(|| match write && descriptors.is_none() {
        true => try_write(dir).err().map(|e| format!("no file can be written in {}: {e}", dir.display())),
        false => None,
    });
    vec![(Fault::Disk, disk), (Fault::Descriptors, descriptors), (Fault::Memory, memory::shortage())]
}

/// What the file system says of itself; `None`: there is room.
fn no_room(dir: &Path, floor: ByteSize) -> Option<String> {
    let shown = dir.parent().unwrap_or(dir).display();
    let space = match DiskSpace::of(dir) {
        Ok(space) => space,
        Err(e) => return Some(format!("the disk of {shown} can't be looked at: {e}")),
    };
    if space.read_only {
        return Some(format!("the disk of {shown} is read-only"));
    }
    if space.free < floor.0 {
        let free = space.free >> 20;
        return Some(format!("the disk of {shown} has {free} MiB left, less than [daemon] disk_floor ({floor})"));
    }
    let few = space.free_files.is_some_and(|files| files < FEW_INODES);
    few.then(|| format!("the disk of {shown} has no inodes left: too many files"))
}

fn try_write(dir: &Path) -> io::Result<()> {
    let path = dir.join("probe");
    let written = File::create(&path).and_then(|mut file| file.write_all(&[0; 4096]));
    let removed = fs::remove_file(&path);
    written.and(removed)
}

/// When something happened, to what, and what is told of it.
type Sentence = (jiff::Timestamp, &'static str, String);

/// Says once that a fault began and once that it ended: in the log, and to the owner when that can be written.
#[derive(Default)]
struct FaultNotices {
    lasting: Vec<ActiveFault>,
    /// What the owner is not told yet.
    untold: Arc<tokio::sync::Mutex<Vec<Sentence>>>,
}

impl FaultNotices {
    fn tell(&mut self, now: Vec<ActiveFault>, outbox: &Outbox) {
        let mut sentences = Vec::new();
        for begun in now.iter().filter(|n| self.lasting.iter().all(|l| l.fault != n.fault)) {
            tracing::error!(fault = begun.fault.as_str(), "{}; no work is begun until that is over", begun.why);
            let sentence = format!("{}. What waits is kept, and nothing new is taken until that is over", begun.why);
            sentences.push((begun.fault.as_str(), sentence));
        }
        for over in self.lasting.iter().filter(|l| now.iter().all(|n| n.fault != l.fault)) {
            let lasted = HumanDuration(Duration::from_secs(over.since.elapsed().as_secs()));
            tracing::info!(fault = over.fault.as_str(), %lasted, "this is over, and work goes on: {}", over.why);
            sentences.push((over.fault.as_str(), format!("This is over after {lasted}: {}. Work goes on", over.why)));
        }
        self.lasting = now;
        let at = outbox.clock().now();
        let new: Vec<_> = sentences.into_iter().map(|(fault, sentence)| (at, fault, sentence)).collect();
        if new.is_empty() && (!self.lasting.is_empty() || self.untold.try_lock().is_ok_and(|untold| untold.is_empty()))
        {
            return;
        }
        let (untold, outbox) = (self.untold.clone(), outbox.clone());
        task::spawn(task::Kind::Job, "machine-notices", async move {
            let mut untold = untold.lock().await;
            untold.extend(new);
            while let Some((at, fault, sentence)) = untold.first() {
                let noted = outbox.note_machine(fault, *at, sentence);
                match tokio::time::timeout(SILENT, noted).await {
                    Ok(Ok(())) => drop(untold.remove(0)),
                    // The next round tries again.
                    Ok(Err(e)) => return tracing::warn!(error = %e, "the owner can't be told of the machine yet"),
                    Err(_) => return,
                }
            }
        });
    }
}
