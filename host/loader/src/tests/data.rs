//! The folder of an instance's own files, in both isolation modes.

use std::{fs, os::unix::fs::PermissionsExt};

use hermes_protocol::SendOutcome;

use super::support::*;
use crate::IsolationChoice;

async fn done(host: &Host, text: &str) -> Result<(), String> {
    match host.one().send(&message(text)).await {
        SendOutcome::Delivered { .. } => Ok(()),
        other => Err(format!("{text}: {other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_data_folder_outlive_a_restart_and_a_new_library() {
    for isolation in [IsolationChoice::InProcess, IsolationChoice::Process] {
        let home = Home::hostile();
        let host = Host::start(home.settings(), vec![plan(isolation, "ok")]);
        online(&host.one()).await;
        assert_eq!(done(&host, "keep a session").await, Ok(()));
        host.adapters.shutdown(PATIENCE).await;

        let folder = home.path().join("data/one");
        assert_eq!(fs::read_to_string(folder.join("kept")).unwrap(), "a session");
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);

        // A restored backup may have another mode; an update has other bytes.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let mut bytes = fs::read(home.library()).unwrap();
        bytes.push(0);
        fs::write(home.library(), bytes).unwrap();
        let settings = home.settings();
        crate::accept(&home.library(), "operator", &settings).unwrap();
        let host = Host::start(settings, vec![plan(isolation, "ok")]);
        online(&host.one()).await;
        assert_eq!(done(&host, "recall a session").await, Ok(()));
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_adapter_does_not_reach_the_data_of_another() {
    let home = Home::hostile();
    let other = home.path().join("data/other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("kept"), "of another").unwrap();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::Process, "ok")]);
    online(&host.one()).await;
    for deed in ["read", "write"] {
        let went = done(&host, &format!("break {deed} {}", other.join("kept").display())).await;
        assert!(went.as_ref().is_err_and(|why| why.contains("Permission denied")), "{deed}: {went:?}");
    }
}
