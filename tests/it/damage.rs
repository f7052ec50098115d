//! Damaged files of the database: `doctor` says what is broken, what to do, and what would be lost.

use crate::support::{Household, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_a_log_of_the_database_that_is_broken() {
    let household = Household::few().env("BUTLERD_BACKUP__EVERY", "2s").env("BUTLERD_BACKUP__KEEP", "1");
    let backups = household.data().join("backups");
    let newest = || {
        let names =
            std::fs::read_dir(&backups).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("butlerd-") && name.ends_with(".backup")).max()
    };
    let mut daemon = household.start().await;
    eventually("a backup", || async { newest().ok_or_else(|| daemon.log()) }).await;
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    let (_, report, _) = household.cli(&["doctor"]);
    assert!(report.contains("tells of no damage"), "{report}");
    let wal = household.data().join("postgres/pg_wal");
    for file in std::fs::read_dir(&wal).expect("the write-ahead log").flatten() {
        if file.file_type().is_ok_and(|kind| kind.is_file()) {
            let length = file.metadata().expect("its length").len();
            std::fs::write(file.path(), vec![0; usize::try_from(length).expect("a length")]).expect("zeros");
        }
    }
    let (code, out, err) = household.cli(&["serve"]);
    assert_ne!(code, 0, "{out}{err}");
    let (code, report, err) = household.cli(&["doctor"]);
    assert_ne!(code, 0, "{report}{err}");
    let backup = backups.join(newest().expect("a backup")).display().to_string();
    let cluster = household.data().join("postgres");
    let aside = household.data().join("postgres.broken");
    let (restore, moved) =
        (format!("butlerd restore {backup}"), format!("mv {} {}", cluster.display(), aside.display()));
    for told in ["the last start of the database failed", "checkpoint record", &restore, &moved, "is lost"] {
        assert!(report.contains(told), "{told}: {report}{err}");
    }

    // What it says helps.
    std::fs::rename(&cluster, &aside).expect("the damaged cluster");
    let (code, out, err) = household.cli(&["restore", &backup]);
    assert_eq!(code, 0, "{out}{err}");
    let mut daemon = household.start().await;
    daemon.ready().await;
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    let (_, report, _) = household.cli(&["doctor"]);
    assert!(report.contains("tells of no damage"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_finds_a_damaged_page_and_the_start_rights_a_changed_text() {
    let household = Household::few();
    let mut daemon = household.start().await;
    let (_, report, _) = tokio::task::block_in_place(|| household.cli(&["doctor"]));
    assert!(report.contains("not checked, for the database runs"), "{report}");
    let client = household.owner().await;
    let sql = "SELECT pg_relation_filepath('switchboard.schema_migrations')";
    let file: String = client.query_one(sql, &[]).await.expect("a path").get(0);
    let changed = client.execute("UPDATE shared.schema_migrations SET sql = 'SELECT 1' WHERE version = 2", &[]).await;
    assert!(changed.expect("a change") > 0);
    drop(client);
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);

    let mut daemon = household.start().await;
    daemon.logged(&["the text kept of an applied migration had been changed"], 1).await;
    let wrong = "SELECT count(*) FROM shared.schema_migrations WHERE sha256 <> sha256(convert_to(sql, 'UTF8'))";
    assert_eq!(household.owner().await.query_one(wrong, &[]).await.expect("a count").get::<_, i64>(0), 0);
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);

    let (_, report, _) = household.cli(&["doctor"]);
    assert!(report.contains("all pages are as they were written"), "{report}");
    let path = household.data().join("postgres").join(&file);
    let mut bytes = std::fs::read(&path).expect("the table's file");
    bytes[4000] ^= 0xff;
    std::fs::write(&path, bytes).expect("a damaged page");
    let (code, report, err) = household.cli(&["doctor"]);
    assert_ne!(code, 0, "{report}{err}");
    for told in ["1 damaged: ", &file, "butlerd backup FILE", "restore the newest backup"] {
        assert!(report.contains(told), "{told}: {report}{err}");
    }
}
