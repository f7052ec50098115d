//! What a butler says: answers, messages, reminders, and what became of them.

mod deliver;
mod delivery_hooks;
mod files;
mod notifications;
mod notify;
mod remind;

use std::sync::Arc;

use serde_json::Value;

pub(super) use deliver::deliver_tool;
pub(super) use delivery_hooks::{Replies, listen};

use notifications::notifications_tool;
use notify::notify_tool;
use remind::remind_tool;

use inbox::Inbox;
use outbox::Outbox;
use schedule::Scheduler;
use tools::{Definition, Meta, Tool};

/// The tools.
pub(super) fn outbound_tools(inbox: &Inbox, outbox: &Outbox, schedules: &Scheduler) -> Vec<Tool> {
    vec![notify_tool(inbox, outbox), remind_tool(outbox, schedules), notifications_tool()]
}

fn define(name: &str, description: &str, schema: Value, meta: Meta) -> Arc<Definition> {
    Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
}
