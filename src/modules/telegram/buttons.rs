//! Buttons below what the owner is asked to decide.
//!
//! A button's data holds what is decided on and the begin of the hash of what the message showed: a call that is not what
//! was shown is not approved. Only a press of the owner's own account counts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};
use uuid::Uuid;

use super::CHANNEL;
use super::api::Api;
use super::format::{Formatted, LONGEST};
use super::types::CallbackQuery;
use crate::contract::ModuleContext;
use approvals::{Action, Actions, DecideError, Ruling, Subject};
use base::TenantId;
use outbox::DecisionRequest;

/// Telegram takes 64 bytes with a button; this much of a hash fits beside the rest.
const HASH: usize = 32;
/// As the record of decisions names whoever presses.
const DECIDER: &str = "owner on telegram";

/// What a button does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Press {
    Allow,
    Refuse,
    ShowAll,
}

impl Press {
    fn letter(self) -> char {
        match self {
            Press::Allow => 'a',
            Press::Refuse => 'r',
            Press::ShowAll => 's',
        }
    }
}

/// A button's data.
fn data(press: Press, asked: &DecisionRequest) -> String {
    let kind = if asked.proposal { 'p' } else { 'c' };
    let hash = match press {
        Press::Allow => asked.seen.as_deref().map(|seen| &seen[..seen.len().min(HASH)]).unwrap_or_default(),
        Press::Refuse | Press::ShowAll => "",
    };
    format!("{}{kind}{}{hash}", press.letter(), BASE64.encode(asked.id.as_bytes()))
}

/// What a button's data say: what to do, on what, and the begin of the hash of what was shown.
fn read(data: &str) -> Option<(Press, Subject, &str)> {
    let press = [Press::Allow, Press::Refuse, Press::ShowAll].into_iter().find(|p| data.starts_with(p.letter()))?;
    let (kind, id, hash) = (data.get(1..2)?, data.get(2..24)?, data.get(24..)?);
    let id = Uuid::from_slice(&BASE64.decode(id).ok()?).ok()?;
    let subject = match kind {
        "c" => Subject::Action(id),
        "p" => Subject::Proposal(id),
        _ => return None,
    };
    Some((press, subject, hash))
}

/// The buttons below a message that asks for these decisions: a row for each.
pub(super) fn keyboard(asks: &[DecisionRequest]) -> Value {
    let many = asks.len() > 1;
    let row = |(n, asked): (usize, &DecisionRequest)| {
        let button = |press: Press, words: &str| {
            let words = if many { format!("[{}] {words}", n + 1) } else { words.to_owned() };
            json!({"text": words, "callback_data": data(press, asked)})
        };
        let first = match &asked.seen {
            Some(_) => button(Press::Allow, if asked.proposal { "Allow all of it" } else { "Allow once" }),
            None => button(Press::ShowAll, "Show all"),
        };
        json!([first, button(Press::Refuse, if asked.proposal { "Refuse all of it" } else { "Refuse" })])
    };
    json!({"inline_keyboard": asks.iter().enumerate().map(row).collect::<Vec<_>>()})
}

/// Carries out what buttons say.
pub(super) struct Buttons {
    api: Api,
    cx: ModuleContext,
}

impl Buttons {
    pub fn new(api: &Api, cx: &ModuleContext) -> Self {
        Self { api: api.clone(), cx: cx.clone() }
    }

    fn actions(&self) -> &Actions {
        self.cx.gate.actions()
    }

    /// Somebody pressed a button. Pressing it again, after a kill for example, says what it is by then.
    pub async fn pressed(&self, query: &CallbackQuery) {
        let tenant = TenantId::owner();
        let own = self.cx.inbound.is_owners(&tenant, CHANNEL, &query.from.id.to_string());
        let asked = query.data.as_deref().and_then(read);
        let said = match asked {
            _ if !own => "Only the owner of this household decides.".to_owned(),
            None => "This button is of another time and does nothing.".to_owned(),
            Some((Press::ShowAll, subject, _)) => self.show(&tenant, query, subject).await,
            Some((press, subject, hash)) => {
                let said = self.decide(&tenant, press, subject, hash).await;
                let over = !matches!(said, Err(DecideError::Store(_) | DecideError::Unseen { .. }));
                if over {
                    self.take_away(query).await;
                }
                said.unwrap_or_else(|e| match e {
                    DecideError::Unknown(_) => "This does not wait any more.".to_owned(),
                    DecideError::Changed => "It changed since it was shown. See: butlerd approvals".to_owned(),
                    DecideError::Decided(status) => format!("It is {status} already."),
                    other => other.to_string(),
                })
            }
        };
        let answer =
            json!({"callback_query_id": query.id, "text": base::text::truncate(&said, 180), "show_alert": !own});
        if let Err(e) = self.api.call::<Value>("answerCallbackQuery", &answer).await {
            tracing::debug!(error = %e, "a press on a button was not answered");
        }
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        press: Press,
        subject: Subject,
        hash: &str,
    ) -> Result<String, DecideError> {
        let ruling = match press {
            Press::Allow => Ruling::Approve(Some(self.whole_hash(tenant, subject, hash).await?)),
            _ => Ruling::Reject(None),
        };
        let decided = self.actions().decide(tenant, subject, DECIDER, &ruling).await?;
        for action in &decided {
            self.cx.inbound.decided(&action.butler);
        }
        Ok(if press == Press::Allow { "Allowed, once." } else { "Refused." }.to_owned())
    }

    /// The hash of what waits, if it begins as what was shown does.
    async fn whole_hash(&self, tenant: &TenantId, subject: Subject, begin: &str) -> Result<String, DecideError> {
        let now = match subject {
            Subject::Action(id) => self.waiting(tenant, id).await?.shown_sha256(),
            Subject::Proposal(id) => self.actions().proposal(tenant, id).await?.1,
        };
        let same = begin.len() == HASH && now.starts_with(begin);
        if same { Ok(now) } else { Err(DecideError::Changed) }
    }

    async fn waiting(&self, tenant: &TenantId, id: Uuid) -> Result<Action, DecideError> {
        self.actions().get(tenant, id).await?.ok_or(DecideError::Unknown(id))
    }

    /// Shows all pages of what is asked for, each with its buttons below the last.
    async fn show(&self, tenant: &TenantId, query: &CallbackQuery, subject: Subject) -> String {
        let Some(chat) = query.message.as_ref().map(|message| message.chat.id) else {
            return "It can't be shown here. See: butlerd approvals".to_owned();
        };
        let calls = match subject {
            Subject::Action(id) => self.waiting(tenant, id).await.map(|call| vec![call]),
            Subject::Proposal(id) => self.actions().proposal(tenant, id).await.map(|(calls, _)| calls),
        };
        let calls = match calls {
            Ok(calls) => calls,
            Err(e) => return e.to_string(),
        };
        for call in calls {
            if let Err(why) = self.show_one(tenant, chat, &call).await {
                return why;
            }
        }
        "All of it stands below.".to_owned()
    }

    async fn show_one(&self, tenant: &TenantId, chat: i64, call: &Action) -> Result<(), String> {
        let pages = call.pages();
        let parts: Vec<Formatted> = pages.iter().flat_map(|page| Formatted::plain(page).parts(LONGEST)).collect();
        for (n, part) in parts.iter().enumerate() {
            let mut message =
                json!({"chat_id": chat, "text": part.text, "link_preview_options": {"is_disabled": true}});
            if n + 1 == parts.len() {
                let numbers: Vec<i32> = (1..).take(pages.len()).collect();
                let noted = self.actions().note_shown(tenant, call, DECIDER, &numbers).await;
                noted.map_err(|e| e.to_string())?;
                let asked = DecisionRequest { id: call.id, proposal: false, seen: Some(call.shown_sha256()) };
                message["reply_markup"] = keyboard(&[asked]);
            }
            self.api.call::<Value>("sendMessage", &message).await.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Takes the row of the button that was pressed out of the message.
    async fn take_away(&self, query: &CallbackQuery) {
        let Some(message) = &query.message else { return };
        let pressed = query.data.as_deref().and_then(|data| data.get(1..24)).unwrap_or_default();
        let rows = message.more.get("reply_markup").and_then(|markup| markup["inline_keyboard"].as_array());
        let others = |row: &&Value| {
            let buttons = row.as_array().into_iter().flatten();
            let mut of = buttons.filter_map(|button| button["callback_data"].as_str()?.get(1..24));
            !of.any(|own| own == pressed)
        };
        let left: Vec<&Value> = rows.into_iter().flatten().filter(others).collect();
        let edit = json!({"chat_id": message.chat.id, "message_id": message.message_id,
                          "reply_markup": {"inline_keyboard": left}});
        if let Err(e) = self.api.call::<Value>("editMessageReplyMarkup", &edit).await {
            tracing::debug!(error = %e, "buttons were not taken away");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buttons_data_fit_and_say_what_was_shown() {
        let asked = DecisionRequest { id: Uuid::now_v7(), proposal: false, seen: Some("ab".repeat(32)) };
        let allow = data(Press::Allow, &asked);
        assert!(allow.len() <= 64, "{}", allow.len());
        let (press, subject, hash) = read(&allow).unwrap();
        assert!(press == Press::Allow && matches!(subject, Subject::Action(id) if id == asked.id));
        assert_eq!(hash, "ab".repeat(16));
        let refuse = data(Press::Refuse, &DecisionRequest { proposal: true, ..asked.clone() });
        assert!(matches!(read(&refuse), Some((Press::Refuse, Subject::Proposal(id), "")) if id == asked.id));
        for wrong in ["", "a", "ac", "xc0123456789", "acäöüäöüäöüäöüäöüäöüäöü"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
        let unseen = keyboard(&[DecisionRequest { seen: None, ..asked }]);
        assert_eq!(unseen["inline_keyboard"][0][0]["text"], "Show all");
    }
}
