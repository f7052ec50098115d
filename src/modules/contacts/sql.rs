//! The statements on address books, as the house: nothing of them is shown by it.

use dav::sync::{Conflict, Item, Which};
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use store::{AsRows, Lease, StoreError, Tx};

store::row! {
    /// A card with all that is compared with the house's people.
    pub(super) struct CardRow {
        pub id: Uuid,
        pub revision: i64,
        pub ours: Option<Vec<u8>>,
        pub seen: Option<Value>,
        /// Of its link; `None`: it was never looked at.
        pub state: Option<String>,
        pub contact: Option<Uuid>,
    }
}

/// Makes an address book that a butler's settings name, and notes that they name it and no other. Its id.
pub(super) async fn open(lease: &mut Lease, butler: &str, provider: &str, name: &str) -> Result<Uuid, StoreError> {
    let sql = "WITH made AS (INSERT INTO shared.contact_sources (provider, name) VALUES ($2, $3)
                             ON CONFLICT (tenant_id, provider, name) DO UPDATE SET name = excluded.name RETURNING id),
                    gone AS (DELETE FROM shared.contact_source_readers r
                             WHERE r.tenant_id = shared.tenant() AND r.butler = $1 AND r.source NOT IN (SELECT id FROM made)),
                    read AS (INSERT INTO shared.contact_source_readers (butler, source) SELECT $1, id FROM made
                             ON CONFLICT DO NOTHING)
               SELECT id FROM made";
    let rows = lease.query(sql, &[&butler, &provider, &name]).await.map_err(failed("opening an address book"))?;
    rows.first().map(|row| row.get("id")).ok_or_else(|| StoreError::Unexpected("no address book was made".to_owned()))
}

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}

/// Whether nobody else syncs this address book. It is ours until the transaction ends.
pub(super) async fn try_hold(tx: &mut Tx<'_>, source: Uuid) -> Result<bool, StoreError> {
    let sql =
        "SELECT pg_try_advisory_xact_lock(hashtextextended('shared.contact_sources ' || $1::uuid::text, 0)) AS held";
    Ok(tx.query(sql, &[&source]).await.cell("held").map_err(failed("holding an address book"))?.unwrap_or(false))
}

/// Notes what came of a run.
pub(super) async fn ran(
    lease: &mut Lease,
    source: Uuid,
    (state, error): (&str, Option<&str>),
    report: Option<&Value>,
) -> Result<(), StoreError> {
    let sql = "UPDATE shared.contact_sources s SET state = $2, error = $3, report = coalesce($4, s.report),
                      tried_at = shared.clock(), synced_at = CASE WHEN $2 = 'ok' THEN shared.clock() ELSE s.synced_at END
               WHERE s.tenant_id = shared.tenant() AND s.id = $1";
    let done = lease.execute(sql, &[&source, &state, &error, &report]).await;
    done.map(drop).map_err(failed("noting a sync"))
}

/// Address books as people see them.
pub(super) async fn shown(lease: &mut Lease, butler: &str) -> Result<Vec<Value>, StoreError> {
    let sql =
        "SELECT jsonb_build_object('source_id', s.id, 'provider', s.provider, 'account', s.name, 'state', s.state,
                   'error', s.error, 'last_run', s.report, 'tried_at', s.tried_at, 'synced_at', s.synced_at,
                   'incremental', s.cursor IS NOT NULL,
                   'cards', count(k.id) FILTER (WHERE k.archived_at IS NULL),
                   'archived', count(k.id) FILTER (WHERE k.archived_at IS NOT NULL),
                   'linked', count(k.id) FILTER (WHERE k.archived_at IS NULL AND l.contact IS NOT NULL),
                   'to_push', count(k.id) FILTER (WHERE k.archived_at IS NULL AND k.ours IS DISTINCT FROM k.base),
                   'proposals', (SELECT count(*) FROM shared.contact_proposals p JOIN shared.contact_cards c
                                 ON c.tenant_id = p.tenant_id AND c.id = p.card
                                 WHERE c.tenant_id = s.tenant_id AND c.source = s.id AND p.decided_at IS NULL),
                   'conflicts', (SELECT count(*) FROM shared.contact_card_conflicts x
                                 WHERE x.tenant_id = s.tenant_id AND x.source = s.id AND x.taken IS NULL AND x.kind <> 'merged')) AS shown
               FROM shared.contact_sources s
               JOIN shared.contact_source_readers r ON r.tenant_id = s.tenant_id AND r.source = s.id AND r.butler = $1
               LEFT JOIN shared.contact_cards k ON k.tenant_id = s.tenant_id AND k.source = s.id
               LEFT JOIN shared.contact_links l ON l.tenant_id = k.tenant_id AND l.card = k.id
               WHERE s.tenant_id = shared.tenant() GROUP BY s.tenant_id, s.id ORDER BY s.name";
    lease.query(sql, &[&butler]).await.column("shown").map_err(failed("reading address books"))
}

/// What people have to say, of one contact or all.
pub(super) async fn proposals(lease: &mut Lease, of: Option<Uuid>) -> Result<Vec<Value>, StoreError> {
    let sql = "SELECT jsonb_build_object('proposal_id', p.id, 'kind', p.kind, 'card_id', p.card, 'card_says', p.says,
                   'contact_id', p.contact, 'name', coalesce(c.name, e.name), 'account', s.name, 'since', p.made_at) AS shown
               FROM shared.contact_proposals p
               JOIN shared.contact_cards k ON k.tenant_id = p.tenant_id AND k.id = p.card
               JOIN shared.contact_sources s ON s.tenant_id = k.tenant_id AND s.id = k.source
               LEFT JOIN shared.contact_links l ON l.tenant_id = p.tenant_id AND l.card = p.card
               LEFT JOIN LATERAL (SELECT shared.contact_face(p.contact) ->> 'name' AS name) c ON true
               LEFT JOIN LATERAL (SELECT shared.contact_entity_name(p.entity) AS name) e ON true
               WHERE p.tenant_id = shared.tenant() AND p.decided_at IS NULL
                 AND ($1::uuid IS NULL OR p.contact = $1 OR l.contact = $1)
               ORDER BY p.made_at, p.id LIMIT 200";
    lease.query(sql, &[&of]).await.column("shown").map_err(failed("reading proposals"))
}

/// The contacts of a name, with what tells them apart.
pub(super) async fn of_name(lease: &mut Lease, name: &str) -> Result<Vec<Value>, StoreError> {
    // Whichever address book speaks of them.
    let sql = "SELECT shared.contact_face(n.contact_id) AS shown FROM shared.contacts_by_name($1, $2) n
               WHERE n.contact_id IS NOT NULL";
    lease.query(sql, &[&name, &Uuid::nil()]).await.column("shown").map_err(failed("looking for contacts"))
}

/// The cards of a contact.
pub(super) async fn cards_of(lease: &mut Lease, contact: Uuid) -> Result<Vec<Value>, StoreError> {
    let sql = "SELECT jsonb_build_object('card_id', k.id, 'account', s.name, 'name', k.seen ->> 'name',
                   'identities', k.seen -> 'card', 'archived_at', k.archived_at) AS shown
               FROM shared.contact_links l
               JOIN shared.contact_cards k ON k.tenant_id = l.tenant_id AND k.id = l.card
               JOIN shared.contact_sources s ON s.tenant_id = k.tenant_id AND s.id = k.source
               WHERE l.tenant_id = shared.tenant() AND l.contact = $1 ORDER BY k.created_at, k.id";
    lease.query(sql, &[&contact]).await.column("shown").map_err(failed("reading a contact's cards"))
}

store::row! {
    /// Both sides had changed one card: what is compared, and what the card is now.
    pub(super) struct ConflictRow {
        pub id: i64,
        pub card: Uuid,
        pub kind: String,
        pub account: String,
        pub found_at: Timestamp,
        pub base: Option<Vec<u8>>,
        pub ours: Option<Vec<u8>>,
        pub theirs: Option<Vec<u8>>,
        pub now: Option<Vec<u8>>,
    }
}

/// The conflicts that nobody looked at yet, or this one.
pub(super) async fn conflicts(
    lease: &mut Lease,
    butler: &str,
    id: Option<i64>,
) -> Result<Vec<ConflictRow>, StoreError> {
    let sql =
        "SELECT x.id, x.card, x.kind, s.name AS account, x.at AS found_at, x.base, x.ours, x.theirs, k.ours AS now
               FROM shared.contact_card_conflicts x
               JOIN shared.contact_sources s ON s.tenant_id = x.tenant_id AND s.id = x.source
               JOIN shared.contact_source_readers r ON r.tenant_id = s.tenant_id AND r.source = s.id AND r.butler = $1
               LEFT JOIN shared.contact_cards k ON k.tenant_id = x.tenant_id AND k.id = x.card AND k.archived_at IS NULL
               WHERE x.tenant_id = shared.tenant()
                 AND CASE WHEN $2::bigint IS NULL THEN x.taken IS NULL AND x.kind <> 'merged' ELSE x.id = $2 END
               ORDER BY x.id LIMIT 100";
    lease.query(sql, &[&butler, &id]).await.typed().map_err(failed("reading conflicts"))
}

/// A card's bytes.
pub(super) async fn bytes(lease: &mut Lease, card: Uuid) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT ours FROM shared.contact_cards k WHERE k.tenant_id = shared.tenant() AND k.id = $1";
    lease.query(sql, &[&card]).await.cell("ours").map_err(failed("reading a card"))
}

/// How far senders are believed whom address books noted.
pub(super) async fn believe(lease: &mut Lease, believed: &str) -> Result<(), StoreError> {
    let done = lease.query("SELECT shared.contacts_believe($1)", &[&believed]).await;
    done.map(drop).map_err(failed("noting how far contacts are believed"))
}

/// Cards that changed, or whose contacts did, since both were compared; behind `after`.
pub(super) async fn due(lease: &mut Lease, source: Uuid, after: Uuid, most: i64) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT k.id FROM shared.contact_cards k
               LEFT JOIN shared.contact_links l ON l.tenant_id = k.tenant_id AND l.card = k.id
               WHERE k.tenant_id = shared.tenant() AND k.source = $1 AND k.archived_at IS NULL AND k.ours IS NOT NULL
                 AND k.id > $2
                 AND (k.worked IS DISTINCT FROM k.revision
                      OR l.state <> 'left_out' AND l.contact IS DISTINCT FROM (k.seen ->> 'contact')::uuid
                      OR l.state = 'apart' AND l.contact IS NULL
                      OR l.contact IS NOT NULL AND k.seen -> 'house' IS DISTINCT FROM shared.contact_face(l.contact))
               ORDER BY k.id LIMIT $3";
    lease.query(sql, &[&source, &after, &most]).await.column("id").map_err(failed("looking for cards"))
}

/// Nobody else changes who is who until the transaction ends.
pub(super) async fn hold_people(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('shared.contacts ' || shared.tenant(), 0))";
    tx.query(sql, &[]).await.map(drop).map_err(failed("holding contacts"))
}

/// A card. It, and of whom it speaks, is changed by nobody else until the transaction ends.
pub(super) async fn card(tx: &mut Tx<'_>, id: Uuid) -> Result<Option<CardRow>, StoreError> {
    let sql = "SELECT 1 FROM shared.contact_links l WHERE l.tenant_id = shared.tenant() AND l.card = $1 FOR UPDATE";
    tx.query(sql, &[&id]).await.map_err(failed("reading a card"))?;
    let sql = "SELECT k.id, k.revision, k.ours, k.seen, l.state, l.contact FROM shared.contact_cards k
               LEFT JOIN shared.contact_links l ON l.tenant_id = k.tenant_id AND l.card = k.id
               WHERE k.tenant_id = shared.tenant() AND k.id = $1 AND k.archived_at IS NULL FOR UPDATE OF k";
    tx.query(sql, &[&id]).await.first_typed().map_err(failed("reading a card"))
}

/// What a contact is called and how it is reached; `None`: there is none.
pub(super) async fn face(tx: &mut Tx<'_>, contact: Uuid) -> Result<Option<Value>, StoreError> {
    let rows = tx.query("SELECT shared.contact_face($1) AS face", &[&contact]).await;
    Ok(rows.map_err(failed("reading a contact"))?.first().and_then(|row| row.get("face")))
}

/// What other cards of a contact say, and whether one of them is older than this.
pub(super) async fn others(tx: &mut Tx<'_>, contact: Uuid, card: Uuid) -> Result<(Vec<Value>, bool), StoreError> {
    let sql = "SELECT coalesce(o.seen -> 'card', '[]') AS said, (o.created_at, o.id) < (k.created_at, k.id) AS older
               FROM shared.contact_cards k, shared.contact_links l
               JOIN shared.contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
               WHERE k.tenant_id = shared.tenant() AND k.id = $2 AND l.tenant_id = shared.tenant() AND l.contact = $1
                 AND o.id <> $2 AND o.archived_at IS NULL";
    let rows = tx.query(sql, &[&contact, &card]).await.map_err(failed("reading a contact's cards"))?;
    let older = rows.iter().any(|row| row.get("older"));
    Ok((rows.iter().map(|row| row.get("said")).collect(), older))
}

/// How other cards of the same address book call a contact.
pub(super) async fn called(tx: &mut Tx<'_>, contact: Uuid, card: Uuid) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT o.seen ->> 'name' AS name FROM shared.contact_cards k
               JOIN shared.contact_cards o ON o.tenant_id = k.tenant_id AND o.source = k.source AND o.id <> k.id
               JOIN shared.contact_links l ON l.tenant_id = o.tenant_id AND l.card = o.id AND l.contact = $1
               WHERE k.tenant_id = shared.tenant() AND k.id = $2 AND o.archived_at IS NULL AND o.seen ->> 'name' IS NOT NULL";
    tx.query(sql, &[&contact, &card]).await.column("name").map_err(failed("looking for a contact's cards"))
}

/// Of whom a person said that this card does not speak.
pub(super) async fn refused(tx: &mut Tx<'_>, card: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT p.contact FROM shared.contact_proposals p WHERE p.tenant_id = shared.tenant() AND p.card = $1
               AND p.kind <> 'owner' AND NOT p.accepted AND p.contact IS NOT NULL";
    tx.query(sql, &[&card]).await.column("contact").map_err(failed("reading what was decided of a card"))
}

/// Whose these identities are: each with its contact.
pub(super) async fn by_identity(tx: &mut Tx<'_>, ids: &Value) -> Result<Vec<(Uuid, String, String)>, StoreError> {
    let sql = "SELECT contact_id, channel, identity FROM shared.contacts_by_identity($1) ORDER BY 1, 2, 3";
    let rows = tx.query(sql, &[ids]).await.map_err(failed("looking for contacts"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// Whom a name may mean: a contact, or an entity that is none yet.
pub(super) async fn by_name(
    tx: &mut Tx<'_>,
    name: &str,
    source: Uuid,
) -> Result<Vec<(Option<Uuid>, Option<Uuid>)>, StoreError> {
    let sql = "SELECT contact_id, entity_id FROM shared.contacts_by_name($1, $2)";
    let rows = tx.query(sql, &[&name, &source]).await.map_err(failed("looking for contacts"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Makes a contact on the word of an address book.
pub(super) async fn make(tx: &mut Tx<'_>, name: &str, source: Uuid) -> Result<Uuid, StoreError> {
    let rows = tx.query("SELECT shared.contact_make_of($1, NULL, $2) AS id", &[&name, &source]).await;
    let rows = rows.map_err(failed("making a contact"))?;
    rows.first().map(|row| row.get("id")).ok_or_else(|| StoreError::Unexpected("no contact was made".to_owned()))
}

pub(super) async fn unarchive(tx: &mut Tx<'_>, contact: Uuid) -> Result<(), StoreError> {
    let done = tx.query("SELECT shared.contact_unarchive($1)", &[&contact]).await;
    done.map(drop).map_err(failed("taking a contact back"))
}

/// Notes an identity. Whose it is then.
pub(super) async fn note(
    tx: &mut Tx<'_>,
    contact: Uuid,
    source: Uuid,
    (channel, identity): (&str, &str),
    believed: &str,
) -> Result<Option<Uuid>, StoreError> {
    let sql = "SELECT shared.contact_identity_sync($1, $2, $3, $4, $5) AS whose";
    let rows = tx.query(sql, &[&contact, &source, &channel, &identity, &believed]).await;
    Ok(rows.map_err(failed("noting an identity"))?.first().and_then(|row| row.get("whose")))
}

/// Believes an identity of a contact as the settings say, where an address book noted it.
pub(super) async fn believe_again(
    tx: &mut Tx<'_>,
    contact: Uuid,
    (channel, identity): (&str, &str),
    believed: &str,
) -> Result<(), StoreError> {
    let sql = "SELECT shared.contact_identity_believe($1, $2, $3, $4)";
    let done = tx.query(sql, &[&contact, &channel, &identity, &believed]).await;
    done.map(drop).map_err(failed("noting how far an identity is believed"))
}

/// Forgets an identity of a contact; with a source, only if that noted it.
pub(super) async fn forget(
    tx: &mut Tx<'_>,
    contact: Uuid,
    (channel, identity): (&str, &str),
    only_of: Option<Uuid>,
) -> Result<(), StoreError> {
    let sql = "SELECT shared.contact_identity_unsync($1, $2, $3, $4)";
    let done = tx.query(sql, &[&contact, &channel, &identity, &only_of]).await;
    done.map(drop).map_err(failed("forgetting an identity"))
}

/// Calls a contact as its card does: the name is believed as the address book is.
pub(super) async fn rename(tx: &mut Tx<'_>, contact: Uuid, source: Uuid, name: &str) -> Result<(), StoreError> {
    let done = tx.query("SELECT shared.contact_rename_of($1, $2, $3)", &[&contact, &name, &source]).await;
    done.map(drop).map_err(failed("renaming a contact"))
}

pub(super) async fn link(tx: &mut Tx<'_>, card: Uuid, state: &str, contact: Option<Uuid>) -> Result<(), StoreError> {
    let sql = "INSERT INTO shared.contact_links AS l (card, state, contact) VALUES ($1, $2, $3)
               ON CONFLICT (tenant_id, card) DO UPDATE SET state = excluded.state, contact = excluded.contact
               WHERE (l.state, l.contact) IS DISTINCT FROM (excluded.state, excluded.contact)";
    tx.execute(sql, &[&card, &state, &contact]).await.map(drop).map_err(failed("linking a card"))
}

/// Takes back what people were asked about a card and have not answered.
pub(super) async fn unask(tx: &mut Tx<'_>, card: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM shared.contact_proposals p
               WHERE p.tenant_id = shared.tenant() AND p.card = $1 AND p.decided_at IS NULL";
    tx.execute(sql, &[&card]).await.map(drop).map_err(failed("taking a proposal back"))
}

/// Asks people about a card, unless the same was asked before.
pub(super) async fn ask(
    tx: &mut Tx<'_>,
    (card, kind): (Uuid, &str),
    (contact, entity): (Option<Uuid>, Option<Uuid>),
    says: &Value,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO shared.contact_proposals (card, kind, contact, entity, says)
               SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (
                   SELECT 1 FROM shared.contact_proposals p WHERE p.tenant_id = shared.tenant() AND p.card = $1
                   AND p.kind = $2 AND p.contact IS NOT DISTINCT FROM $3 AND p.entity IS NOT DISTINCT FROM $4
                   AND p.says = $5)";
    let done = tx.execute(sql, &[&card, &kind, &contact, &entity, says]).await;
    done.map(drop).map_err(failed("asking about a card"))
}

/// Notes that a card was compared, with what it became.
pub(super) async fn compared(
    tx: &mut Tx<'_>,
    card: &CardRow,
    ours: &Option<Vec<u8>>,
    seen: &Option<Value>,
) -> Result<(), StoreError> {
    let revision = card.revision + i64::from(*ours != card.ours);
    let sql = "UPDATE shared.contact_cards k SET ours = $2, seen = $3, revision = $4, worked = $4, updated_at = shared.clock()
               WHERE k.tenant_id = shared.tenant() AND k.id = $1";
    let done = tx.execute(sql, &[&card.id, ours, seen, &revision]).await;
    done.map(drop).map_err(failed("noting a card"))
}

/// People whom no address book speaks of, but those with these identities; each with their face.
pub(super) async fn without_card(tx: &mut Tx<'_>, but: &Value, most: i32) -> Result<Vec<(Uuid, Value)>, StoreError> {
    let sql = "SELECT contact_id, face FROM shared.contacts_without_card($1, $2)";
    let rows = tx.query(sql, &[but, &most]).await.map_err(failed("looking for people without a card"))?;
    Ok(rows.iter().map(|row| (row.get("contact_id"), row.get("face"))).collect())
}

/// Makes the card of a person of the house.
pub(super) async fn add_card(tx: &mut Tx<'_>, source: Uuid, item: &Item, seen: &Value) -> Result<(), StoreError> {
    let sql = "INSERT INTO shared.contact_cards (id, source, uid, ours, revision, worked, seen) VALUES ($1, $2, $3, $4, 1, 1, $5)";
    let done = tx.execute(sql, &[&item.id, &source, &item.uid, &item.ours, seen]).await;
    done.map(drop).map_err(failed("making a card"))
}

// For the sync.

pub(super) async fn cursor(lease: &mut Lease, source: Uuid) -> Result<Option<String>, StoreError> {
    let sql = "SELECT cursor FROM shared.contact_sources s WHERE s.tenant_id = shared.tenant() AND s.id = $1";
    lease.query(sql, &[&source]).await.cell("cursor").map_err(failed("reading how far an address book is read"))
}

pub(super) async fn set_cursor(lease: &mut Lease, source: Uuid, cursor: Option<&str>) -> Result<(), StoreError> {
    let sql = "UPDATE shared.contact_sources s SET cursor = $2 WHERE s.tenant_id = shared.tenant() AND s.id = $1";
    let done = lease.execute(sql, &[&source, &cursor]).await;
    done.map(drop).map_err(failed("noting how far an address book is read"))
}

pub(super) async fn items(lease: &mut Lease, source: Uuid, which: Which<'_>) -> Result<Vec<Item>, StoreError> {
    let sql =
        "SELECT i.id, i.revision, i.uid, i.href, i.etag, i.base, i.ours, i.sent, i.reread FROM shared.contact_cards i
               WHERE i.tenant_id = shared.tenant() AND i.source = $1 AND i.archived_at IS NULL AND {which}
               ORDER BY i.created_at, i.id";
    crate::items::items(lease, sql, source, which).await
}

pub(super) async fn linked(lease: &mut Lease, source: Uuid) -> Result<Vec<(Uuid, String)>, StoreError> {
    let sql = "SELECT k.id, k.href FROM shared.contact_cards k WHERE k.tenant_id = shared.tenant() AND k.source = $1
               AND k.archived_at IS NULL AND k.base IS NOT NULL AND k.href IS NOT NULL";
    let rows = lease.query(sql, &[&source]).await.map_err(failed("reading cards"))?;
    Ok(rows.iter().map(|row| (row.get("id"), row.get("href"))).collect())
}

pub(super) async fn pending(lease: &mut Lease, source: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT k.id FROM shared.contact_cards k WHERE k.tenant_id = shared.tenant() AND k.source = $1
               AND k.archived_at IS NULL AND (k.ours IS DISTINCT FROM k.base OR k.sent IS NOT NULL OR k.ours IS NULL)
               ORDER BY k.updated_at, k.id";
    lease.query(sql, &[&source]).await.column("id").map_err(failed("reading cards"))
}

/// Writes a card as the sync has it. `false`: it has another revision than was read.
pub(super) async fn save(tx: &mut Tx<'_>, source: Uuid, item: &Item) -> Result<bool, StoreError> {
    let seen = i64::try_from(item.revision).unwrap_or(i64::MAX);
    let sql = if seen == 0 {
        "INSERT INTO shared.contact_cards (id, source, uid, href, etag, base, ours, sent, reread, revision)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::bigint + 1) ON CONFLICT DO NOTHING"
    } else {
        "UPDATE shared.contact_cards k SET uid = $3, href = $4, etag = $5, base = $6, ours = $7, sent = $8, reread = $9,
                revision = k.revision + 1, updated_at = shared.clock()
         WHERE k.tenant_id = shared.tenant() AND k.id = $1 AND k.source = $2 AND k.revision = $10::bigint
           AND k.archived_at IS NULL"
    };
    let Item { id, uid, href, etag, base, ours, sent, reread, .. } = item;
    let done = tx.execute(sql, &[id, &source, uid, href, etag, base, ours, sent, reread, &seen]).await;
    Ok(done.map_err(failed("writing a card"))? > 0)
}

/// Archives a card that is at neither side any more. `false`: as above.
pub(super) async fn archive(tx: &mut Tx<'_>, source: Uuid, id: Uuid, revision: u64) -> Result<bool, StoreError> {
    let seen = i64::try_from(revision).unwrap_or(i64::MAX);
    let sql = "SELECT shared.contact_card_archive(k.id) FROM (
                   SELECT id FROM shared.contact_cards WHERE tenant_id = shared.tenant() AND id = $1 AND source = $2
                   AND revision = $3 AND archived_at IS NULL FOR UPDATE) k";
    let rows = tx.query(sql, &[&id, &source, &seen]).await.map_err(failed("archiving a card"))?;
    Ok(!rows.is_empty())
}

pub(super) async fn conflict(tx: &mut Tx<'_>, source: Uuid, card: Uuid, of: &Conflict) -> Result<(), StoreError> {
    let sql = "INSERT INTO shared.contact_card_conflicts (source, card, kind, uid, base, ours, theirs)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let done = tx.execute(sql, &[&source, &card, &of.kind.word(), &of.uid, &of.base, &of.ours, &of.theirs]).await;
    done.map(drop).map_err(failed("noting a conflict"))
}

/// The decisions of people, in a call's own transaction.
pub(super) mod decisions {
    use super::Uuid;
    use serde_json::Value;
    use store::AsRows as _;
    use tools::{EffectTx, ToolError};

    pub async fn record(tx: &mut EffectTx<'_, '_>, action: &str, what: &Value) -> Result<(), ToolError> {
        tx.query("INSERT INTO contact_decisions (action, what) VALUES ($1, $2)", &[&action, what]).await.map(drop)
    }

    pub async fn decide(tx: &mut EffectTx<'_, '_>, proposal: Uuid, yes: bool) -> Result<bool, ToolError> {
        let row = tx.query_opt("SELECT shared.people_decide($1, $2) AS done", &[&proposal, &yes]).await?;
        Ok(row.is_some_and(|row| row.get("done")))
    }

    pub async fn merge(tx: &mut EffectTx<'_, '_>, source: Uuid, target: Uuid) -> Result<bool, ToolError> {
        let row = tx.query_opt("SELECT shared.people_merge($1, $2) AS done", &[&source, &target]).await?;
        Ok(row.is_some_and(|row| row.get("done")))
    }

    pub async fn choose(tx: &mut EffectTx<'_, '_>, conflict: i64, choice: &str) -> Result<bool, ToolError> {
        let row = tx.query_opt("SELECT shared.people_choose($1, $2) AS done", &[&conflict, &choice]).await?;
        Ok(row.is_some_and(|row| row.get("done")))
    }

    pub async fn split(
        tx: &mut EffectTx<'_, '_>,
        card: Uuid,
        name: &str,
        ids: &Value,
    ) -> Result<Option<Uuid>, ToolError> {
        tx.query_opt("SELECT shared.people_split($1, $2, $3) AS made", &[&card, &name, ids]).await.cell("made")
    }
}
