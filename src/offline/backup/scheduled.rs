//! A backup that the daemon makes by itself.

use std::fs::File;
use std::path::Path;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use base::Clock;
use supervisor::{BackupOrder, NoBackup};

use super::{BackupError, Where, backup, examine};

/// Writes a backup, reads it back to its end, and only then gives it its name. On a thread of its own that leaves the
/// cores to the household's work.
///
/// # Errors
/// Why there is none, in a sentence.
pub fn scheduled(order: BackupOrder) -> BoxFuture<'static, Result<(), NoBackup>> {
    Box::pin(async move {
        let (tell, told) = oneshot::channel();
        let work = move || {
            // SAFETY: of this thread alone; where it can't be lowered, it is as it was.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
            // Whoever waits for it may be gone.
            let _ = tell.send(run(&order));
        };
        std::thread::Builder::new().name("backup".to_owned()).spawn(work).map_err(|e| NoBackup(e.to_string()))?;
        told.await.unwrap_or_else(|_| Err(NoBackup("its thread panicked; the log says where".to_owned())))
    })
}

fn run(order: &BackupOrder) -> Result<(), NoBackup> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| NoBackup(e.to_string()))?;
    let BackupOrder { config, file, clock, stop } = order;
    let from = Where::of(config);
    let work = stop.run_until_cancelled(verified(&from, file, clock));
    match runtime.block_on(work) {
        Some(done) => done.map_err(|e| NoBackup(supervisor::with_causes(&e))),
        None => Err(NoBackup("the daemon stops".to_owned())),
    }
}

async fn verified(from: &Where<'_>, file: &Path, clock: &Clock) -> Result<(), BackupError> {
    let fail = |step| move |source| BackupError::File { path: file.to_owned(), step, source };
    let dir = file.parent().unwrap_or(Path::new("/"));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let unread = dir.join(format!(".{name}.unread"));
    backup(from, &unread, true, None, clock).await?;
    base::crash::point("backup.unread");
    examine(from, &unread)?;
    std::fs::rename(&unread, file).map_err(fail("named"))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(fail("written"))
}
