//! The database file: creation, migration, copies and refusals.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::super::migrate::{MIGRATIONS, migrate};
use super::*;

fn version(db: &Connection) -> u32 {
    db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn an_empty_file_gets_the_newest_schema_and_is_its_owners_alone() {
    let home = Home::new();
    let (store, _) = home.store();
    accepted(&store, "a").await;
    let found = store.read(|db| Ok(version(db))).await.unwrap();
    assert_eq!(found as usize, MIGRATIONS.len());
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        assert_eq!(mode(&home.folder.path().join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_file_of_version_1_is_copied_and_brought_forward() {
    let home = Home::new();
    let path = home.path();
    let db = Connection::open(&path).unwrap();
    migrate(&db, &path, &MIGRATIONS[..1]).unwrap();
    db.execute("INSERT INTO kv VALUES ('a', 'b', 'c')", []).unwrap();
    let steps = [MIGRATIONS[0], "CREATE TABLE second (id INTEGER)", "CREATE TABLE third (id INTEGER)"];
    migrate(&db, &path, &steps).unwrap();
    assert_eq!(version(&db), 3);
    let kept = |db: &Connection| db.query_row("SELECT value FROM kv", [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(kept(&db), "c");
    db.execute("INSERT INTO third VALUES (1)", []).unwrap();

    let copy = home.folder.path().join("state.db.v1");
    assert_eq!(mode(&copy), 0o600);
    let copy = Connection::open(copy).unwrap();
    assert_eq!((version(&copy), kept(&copy).as_str()), (1, "c"));
}

#[test]
fn values_that_are_there_are_counted_by_the_migration() {
    let home = Home::new();
    let path = home.path();
    let db = Connection::open(&path).unwrap();
    migrate(&db, &path, &MIGRATIONS[..1]).unwrap();
    db.execute("INSERT INTO kv VALUES ('a', 'k', 'é'), ('a', 'key', 'abc'), ('b', 'k', '')", []).unwrap();
    migrate(&db, &path, MIGRATIONS).unwrap();
    let mut usage = db.prepare("SELECT scope, keys, bytes FROM kv_usage ORDER BY scope").unwrap();
    let usage = usage.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let usage: Vec<(String, i64, i64)> = usage.map(Result::unwrap).collect();
    assert_eq!(usage, [("a".to_owned(), 2, 9), ("b".to_owned(), 1, 1)]);
}

#[test]
fn the_last_two_copies_stay() {
    let home = Home::new();
    let path = home.path();
    let db = Connection::open(&path).unwrap();
    let more = ["CREATE TABLE t2 (id)", "CREATE TABLE t3 (id)", "CREATE TABLE t4 (id)"];
    let steps: Vec<&str> = [MIGRATIONS[0]].into_iter().chain(more).collect();
    for known in 1..=steps.len() {
        migrate(&db, &path, &steps[..known]).unwrap();
    }
    let copies: Vec<bool> = (1..=4).map(|n| home.folder.path().join(format!("state.db.v{n}")).exists()).collect();
    assert_eq!(copies, [false, true, true, false]);
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let home = Home::new();
    let path = home.path();
    let db = Connection::open(&path).unwrap();
    let steps = [MIGRATIONS[0], "CREATE TABLE second (id INTEGER); INSERT INTO nowhere VALUES (1);"];
    let failed = migrate(&db, &path, &steps).unwrap_err();
    assert!(matches!(failed, StoreError::Migration { to: 2, .. }), "{failed}");
    assert_eq!(version(&db), 1);
    migrate(&db, &path, &[MIGRATIONS[0], "CREATE TABLE second (id INTEGER)"]).unwrap();
}

#[tokio::test]
async fn a_newer_file_is_refused_with_the_name_of_the_copy() {
    let home = Home::new();
    home.store().0.close().await.unwrap();
    let db = Connection::open(home.path()).unwrap();
    let mut steps = MIGRATIONS.to_vec();
    steps.push("CREATE TABLE of_tomorrow (id INTEGER)");
    migrate(&db, &home.path(), &steps).unwrap();
    drop(db);
    let Err(refused) = Store::open(&home.path(), home.clock.clone()) else { panic!("a newer schema was opened") };
    let copy = home.folder.path().join(format!("state.db.v{}", MIGRATIONS.len()));
    assert!(copy.exists());
    assert!(refused.to_string().contains(copy.to_str().unwrap()), "{refused}");
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    let home = Home::new();
    let db = Connection::open(home.path()).unwrap();
    db.execute_batch("CREATE TABLE schema_version (version INTEGER)").unwrap();
    drop(db);
    let (before, mode_before) = (std::fs::read(home.path()).unwrap(), mode(&home.path()));
    let Err(refused) = Store::open(&home.path(), home.clock.clone()) else { panic!("a foreign file was opened") };
    assert_eq!(refused, StoreError::Foreign { path: home.path() });
    assert_eq!((std::fs::read(home.path()).unwrap(), mode(&home.path())), (before, mode_before));
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let home = Home::new();
    std::fs::write(home.path(), "plain text, and more of it than a header has: ".repeat(200)).unwrap();
    let Err(refused) = Store::open(&home.path(), home.clock.clone()) else { panic!("a text was opened") };
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
}

#[tokio::test]
async fn damage_is_found_after_an_unclean_end() {
    let home = Home::new();
    let (store, _) = home.store();
    for n in 0..200 {
        accepted(&store, &format!("m:{n}")).await;
    }
    store.close().await.unwrap();
    let db = Connection::open(home.path()).unwrap();
    db.execute("UPDATE host SET clean_shutdown = 0", []).unwrap();
    // The index differs from its table, as after a torn write.
    db.execute_batch(
        "PRAGMA writable_schema = ON;
         CREATE TABLE other (a, b, UNIQUE (a, b));
         UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_other_1')
             WHERE name = 'sqlite_autoindex_inbox_1';",
    )
    .unwrap();
    drop(db);
    let Err(refused) = Store::open(&home.path(), home.clock.clone()) else { panic!("a damaged file was opened") };
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".sql"))
        .collect();
    names.sort();
    let numbers: Vec<usize> = names.iter().map(|name| name[..4].parse().unwrap()).collect();
    assert_eq!(numbers, (1..=MIGRATIONS.len()).collect::<Vec<_>>());
}
