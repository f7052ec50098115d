//! `butlerd rules` and `butlerd contacts`: the switchboard's own tools, for people.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::common::Id;
use super::out::{Out, Tone};
use super::text::{count, one_line};
use super::{Caller, Outcome};
use admin::IdKind;
use admin::api::ContactsApiClient;
use inbox::SWITCHBOARD;
use inbox::triage::Rule;

/// `rules`
#[derive(Debug, Subcommand)]
pub enum Rules {
    /// List the rules in the order in which they are tried
    List,
    /// Add a rule; the first that matches a message decides
    Add {
        #[command(flatten)]
        rule: NewRule,
        /// Lower ones are tried first [default: after all others]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
        position: Option<u32>,
        /// Why it is there
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Show what all rules, one of them, or a new one would have done with the newest messages; changes nothing
    Test {
        /// An existing rule, even one that is off
        #[arg(long, value_name = "RULE")]
        id: Option<Id>,
        /// A new rule, as for `add`
        #[arg(requires_all = ["pattern", "action"], conflicts_with = "id")]
        kind: Option<String>,
        pattern: Option<String>,
        action: Option<String>,
        butler: Option<String>,
        /// How many messages
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        last: u32,
    },
    /// Switch a rule on
    Enable { id: Id },
    /// Switch a rule off
    Disable { id: Id },
    /// Remove a rule
    Rm { id: Id },
}

/// What a rule says
#[derive(Debug, Args, Serialize)]
pub struct NewRule {
    /// sender_address, sender_domain, header, substring, chat_id, channel or mime_type
    pub kind: String,
    /// Such as example.org, `List-Id: news`, image/*
    pub pattern: String,
    /// skip, metadata_only, low_priority, route_to or pass
    pub action: String,
    /// Where to, for route_to
    pub butler: Option<String>,
}

/// `contacts`
#[derive(Debug, Subcommand)]
pub enum Contacts {
    /// List the people whom the household knows
    List,
    /// Add an identity of a person, such as an email address
    Add {
        name: String,
        channel: String,
        identity: String,
        /// No message has come through this channel yet
        #[arg(long)]
        new_channel: bool,
    },
    /// Invite a person: whoever opens the link, or shows the code, is known by this name from then on
    Pair {
        name: String,
        #[arg(default_value = "telegram")]
        channel: String,
    },
    /// Remove an identity
    Rm { channel: String, identity: String },
    #[command(flatten)]
    AddressBook(super::address_book::AddressBook),
}

/// What a dry run found.
#[derive(Deserialize, Serialize)]
struct Tried {
    looked_at: usize,
    fitted: usize,
    messages: Vec<Decided>,
}

/// A message that a rule would have decided on.
#[derive(Deserialize, Serialize)]
struct Decided {
    request_id: Uuid,
    channel: String,
    sender: String,
    text: String,
    would: String,
    butler: Option<String>,
    was: Option<String>,
    /// What else it says.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// An identity under which a person writes.
#[derive(Deserialize, Serialize)]
struct Contact {
    name: String,
    channel: String,
    identity: String,
    /// What else its row has.
    #[serde(flatten)]
    more: Map<String, Value>,
}

pub async fn rules(caller: Caller, what: Rules) -> Outcome {
    let out = &caller.out;
    match what {
        Rules::List => {
            let rules: Vec<Rule> = caller.tool(SWITCHBOARD, "triage_rule_list", json!({})).await?;
            out.list(&rules, &[], |out, rules| {
                out.table(rules)
                    .ids("RULE", |r| r.id)
                    .column("POSITION", |r| r.position)
                    .column("KIND", |r| r.kind.as_str())
                    .column("PATTERN", |r| one_line(&r.pattern, 60))
                    .column("ACTION", |r| r.action.as_str())
                    .column("BUTLER", |r| &r.butler)
                    .column("STATE", |r| if r.enabled { (Tone::Good, "on") } else { (Tone::Faint, "off") })
                    .column("NOTE", |r| r.note.as_deref().map(|note| one_line(note, 60)))
                    .print("No rules. Add one with: butlerd rules add KIND PATTERN ACTION");
            })
        }
        Rules::Add { rule, position, note } => {
            let args = json!({"kind": rule.kind, "pattern": rule.pattern, "action": rule.action,
                              "butler": rule.butler, "position": position, "note": note});
            let added: Rule = caller.tool(SWITCHBOARD, "triage_rule_add", args).await?;
            out.answer(&added, |out, rule| out.line(&format!("Rule {} stands at position {}.", rule.id, rule.position)))
        }
        Rules::Test { id, kind, pattern, action, butler, last } => {
            let id = match id {
                Some(id) => Some(caller.id(IdKind::Rule, &id).await?),
                None => None,
            };
            let args = json!({"rule_id": id, "kind": kind, "pattern": pattern, "action": action, "butler": butler,
                              "last": last});
            out.answer(&caller.tool::<Tried>(SWITCHBOARD, "triage_dry_run", args).await?, tried)
        }
        Rules::Enable { id } => switch(&caller, &id, true).await,
        Rules::Disable { id } => switch(&caller, &id, false).await,
        Rules::Rm { id } => {
            let id = caller.id(IdKind::Rule, &id).await?;
            let removed: Value = caller.tool(SWITCHBOARD, "triage_rule_remove", json!({ "id": id })).await?;
            out.answer(&removed, |out, _| out.line(&format!("Rule {id} is removed.")))
        }
    }
}

async fn switch(caller: &Caller, id: &Id, on: bool) -> Outcome {
    let id = caller.id(IdKind::Rule, id).await?;
    let rule: Rule = caller.tool(SWITCHBOARD, "triage_rule_update", json!({"id": id, "enabled": on})).await?;
    caller.out.answer(&rule, |out, _| out.line(&format!("Rule {id} is {}.", if on { "on" } else { "off" })))
}

fn tried(out: &Out, found: &Tried) {
    out.line(&format!("{} of {} would be decided.", found.messages.len(), count(found.looked_at, "message")));
    if !found.messages.is_empty() {
        out.table(&found.messages)
            .ids("REQUEST", |m| m.request_id)
            .column("CHANNEL", |m| &m.channel)
            .column("SENDER", |m| one_line(&m.sender, 60))
            .column("TEXT", |m| one_line(&m.text, 60))
            .column("WOULD", |m| &m.would)
            .column("BUTLER", |m| &m.butler)
            .column("WAS", |m| &m.was)
            .print("");
    }
}

pub async fn contacts(caller: Caller, what: Contacts) -> Outcome {
    let out = &caller.out;
    match what {
        Contacts::List => {
            let people: Vec<Contact> = caller.tool(SWITCHBOARD, "contact_identity_list", json!({})).await?;
            out.list(&people, &[], |out, people| {
                out.table(people)
                    .column("NAME", |p| one_line(&p.name, 60))
                    .column("CHANNEL", |p| &p.channel)
                    .column("IDENTITY", |p| one_line(&p.identity, 60))
                    .print("No contacts. Add one with: butlerd contacts add NAME CHANNEL IDENTITY");
            })
        }
        Contacts::Add { name, channel, identity, new_channel } => {
            let args = json!({"name": name, "channel": channel, "identity": identity, "new_channel": new_channel});
            let added: Value = caller.tool(SWITCHBOARD, "contact_identity_add", args).await?;
            out.answer(&added, |out, _| out.line(&format!("{name} is known on {channel} as {identity}.")))
        }
        Contacts::Pair { name, channel } => {
            caller.show(caller.quick()?.contacts_pair(name, channel).await, |out, made| {
                // The link alone on standard output, so that it can be passed on.
                out.line(made.link.expose());
                let (name, channel) = (&made.name, &made.channel);
                out.aside(&format!(
                    "Give it to {name}, and to nobody else: the first account that opens it is theirs."
                ));
                out.aside(&format!("Or they write to the bot on {channel}: /start {}", made.code.expose()));
                out.aside(&format!("It is good until {}, and not shown again.", out.moment(made.expires_at)));
            })
        }
        Contacts::Rm { channel, identity } => {
            let args = json!({"channel": channel, "identity": identity});
            let removed: Value = caller.tool(SWITCHBOARD, "contact_identity_remove", args).await?;
            out.answer(&removed, |out, _| out.line(&format!("{identity} on {channel} is a stranger again.")))
        }
        Contacts::AddressBook(what) => super::address_book::run(caller, what).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;
    use inbox::Action;
    use inbox::triage::Kind;

    use super::*;

    #[test]
    fn the_help_names_each_kind_and_each_action() {
        let mut rules = Rules::augment_subcommands(clap::Command::new("rules"));
        let help = rules.find_subcommand_mut("add").expect("a command").render_long_help().to_string();
        let names = Kind::ALL.iter().map(|kind| kind.as_str()).chain(Action::ALL.iter().map(|action| action.as_str()));
        for name in names {
            assert!(help.contains(name), "{name}: {help}");
        }
    }
}
