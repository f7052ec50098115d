//! Damaged files of the database: `doctor` says what is broken, what to do, and what would be lost.

use crate::support::Household;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_a_log_of_the_database_that_is_broken() {
    let household = Household::new();
    let mut daemon = household.start().await;
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
    for told in ["the last start of the database failed", "checkpoint record", "butlerd restore", "is lost"] {
        assert!(report.contains(told), "{told}: {report}{err}");
    }
}
