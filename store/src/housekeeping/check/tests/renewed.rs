use super::*;

#[tokio::test]
async fn what_an_older_version_wrote_afterwards_is_sound_once_its_checksums_are_renewed() {
    let TestStore { store, database } = sound_store().await;
    corrupt_url(&database.url, OLDER_VERSION_WRITES).await;
    let broken = ["all_attempts", "all_rollouts", "attempt_checksum", "rollout_checksum"];
    assert_eq!(laws(&violations(&store).await), broken[1..]);

    let planned = Housekeeping::renew_row_checksums(&database.url, RenewalMode::Plan).await.unwrap();
    let numbers = |renewal: &TableRenewal| (renewal.changed_rows, renewal.rows_recorded, renewal.rows);
    assert_eq!(planned.iter().map(numbers).collect::<Vec<_>>(), [(1, Some(2), 3), (1, Some(1), 1)]);
    let refused = Housekeeping::renew_row_checksums(&database.url, RenewalMode::Write).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Busy { message } if message.contains("stop every server")), "{refused}");
    assert_eq!(laws(&violations(&store).await), broken[1..], "nothing has changed");

    store.close().await;
    drop(store);
    assert_eq!(Housekeeping::renew_row_checksums(&database.url, RenewalMode::Write).await.unwrap(), planned);
    let store = Store::open(&database.url, StoreOptions::default()).await.unwrap();
    assert_eq!(violations(&store).await, []);
    // And it goes on from there.
    store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap();
    store
        .attempts()
        .update("a", "latest", AttemptUpdate { last_heartbeat_time: Some(10.0), ..AttemptUpdate::default() })
        .await
        .unwrap();
    assert_eq!(violations(&store).await, []);
    let again = Housekeeping::renew_row_checksums(&database.url, RenewalMode::Plan).await.unwrap();
    assert!(again.iter().all(TableRenewal::is_needless), "{again:?}");
}

#[tokio::test]
async fn a_renewal_leaves_generations_and_rows_that_cannot_be_read_as_wrong_as_they_are() {
    let TestStore { store, database } = sound_store().await;
    corrupt_url(
        &database.url,
        "UPDATE generations SET seed = 5 WHERE generation_id = 'two'; UPDATE rollouts SET config = '[' WHERE rollout_id = 'b';
         UPDATE attempts SET span_count = NULL; DELETE FROM spans WHERE name LIKE '%annotation%'",
    )
    .await;
    let before = violations(&store).await;
    store.close().await;
    drop(store);
    Housekeeping::renew_row_checksums(&database.url, RenewalMode::Write).await.unwrap();
    let store = Store::open(&database.url, StoreOptions::default()).await.unwrap();
    let after = violations(&store).await;
    assert_eq!(laws(&after), laws(&before), "{after:?}");
    assert_eq!(laws(&after), ["attempt_checksum", "checksum", "readable", "rollout_checksum"], "{after:?}");
}
