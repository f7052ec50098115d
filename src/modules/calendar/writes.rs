//! Tools that change calendars.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::args::{attendees, change, instance, names, scope, texts};
use super::book::{Book, refused};
use super::conflicts::{Way, look, overlaps};
use super::sql::{self, EventRow};
use ::tools::{EffectTx, ToolCall, ToolError};
use base::crash;
use calendar::{Attendee, Change, Edited, Object, Scope, When, is_one_of, remove, update};

/// Whoever is told of a change is told of all that is sent with it.
const NOT_SENT: &str = "An earlier change of this event, of which people are to be told, is not at Google yet: they would be told of \
                        this one, too. Nothing was changed; call again when calendar_sync_status shows that nothing waits.";

/// One step of a call's transaction.
pub(super) enum Step {
    Put {
        object: Object,
        id: Uuid,
        source: Uuid,
        seen: Option<i64>,
    },
    Drop {
        id: Uuid,
        revision: i64,
    },
    /// A person chose a version of a conflict.
    Chosen {
        id: Uuid,
        choice: String,
    },
}

fn changed_meanwhile() -> ToolError {
    ToolError::refused("changed", "Somebody else changed this event just now. Nothing was changed; look at it again.")
}

pub(super) fn read_only(calendar: &str) -> ToolError {
    let why = format!("The calendar `{calendar}` can only be read: its server lets this account change nothing there.");
    ToolError::refused("read_only", why)
}

/// Whom a call wants told of its change, by a provider that does as it is told. `None`: nobody.
pub(super) fn told_to(call: &ToolCall) -> Option<&str> {
    call.text("send_updates").filter(|whom| *whom != "none")
}

/// Which entities a call wants its event to be about. `None`: it says nothing of that.
fn about(call: &ToolCall) -> Option<Vec<Uuid>> {
    let clear = call.args.get("clear_entity_ids").and_then(Value::as_bool).unwrap_or(false);
    let ids = || texts(call, "entity_ids").iter().filter_map(|id| id.parse::<Uuid>().ok()).collect();
    (clear || call.args.contains_key("entity_ids")).then(ids)
}

/// The event of a call that is to be changed.
pub(super) async fn event(call: &ToolCall, book: &Book) -> Result<(EventRow, Object), ToolError> {
    let found = book.event(call).await?;
    let sources = book.sources(call, &[]).await?;
    match sources.iter().find(|source| source.id == found.0.source && source.read_only) {
        Some(source) => Err(read_only(&source.name)),
        None => Ok(found),
    }
}

/// Refuses what would answer an invitation in passing: servers tell whoever invites when an attendee takes it away, cancels
/// it or is no longer on its list. A session does that only after the owner declined, or approved it.
fn answers_in_passing(call: &ToolCall, book: &Book, object: &Object) -> Result<(), ToolError> {
    let declined = || object.events.iter().all(|event| matches!(event.answer_of(book.own()), None | Some("declined")));
    // Nobody's influence is noted of what a person calls or has approved.
    if call.caller.taint().is_none() || book.inviter(object).is_none() || declined() {
        return Ok(());
    }
    let why = "Somebody else invites to this event, and its server may tell them of this as an answer. Nothing was changed. Decline it \
               with calendar_respond_to_invitation first, which the owner is asked about.";
    Err(ToolError::refused("answer_first", why))
}

/// Refuses a list of attendees that the owner is taken off of. `before`: the list until then.
fn stays_asked(
    call: &ToolCall,
    book: &Book,
    object: &Object,
    (before, left): (&[Attendee], &[Attendee]),
) -> Result<(), ToolError> {
    let stays = |one: &Attendee| left.iter().any(|other| other.email.eq_ignore_ascii_case(&one.email));
    let mut own = before.iter().filter(|one| is_one_of(book.own(), &one.email));
    if own.all(stays) { Ok(()) } else { answers_in_passing(call, book, object) }
}

/// The hash of a call: its tool and its arguments, without its key.
fn hash(call: &ToolCall) -> Vec<u8> {
    let mut args = (*call.args).clone();
    args.remove("request_id");
    Sha256::digest(json!([call.def.name, args]).to_string()).to_vec()
}

/// The first result of this call, if its key was used before.
async fn earlier(call: &ToolCall, book: &Book) -> Result<Option<Value>, ToolError> {
    let Some(key) = call.text("request_id") else { return Ok(None) };
    match sql::done(call, key).await? {
        Some((known, result)) if known == hash(call) => Ok(Some(with_overlaps(call, book, result).await)),
        Some(_) => {
            let why =
                format!("request_id {key} was used for another call already. Nothing was changed; use a new one.");
            Err(ToolError::refused("key_used", why))
        }
        None => Ok(None),
    }
}

/// Does all steps and notes the result under the call's key, in one transaction with the call's audit row.
pub(super) async fn settle(call: &ToolCall, book: &Book, steps: Vec<Step>, result: Value) -> Result<Value, ToolError> {
    let mut result = result;
    if let Some(said) = book.of_telling(call.text("send_updates")) {
        result["note"] = json!(said);
    }
    let now = call.store.clock().now();
    // A second half of a stranger's series is a stranger's, and so is a result that names a stranger's event.
    let mut lease = call.lease_of_shown().await?;
    let mut tx = call.begin(&mut lease).await?;
    let done = take(&mut tx, book, &steps, now, (call, &result)).await;
    match done {
        Ok(()) => {
            tx.commit().await?;
            crash::point("calendar.changed");
            book.nudge.notify_one();
        }
        Err(e) => {
            tx.rollback().await?;
            return Err(e);
        }
    }
    Ok(result)
}

async fn take(
    tx: &mut EffectTx<'_, '_>,
    book: &Book,
    steps: &[Step],
    now: jiff::Timestamp,
    (call, result): (&ToolCall, &Value),
) -> Result<(), ToolError> {
    for step in steps {
        let done = match step {
            Step::Put { object, id, source, seen } => {
                let written = book.written(object, *id, *source, *seen, now)?;
                sql::put(tx, &written).await?
            }
            Step::Drop { id, revision } => sql::remove(tx, *id, *revision).await?,
            Step::Chosen { id, choice } => sql::chosen(tx, *id, choice).await?,
        };
        if !done {
            return Err(changed_meanwhile());
        }
        let of = match step {
            Step::Put { id, .. } => Some((*id, false)),
            Step::Drop { id, .. } => Some((*id, true)),
            Step::Chosen { .. } => None,
        };
        if let Some((id, gone)) = of.filter(|_| book.tells())
            && !sql::tell(tx, id, told_to(call), gone).await?
        {
            return Err(ToolError::refused("changed", NOT_SENT));
        }
    }
    let put = |step: &Step| if let Step::Put { id, .. } = step { Some(*id) } else { None };
    let about = about(call);
    if let (Some(first), Some(id)) = (steps.first().and_then(put), steps.last().and_then(put))
        && (about.is_some() || first != id)
        && let Some(none) = sql::set_about(tx, (id, first), about.as_deref()).await?
    {
        return Err(ToolError::refused("not_found", format!("There is no entity {none}. Nothing was changed.")));
    }
    if let Some(key) = call.text("request_id")
        && !sql::note(tx, key, &call.def.name, &hash(call), result).await?
    {
        return Err(ToolError::refused(
            "changed",
            "The same call is at work already. Look at its result, or call again.",
        ));
    }
    Ok(())
}

/// What became of an event, or of one instance of it.
pub(super) fn told(status: &str, id: Uuid, (object, instance): (&Object, Option<&When>), book: &Book) -> Value {
    let event = instance.map_or_else(|| object.main(), |of| object.shown_as(of, book.home()));
    json!({"status": status, "event_id": id, "title": event.title, "start_at": event.start.shown(book.home()),
           "end_at": event.end.shown(book.home()), "all_day": event.start.is_date(), "recurring": object.repeats()})
}

pub(super) async fn create(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let sources = book.sources(call, &names(call)).await?;
    if let Some(result) = earlier(call, book).await? {
        return Ok(result);
    }
    let source = sources.first().ok_or_else(|| ToolError::refused("not_found", "This butler has no calendar."))?;
    if source.read_only {
        return Err(read_only(&source.name));
    }
    let source = source.id;
    let now = call.store.clock().now();
    let id = Uuid::now_v7();
    let change = change(call, book, None)?;
    let object = Object::create(&format!("{id}@butlerd"), &change, now, book.home()).map_err(refused)?;
    let mut result = told("created", id, (&object, None), book);
    match look(call, book, &object, &[]).await? {
        Way::Taken(answer) => return Ok(answer),
        Way::Overlaps => result["overlaps"] = Value::Null,
        Way::Free => {}
    }
    let done = settle(call, book, vec![Step::Put { object, id, source, seen: None }], result).await?;
    Ok(with_overlaps(call, book, done).await)
}

/// A result with what its event overlaps now: the words of others are not kept with it. The change is done: that this can't
/// be told now is no reason to call it failed, and null says that nobody knows.
async fn with_overlaps(call: &ToolCall, book: &Book, mut done: Value) -> Value {
    if done.get("overlaps").is_some() {
        let id = |key: &&str| done[*key].as_str().and_then(|id| id.parse::<Uuid>().ok());
        let own: Vec<Uuid> = ["event_id", "split_from"].iter().filter_map(id).collect();
        done["overlaps"] = overlaps(call, book, &own).await.unwrap_or_else(|e| {
            tracing::warn!(event = ?own, error = %e, "what an event overlaps can't be told");
            Value::Null
        });
    }
    done
}

pub(super) async fn change_event(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    if let Some(result) = earlier(call, book).await? {
        return Ok(result);
    }
    let (row, object) = event(call, book).await?;
    // From an instance on it is an event of its own, which takes the owner's answer along to whoever invites.
    if call.text("status").is_some() || scope(call) == Scope::Following {
        answers_in_passing(call, book, &object)?;
    }
    let (scope, at) = (scope(call), instance(call, book, object.main())?);
    let of = at.as_ref().filter(|_| scope == Scope::This);
    let old = of.map_or_else(|| object.main(), |of| object.shown_as(of, book.home()));
    let change = change(call, book, Some(old))?;
    if let Some(left) = &change.attendees {
        stays_asked(call, book, &object, (&old.attendees, left))?;
    }
    if about(call).is_some() && scope == Scope::This {
        let why = "entity_ids are those of all instances: change the series, or following. Nothing was changed.";
        return Err(ToolError::refused("invalid_arguments", why));
    }
    if change == Change::default() && about(call).is_none() {
        return Err(ToolError::refused("invalid_arguments", "Nothing is to change: give a title, a time or the like."));
    }
    let moved = change.start.is_some() || change.end.is_some() || change.rule.is_some() || change.busy == Some(true)
        // What was cancelled took no time.
        || change.status.is_some();
    edit(call, book, (row, object), (scope, change, moved)).await
}

/// Makes a change of an event, in its scope.
async fn edit(
    call: &ToolCall,
    book: &Book,
    (row, object): (EventRow, Object),
    (scope, change, moved): (Scope, Change, bool),
) -> Result<Value, ToolError> {
    let (now, home) = (call.store.clock().now(), book.home());
    let fresh = Uuid::now_v7();
    let at = instance(call, book, object.main())?;
    let edited =
        update(&object, scope, at.as_ref(), &change, (now, home, &format!("{fresh}@butlerd"))).map_err(refused)?;
    let Edited { object: before, following } = edited;
    let Some(before) = before else { return Err(changed_meanwhile()) };
    let new = following.as_ref().unwrap_or(&before);
    let id = if following.is_some() { fresh } else { row.id };
    let mut result = told("updated", id, (new, at.as_ref().filter(|_| scope == Scope::This)), book);
    if moved {
        match look(call, book, new, &[row.id]).await? {
            Way::Taken(answer) => return Ok(answer),
            Way::Overlaps => result["overlaps"] = Value::Null,
            Way::Free => {}
        }
    }
    let mut steps = vec![Step::Put { object: before, id: row.id, source: row.source, seen: Some(row.revision) }];
    if let Some(object) = following {
        result["split_from"] = json!(row.id);
        steps.push(Step::Put { object, id: fresh, source: row.source, seen: None });
    }
    let done = settle(call, book, steps, result).await?;
    Ok(with_overlaps(call, book, done).await)
}

pub(super) async fn delete(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    if let Some(result) = earlier(call, book).await? {
        return Ok(result);
    }
    let (row, object) = event(call, book).await?;
    answers_in_passing(call, book, &object)?;
    let now = call.store.clock().now();
    let edited = remove(&object, scope(call), instance(call, book, object.main())?.as_ref(), now, book.home())
        .map_err(refused)?;
    let step = match edited.object {
        Some(object) => Step::Put { object, id: row.id, source: row.source, seen: Some(row.revision) },
        None => Step::Drop { id: row.id, revision: row.revision },
    };
    let left = matches!(step, Step::Put { .. });
    let result = json!({"status": "deleted", "event_id": row.id, "title": object.main().title, "series_left": left});
    settle(call, book, vec![step], result).await
}

pub(super) async fn add_attendees(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let (row, object) = event(call, book).await?;
    let optional = call.args.get("optional").and_then(Value::as_bool).unwrap_or(false);
    let known = &object.main().attendees;
    let mut new = attendees(call, known, optional)?;
    new.retain(|one| !known.iter().any(|old| old.email.eq_ignore_ascii_case(&one.email)));
    let all = [known.clone(), new].concat();
    let change = Change { attendees: Some(all), organizer: book.organizer(), ..Change::default() };
    edit(call, book, (row, object), (Scope::Series, change, false)).await
}

pub(super) async fn remove_attendees(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let (row, object) = event(call, book).await?;
    let named = texts(call, "attendees");
    let goes = |known: &Attendee| named.iter().any(|email| email.eq_ignore_ascii_case(&known.email));
    // Of single instances, too.
    let all = object.events.iter().flat_map(|event| event.attendees.clone());
    let (gone, stay): (Vec<Attendee>, Vec<Attendee>) = all.partition(goes);
    stays_asked(call, book, &object, (&gone, &stay))?;
    let left = object.main().attendees.iter().filter(|one| !goes(one)).cloned().collect();
    let change = Change { attendees: Some(left), gone, ..Change::default() };
    edit(call, book, (row, object), (Scope::Series, change, false)).await
}
